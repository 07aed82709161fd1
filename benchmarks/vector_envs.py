"""Environments whose steps cost next to nothing: what is measured is how their values travel.

Registered as ``bench/Frames-v0``, ``bench/Mixed-v0`` and ``bench/Words-v0``. Episodes end after 200 steps.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["Frames", "Mixed", "Words"]

_LENGTH = 200


class Prepared(gym.Env[Any, Any]):
    """Returns one of a few observations that were made beforehand; a subclass makes them."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(4)
        rng = np.random.default_rng(0)
        self._prepared = [self.make(rng) for _ in range(8)]
        self._at = 0

    @abstractmethod
    def make(self, rng: np.random.Generator) -> Any:
        """Return an observation."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._at = 0
        return self._prepared[0], {}

    def step(self, action: Any) -> Any:
        self._at += 1
        return self._prepared[self._at % len(self._prepared)], 1.0, self._at == _LENGTH, False, {}


class Frames(Prepared):
    """The frames of an Atari game."""

    observation_space = spaces.Box(0, 255, (210, 160, 3), np.uint8)

    def make(self, rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, (210, 160, 3), np.uint8)


class Mixed(Prepared):
    """A robot's senses: numbers of several kinds in a ``Dict``."""

    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (32, 32), np.uint8),
        joints=spaces.Dict(angle=spaces.Box(-4, 4, (7,), np.float64), touch=spaces.MultiBinary(7)),
        goal=spaces.Discrete(16),
    )

    def make(self, rng: np.random.Generator) -> Any:
        return {
            "camera": rng.integers(0, 256, (32, 32), np.uint8),
            "joints": {"angle": rng.uniform(-3, 3, 7), "touch": rng.integers(0, 2, 7, np.int8)},
            "goal": np.int64(rng.integers(16)),
        }


class Words(Prepared):
    """A sentence."""

    observation_space = spaces.Text(200, charset="abcdefghijklmnopqrstuvwxyz ")

    def make(self, rng: np.random.Generator) -> Any:
        return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz "), 120))


for _kind in (Frames, Mixed, Words):
    gym.register(f"bench/{_kind.__name__}-v0", f"{__name__}:{_kind.__name__}")
