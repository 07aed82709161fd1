"""Rubrics made of rubrics."""

from __future__ import annotations

import math
from collections.abc import Coroutine, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import partial
from typing import Any, ClassVar

from ..errors import ConfigError, UnsupportedError
from .base import Rubric, Score, finite_setting
from .flow import Flow, settle, together

__all__ = ["Gate", "RubricDict", "RubricList", "Sequential", "WeightedSum"]

_TOLERANCE = 1e-6


class _Row(Rubric):
    """Rubrics in a row: children named ``rubric_0``, ``rubric_1`` and so on, as OpenEnv names them."""

    _size: int = 0

    def __init__(self, rubrics: Iterable[Rubric] = ()) -> None:
        for rubric in rubrics:
            self._append(rubric)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Rubric:
        return self._children[f"rubric_{range(self._size)[index]}"]

    def __iter__(self) -> Iterator[Rubric]:
        return (self[index] for index in range(self._size))

    def _append(self, rubric: Rubric) -> None:
        name = f"rubric_{self._size}"
        setattr(self, name, _member(name, rubric))
        self._size += 1

    def _all(self, action: Any, observation: Any) -> list[float] | Coroutine[Any, Any, list[float]]:
        return together([partial(rubric, action, observation) for rubric in self])


class Sequential(_Row):
    """The score of the last rubric, or 0.0 as soon as one gives 0: those after it do not run.

    Without any rubric the score is 1.0.

    Example::

        Sequential(Gate(Compiles()), Gate(PassesTests(), threshold=0.5), Style())
    """

    def __init__(self, *rubrics: Rubric) -> None:
        super().__init__(rubrics)

    def forward(self, action: Any, observation: Any) -> Score:
        """Return the score; one rubric runs after the other."""
        return settle(self._in_turn(action, observation))

    def _in_turn(self, action: Any, observation: Any) -> Flow[float]:
        score = 1.0
        for rubric in self:
            score = yield rubric(action, observation)
            if score == 0.0:
                break
        return score


class Gate(Rubric):
    """The score of a rubric if it reaches a threshold, else 0.0.

    Args:
        rubric: The rubric.
        threshold: The lowest score that passes, a finite number.

    Raises:
        ConfigError: The threshold is no finite number.
    """

    settings: ClassVar[tuple[str, ...]] = ("threshold",)

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        self.rubric = _member("rubric", rubric)
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        """The lowest score that passes."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = finite_setting("threshold", value)

    def forward(self, action: Any, observation: Any) -> Score:
        """Return the score."""
        return settle(self._gated(action, observation))

    def _gated(self, action: Any, observation: Any) -> Flow[float]:
        score = yield self.rubric(action, observation)
        return score if score >= self.threshold else 0.0


class WeightedSum(_Row):
    """The weighted sum of the scores of several rubrics. Those that have to be awaited run side by side.

    Args:
        rubrics: The rubrics.
        weights: One finite number for each; they add up to 1. A negative one is a penalty.

    Raises:
        ConfigError: There are more of the one than of the other, or the weights do not add up to 1.
    """

    settings: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(self, rubrics: Sequence[Rubric], weights: Sequence[float]) -> None:
        super().__init__(rubrics)
        self.weights = list(weights)

    @property
    def weights(self) -> list[float]:
        """The weight of each rubric; a copy."""
        return list(self._weights)

    @weights.setter
    def weights(self, values: Sequence[float]) -> None:
        weights = [finite_setting("weights", value) for value in values]
        if len(weights) != len(self):
            raise ConfigError(
                f"{len(self)} rubrics need as many weights, not {len(weights)}", argument="weights"
            )
        if not math.isclose(total := math.fsum(weights), 1.0, rel_tol=0.0, abs_tol=_TOLERANCE):
            raise ConfigError(f"weights must add up to 1; {weights} add up to {total}", argument="weights")
        self._weights = weights

    def forward(self, action: Any, observation: Any) -> Score:
        """Return the sum."""
        return settle(self._summed(action, observation))

    def _summed(self, action: Any, observation: Any) -> Flow[float]:
        scores = yield self._all(action, observation)
        return math.fsum(score * weight for score, weight in zip(scores, self._weights, strict=True))


class RubricList(_Row):
    """A list of rubrics, for a parent that decides what becomes of their scores.

    Example::

        class Levels(Rubric):
            def __init__(self):
                self.levels = RubricList([Easy(), Hard()])

            def forward(self, action, observation):
                return self.levels[observation.level](action, observation)
    """

    def append(self, rubric: Rubric) -> None:
        """Add a rubric."""
        self._append(rubric)

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        """Add several rubrics."""
        for rubric in rubrics:
            self._append(rubric)

    def scores(self, action: Any, observation: Any) -> list[float] | Coroutine[Any, Any, list[float]]:
        """Return the scores of all, in their order. Those that have to be awaited run side by side.

        If there are any of these, what returns is a coroutine.
        """
        return self._all(action, observation)

    def forward(self, action: Any, observation: Any) -> Score:
        """Raise: a list has no score of its own."""
        raise UnsupportedError("a RubricList has no score; call its rubrics, or scores() for all of them")


class RubricDict(Rubric):
    """Rubrics by name, for a parent that decides what becomes of their scores. Its children are its members.

    Args:
        rubrics: The rubrics by name; a name has no dot in it.

    Example::

        class Games(Rubric):
            def __init__(self):
                self.games = RubricDict({"pong": Pong(), "chess": Chess()})

            def forward(self, action, observation):
                return self.games[observation.game](action, observation)
    """

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        self.update(rubrics or {})

    def __getitem__(self, key: str) -> Rubric:
        return self._children[key]

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._register(key, _member(key, rubric))

    def __delitem__(self, key: str) -> None:
        del self._children[key]

    def __contains__(self, key: object) -> bool:
        return key in self._children

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[str]:
        return iter(self._children)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._children.keys()

    def values(self) -> ValuesView[Rubric]:
        """Return the rubrics."""
        return self._children.values()

    def items(self) -> ItemsView[str, Rubric]:
        """Return names and rubrics."""
        return self._children.items()

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add rubrics, or replace those of the same names."""
        for key, rubric in rubrics.items():
            self[key] = rubric

    def scores(
        self, action: Any, observation: Any
    ) -> dict[str, float] | Coroutine[Any, Any, dict[str, float]]:
        """Return the scores of all by name. Those that have to be awaited run side by side.

        If there are any of these, what returns is a coroutine.
        """
        return settle(self._named(action, observation))

    def forward(self, action: Any, observation: Any) -> Score:
        """Raise: a dict has no score of its own."""
        raise UnsupportedError("a RubricDict has no score; call its rubrics, or scores() for all of them")

    def _named(self, action: Any, observation: Any) -> Flow[dict[str, float]]:
        members = dict(self.items())
        scores = yield together([partial(rubric, action, observation) for rubric in members.values()])
        return dict(zip(members, scores, strict=True))


def _member(name: str, rubric: Rubric) -> Rubric:
    if not isinstance(rubric, Rubric):
        raise ConfigError(f"{name!r} must be a Rubric, not {type(rubric).__name__}")
    return rubric
