"""The base class of rubrics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from numbers import Complex, Real
from typing import Any, ClassVar, Self, TypeAlias

from ..errors import ConfigError, RubricError
from .flow import Flow, settle

__all__ = ["Rubric", "Score", "finite", "finite_setting"]

Score: TypeAlias = float | Coroutine[Any, Any, float]
"""What a call of a rubric returns: a coroutine if something in it has to be awaited."""

PreHook: TypeAlias = Callable[["Rubric", Any, Any], Any]
Hook: TypeAlias = Callable[["Rubric", Any, Any, float], Any]


class Rubric(ABC):
    """Computes a score from an action and the observation that came of it.

    Subclasses write :meth:`forward`. A rubric assigned to an attribute becomes a child, named like the
    attribute. Rubrics in a list or dict do not, so those belong into a :class:`.RubricList` or
    :class:`.RubricDict`.

    Attributes:
        last_score: The score of the last call; ``None``: that call failed, or did not come to this rubric.
        settings: Names of the attributes that :meth:`state_dict` carries.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    last_score: float | None = None

    _children: dict[str, Rubric]
    _pre_hooks: dict[object, PreHook]
    _hooks: dict[object, Hook]
    _name: str | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: D102
        # Not in __init__: a subclass that forgets to call it still has its children.
        self = super().__new__(cls)
        for name, value in (("_children", {}), ("_pre_hooks", {}), ("_hooks", {}), ("_name", None)):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Rubric):
            if hasattr(Rubric, name):
                raise ConfigError(f"{name!r} is a rubric's own attribute; give the child another name")
            self._register(name, value)
        elif isinstance(self.__dict__.get(name), Rubric):
            self._children.pop(name, None)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if isinstance(self.__dict__.get(name), Rubric):
            self._children.pop(name, None)
        object.__delattr__(self, name)

    # -- scoring

    def __call__(self, action: Any, observation: Any) -> Score:
        """Run the hooks and :meth:`forward`, and keep the score in :attr:`last_score`.

        Returns:
            The score. If :meth:`forward`, that of a rubric below, or a hook has to be awaited: a coroutine
            that returns it.

        Raises:
            RubricError: The score is no finite number.
        """
        return settle(self._scored(action, observation))

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the score; may be a coroutine function.

        Args:
            action: What the agent did.
            observation: What came of it.
        """

    def reset(self) -> None:
        """Begin an episode. Called with the environment's ``reset``; who overrides it calls this one too."""
        self.last_score = None
        for child in self.children():
            child.reset()

    def _scored(self, action: Any, observation: Any) -> Flow[float]:
        # A score of an earlier call must not pass for one of this call.
        for rubric in (self, *self.rubrics()):
            rubric.last_score = None
        for pre_hook in tuple(self._pre_hooks.values()):
            yield pre_hook(self, action, observation)
        score = finite(self, (yield self.forward(action, observation)))
        self.last_score = score
        for hook in tuple(self._hooks.values()):
            yield hook(self, action, observation, score)
        return score

    # -- hooks

    def register_forward_pre_hook(self, hook: PreHook) -> Callable[[], None]:
        """Have ``hook(rubric, action, observation)`` called before :meth:`forward`.

        Returns:
            A function that removes it; called again, it does nothing.
        """
        return _added(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Hook) -> Callable[[], None]:
        """Have ``hook(rubric, action, observation, score)`` called after :meth:`forward`.

        Returns:
            A function that removes it; called again, it does nothing.
        """
        return _added(self._hooks, hook)

    # -- the tree

    def children(self) -> Iterator[Rubric]:
        """Iterate over the rubrics directly below."""
        yield from self._children.values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """Iterate over the rubrics directly below, with their names."""
        yield from self._children.items()

    def rubrics(self) -> Iterator[Rubric]:
        """Iterate over all rubrics below, each before its children."""
        for child in self.children():
            yield child
            yield from child.rubrics()

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """Iterate over all rubrics below, with their paths, as in ``quality.style``."""
        for name, child in self.named_children():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> Rubric:
        """Return the rubric at ``path``.

        Raises:
            KeyError: There is none.
        """
        found = self
        for name in path.split("."):
            if name not in found._children:
                known = ", ".join(known for known, _ in self.named_rubrics()) or "none"
                raise KeyError(f"no rubric at {path!r}; there are: {known}")
            found = found._children[name]
        return found

    @property
    def _label(self) -> str:
        """What errors call it: its class, and the name that its parent gave it."""
        return type(self).__name__ + (f" {self._name!r}" if self._name else "")

    def _register(self, name: str, rubric: Rubric) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ConfigError(f"{name!r} is no name for a rubric: a text without dots is")
        if any(below is self for below in (rubric, *rubric.rubrics())):
            raise ConfigError(f"{name!r} would put a {type(self).__name__} below itself")
        self._children[name] = rubric
        object.__setattr__(rubric, "_name", name)

    # -- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the settings of this rubric and of all below, by path, as in ``quality.style.threshold``."""
        state = {name: getattr(self, name) for name in self.settings}
        for name, child in self.named_children():
            state.update({f"{name}.{key}": value for key, value in child.state_dict().items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over settings from :meth:`state_dict` of a rubric built alike.

        Raises:
            ConfigError: A setting is missing, unknown or impossible.
        """
        own = {key: value for key, value in state.items() if "." not in key}
        parts: dict[str, dict[str, Any]] = {name: {} for name in self._children}
        wrong = own.keys() ^ set(self.settings)
        for key in state.keys() - own.keys():
            name, _, rest = key.partition(".")
            if name in parts:
                parts[name][rest] = state[key]
            else:
                wrong.add(key)
        if wrong:
            names = ", ".join(sorted(wrong))
            raise ConfigError(
                f"the state is not one of this {type(self).__name__}: missing or unknown: {names}"
            )
        for name, value in own.items():
            setattr(self, name, value)
        for name, part in parts.items():
            self._children[name].load_state_dict(part)


def _added(hooks: dict[object, Any], hook: Any) -> Callable[[], None]:
    key = object()
    hooks[key] = hook

    def remove() -> None:
        hooks.pop(key, None)

    return remove


def finite(rubric: Rubric, score: Any, what: str = "score") -> float:
    """Return ``score`` of ``rubric`` as a float.

    Raises:
        RubricError: It is no finite number.
    """
    value = _as_float(score)
    if math.isfinite(value):
        return value
    message = f"{rubric._label} gave {_shortened(score)} as its {what}; it has to be a finite number"
    raise RubricError(message, rubric=rubric._label)


def finite_setting(name: str, value: Any) -> float:
    """Return ``value`` of the setting ``name`` as a float.

    Raises:
        ConfigError: It is no finite number.
    """
    number = _as_float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ConfigError(f"{name} has to be a finite number, not {_shortened(value)}", argument=name)
    return number


def _as_float(value: Any) -> float:
    """Return a number, of whatever library, as a float; NaN for what is none, or too large for one."""
    number = isinstance(value, Real) or (hasattr(value, "__float__") and not isinstance(value, Complex))
    if not number or getattr(value, "ndim", 0) != 0:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _shortened(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
