"""An environment that says which random numbers, and which process, it was given."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class DrawEnv(gym.Env[Any, Any]):
    """``info`` of a reset: a number from ``random``, one from ``numpy.random``, and the process id."""

    def __init__(self, secret: str = "") -> None:
        self.observation_space = self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return 0, {"draws": (random.random(), float(np.random.random())), "pid": os.getpid()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        print("stepped")
        return 0, 0.0, False, False, {}


class HeldEnv(DrawEnv):
    """A step lasts until there is a file ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        while not os.path.exists(self._path):
            time.sleep(0.005)
        return super().step(action)


class ThreadLeavingEnv(DrawEnv):
    """Starts a thread that never ends."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=threading.Event().wait).start()
