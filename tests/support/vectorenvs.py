"""Environments for tests of many lanes: lanes that meet, and spaces by the number."""

from __future__ import annotations

import copy
import threading
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["MeetingEnv", "NumberedSpaceEnv", "numbered_space"]

Step = tuple[Any, float, bool, bool, dict[str, Any]]

#: Where lanes of this process meet, by size of the party.
_meetings: dict[int, threading.Barrier] = {}
_lock = threading.Lock()


class MeetingEnv(gym.Env[Any, Any]):
    """Each call returns once ``party`` environments of this process are in one: nobody may wait for another.

    Args:
        party: How many have to meet.
    """

    def __init__(self, party: int = 1) -> None:
        self.observation_space = self.action_space = spaces.Discrete(2)
        with _lock:
            self._barrier = _meetings.setdefault(party, threading.Barrier(party, timeout=60))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Meet."""
        self._barrier.wait()
        return np.int64(0), {}

    def step(self, action: Any) -> Step:
        """Meet."""
        self._barrier.wait()
        return np.int64(0), 0.0, False, False, {}

    def close(self) -> None:
        """Meet."""
        self._barrier.wait()


_DTYPES = (np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.uint16, np.bool_)


def numbered_space(number: int) -> spaces.Space[Any]:
    """Return a random space, nested up to three deep; the same for the same number."""
    return _space(np.random.default_rng(number), 3)


def _space(rng: np.random.Generator, depth: int) -> spaces.Space[Any]:
    kind = int(rng.integers(6 if depth == 0 else 10))
    if kind < 2:
        shape = tuple(int(length) for length in rng.integers(0 if kind else 1, 4, kind + 1))
        return _box(_DTYPES[int(rng.integers(len(_DTYPES)))], shape)
    if kind == 2:
        return spaces.Discrete(int(rng.integers(1, 9)), start=int(rng.integers(-5, 5)))
    if kind == 3:
        return spaces.MultiDiscrete(rng.integers(1, 9, int(rng.integers(1, 4))))
    if kind == 4:
        return spaces.MultiBinary(int(rng.integers(1, 5)))
    if kind == 5:
        return spaces.Text(int(rng.integers(1, 9)))
    parts = [_space(rng, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    if kind == 6:
        return spaces.Tuple(parts)
    if kind == 7:
        return spaces.OneOf(parts)
    if kind == 8:
        return spaces.Sequence(parts[0])
    return spaces.Dict({f"part {at}": part for at, part in enumerate(parts)})


def _box(dtype: Any, shape: tuple[int, ...]) -> spaces.Box:
    if dtype is np.bool_:
        return spaces.Box(0, 1, shape, np.bool_)
    if np.issubdtype(dtype, np.floating):
        return spaces.Box(-3, 3, shape, dtype)
    return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


class NumberedSpaceEnv(gym.Env[Any, Any]):
    """Observes samples of a :func:`numbered_space` and takes actions of the same space.

    Args:
        number: The space's number.
    """

    def __init__(self, number: int = 0) -> None:
        self.observation_space = numbered_space(number)
        self.action_space = numbered_space(number)
        self._samples = numbered_space(number)
        self._count = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin samples that depend on the seed alone."""
        super().reset(seed=seed)
        self._count = 0
        self._samples.seed(int(self.np_random.integers(2**31)))
        return copy.deepcopy(self._samples.sample()), {}

    def step(self, action: Any) -> Step:
        """Return a sample; an episode has five steps."""
        self._count += 1
        inside = action in self.action_space
        return copy.deepcopy(self._samples.sample()), float(inside), self._count == 5, False, {}
