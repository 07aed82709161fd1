"""Actions and observations of the lanes as one batch, and which lane was last seen where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from openenv_gym.errors import InvalidActionError
from openenv_gym.protocol.columns import Column

__all__ = [
    "ARRAYS",
    "LastSeen",
    "columns_of",
    "cut",
    "empty_batch",
    "length_of",
    "put_rows",
    "runs",
    "take_rows",
]

ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces whose batch is an array."""


def empty_batch(space: gym.Space[Any], n: int) -> Any:
    """Return a batch of ``n`` values of ``space`` that are still to be written."""
    if type(space) is spaces.Box:  # by itself, for its speed
        return np.empty((n, *space.shape), space.dtype)
    return create_empty_array(space, n, fn=np.empty)


def cut(space: gym.Space[Any], batch: Any, start: int, stop: int) -> Any:
    """Return the values from ``start`` to ``stop`` of a batch, as a batch; arrays are views."""
    if isinstance(space, spaces.Dict):
        return {key: cut(space.spaces[key], part, start, stop) for key, part in batch.items()}
    if isinstance(space, spaces.Tuple):
        parts = zip(space.spaces, batch, strict=True)
        return tuple(cut(sub, part, start, stop) for sub, part in parts)
    return batch[start:stop]


def take_rows(space: gym.Space[Any], batch: Any, rows: Sequence[int]) -> Any:
    """Return ``rows`` of a batch as a batch; arrays are copied."""
    if isinstance(space, spaces.Dict):
        return {key: take_rows(space.spaces[key], part, rows) for key, part in batch.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(take_rows(sub, part, rows) for sub, part in zip(space.spaces, batch, strict=True))
    if isinstance(space, ARRAYS) and isinstance(batch, np.ndarray):
        return batch[list(rows)]
    return tuple(batch[row] for row in rows)


def length_of(space: gym.Space[Any], batch: Any) -> int | None:
    """Return how many values a batch has; ``None`` where that cannot be told (a space without parts).

    Raises:
        InvalidActionError: Its parts differ in length.
    """
    if isinstance(space, spaces.Dict):
        lengths = {length_of(sub, batch[key]) for key, sub in space.spaces.items()}
    elif isinstance(space, spaces.Tuple):
        lengths = {length_of(sub, part) for sub, part in zip(space.spaces, batch, strict=True)}
    else:
        return len(batch)
    lengths.discard(None)
    if len(lengths) > 1:
        shown = ", ".join(sorted(map(str, lengths)))
        raise InvalidActionError(f"the parts of the actions have different lengths: {shown}")
    return lengths.pop() if lengths else None


def columns_of(codec: Column, actions: Any, bounds: Sequence[tuple[int, int]]) -> list[Any]:
    """Return a batch of actions as one column for each of several runs of lanes.

    Args:
        codec: Column of the action space.
        actions: The actions of all lanes.
        bounds: First lane of each run, and the one behind its last; together they are all lanes.

    Raises:
        InvalidActionError: The actions are not a batch of the action space, of this length.
    """
    space, n = codec.space, bounds[-1][1]
    if len(bounds) == 1:
        return [codec.encode_batch(actions, n, "actions")]
    if isinstance(space, ARRAYS):
        column = codec.encode_batch(actions, n, "actions")
        if type(column) is bytes:
            size = len(column) // n
            return [column[first * size : stop * size] for first, stop in bounds]
    try:
        length = length_of(space, actions)
        cuts = [cut(space, actions, first, stop) for first, stop in bounds]
    except (TypeError, LookupError, ValueError, AttributeError) as exc:
        if isinstance(exc, InvalidActionError):
            raise
        raise InvalidActionError(f"the actions are no batch of {n} actions: {exc}") from exc
    if length not in (None, n):
        raise InvalidActionError(f"{length} actions were given for {n} lanes")
    return [
        codec.encode_batch(each, stop - first, f"actions[{first}:{stop}]")
        for (first, stop), each in zip(bounds, cuts, strict=True)
    ]


def put_rows(space: gym.Space[Any], out: Any, at: Sequence[int], batch: Any, rows: Sequence[int]) -> Any:
    """Write ``rows`` of a batch to the places ``at`` of ``out``; return it, its tuples replaced."""
    if isinstance(space, spaces.Dict):
        return {key: put_rows(sub, out[key], at, batch[key], rows) for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        parts = zip(space.spaces, out, batch, strict=True)
        return tuple(put_rows(sub, to, at, part, rows) for sub, to, part in parts)
    if isinstance(space, ARRAYS):
        out[list(at)] = batch[list(rows)]
        return out
    values = list(out)
    for place, row in zip(at, rows, strict=True):
        values[place] = batch[row]
    return tuple(values)


def runs(lanes: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of each run of neighbours in ``lanes``, by position."""
    starts = [at for at, lane in enumerate(lanes) if at == 0 or lane != lanes[at - 1] + 1]
    return list(zip(starts, [*starts[1:], len(lanes)], strict=False))


class LastSeen:
    """The last observation of each lane, kept as the column it came in: nothing is copied until it is needed.

    Args:
        codec: Column of the observation space.
        n: Number of lanes.
    """

    def __init__(self, codec: Column, n: int) -> None:
        self._codec = codec
        self._whole: dict[int, tuple[int, Any]] = {}
        self._single: list[tuple[Any, int, int] | None] = [None] * n
        self._split: set[int] = set()

    def whole(self, first: int, count: int, column: Any) -> None:
        """Note the column of ``count`` neighbouring lanes; always the same neighbours together."""
        self._whole[first] = count, column
        if first in self._split:
            self._split.discard(first)
            self._single[first : first + count] = [None] * count

    def some(self, first: int, lanes: Sequence[int], column: Any) -> None:
        """Note the column of ``lanes``, which are among the neighbours from ``first`` on."""
        known = self._whole.pop(first, None)
        if known is not None:
            for at in range(known[0]):
                self._single[first + at] = known[1], known[0], at
        self._split.add(first)
        for at, lane in enumerate(lanes):
            self._single[lane] = column, len(lanes), at

    def column(self, first: int, count: int) -> Any:
        """Return the column of the ``count`` neighbours from ``first`` on, ``None`` if there is none."""
        known = self._whole.get(first)
        return known[1] if known is not None and known[0] == count else None

    def seen(self, lane: int, first: int) -> bool:
        """Return whether ``lane``, whose neighbours begin at ``first``, was ever seen."""
        return first in self._whole or self._single[lane] is not None

    def values(self, first: int, lanes: Sequence[int]) -> list[Any]:
        """Return the last observations of ``lanes``, neighbours from ``first`` on; they share no memory."""
        known = self._whole.get(first)
        if known is not None:
            values = self._codec.decode(known[1], known[0])
            return [values[lane - first] for lane in lanes]
        decoded: dict[int, list[Any]] = {}
        found = []
        for lane in lanes:
            source = self._single[lane]
            assert source is not None
            column, count, at = source
            if id(column) not in decoded:
                decoded[id(column)] = self._codec.decode(column, count)
            found.append(decoded[id(column)][at])
        return found
