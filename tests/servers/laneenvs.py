"""Environments whose calls wait for the test or note where they run."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["GATES", "PLACES", "GatedEnv", "OnceEnv", "PlaceEnv"]

#: By name: what lanes wait for.
GATES: dict[str, threading.Event] = {}
#: Call and thread of each call, in order.
PLACES: list[tuple[int, str, int]] = []


class GatedEnv(gym.Env[Any, Any]):
    """A step waits for the gate called ``gate``, if there is one; observes how many steps were taken."""

    def __init__(self, gate: str = "") -> None:
        self.observation_space = spaces.Box(0, 2**62, (), np.int64)
        self.action_space = spaces.Discrete(9)
        self.count = 0
        self._gate = gate

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Count from 0."""
        self.count = 0
        return np.array(0, np.int64), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait, then count; action 8 raises."""
        if self._gate:
            assert GATES[self._gate].wait(20.0)
        if action == 8:
            raise KeyError("x")
        self.count += 1
        return np.array(self.count, np.int64), 1.0, False, False, {}


class OnceEnv(GatedEnv):
    """Action 1 ends the episode; there is only one."""

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Raise the second time."""
        if self.count:
            raise RuntimeError("only once")
        return super().reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End, or count."""
        observation, reward, _, _, info = super().step(action)
        return observation, reward, action == 1, False, info


class PlaceEnv(GatedEnv):
    """Notes on which thread each call runs; an episode has two steps."""

    def __init__(self, name: int = 0) -> None:
        super().__init__()
        self.name = name
        self._note("init")

    def _note(self, call: str) -> None:
        PLACES.append((self.name, call, threading.get_ident()))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Note it."""
        self._note("reset")
        return super().reset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Note it."""
        self._note("step")
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.count >= 2, False, info

    def render(self) -> Any:
        """Note it."""
        self._note("render")
        return "frame"

    def mark(self) -> None:
        """Note it."""
        self._note("mark")

    def close(self) -> None:
        """Note it."""
        self._note("close")
