"""Environments that differ in what they return: spaces, infos, rewards, frames, attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .compare import digest
from .infozoo import EXACT, MAPPED, OPAQUE
from .spacezoo import space

__all__ = [
    "AttrEnv",
    "BadObsEnv",
    "BigEnv",
    "BigInfoEnv",
    "FrameListEnv",
    "InfoEnv",
    "MaskedEnv",
    "OptionsEnv",
    "RenderEnv",
    "RewardEnv",
    "SpaceEnv",
    "SpecialFloatEnv",
]

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class PlainEnv(gym.Env[Any, Any]):
    """Counts steps; the observation is the count, an int64 array of shape (); episodes do not end."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Box(0, 2**62, (), np.int64)
        self.action_space: spaces.Space[Any] = spaces.Discrete(1000)
        self.count = 0

    def observe(self) -> Any:
        """Return the observation."""
        return np.array(self.count, np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action: Any) -> Step:
        """Count."""
        self.count += 1
        return self.observe(), 1.0, False, False, {}


class SpaceEnv(PlainEnv):
    """Samples observations from a space of ``kind`` and takes actions of the same space.

    ``info`` holds the action and its digest as the environment saw them, so that both directions can be
    compared. Episodes end after 7 steps with a ``np.bool_`` or after 5 by truncation, by turns.
    """

    def __init__(self, kind: str = "nested") -> None:
        super().__init__()
        self.observation_space = space(kind)
        self.action_space = space(kind)
        self._samples = space(kind)
        self._episode = 0

    def observe(self) -> Any:
        """Return a sample that nothing else holds."""
        return copy.deepcopy(self._samples.sample())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode whose samples depend on the seed alone."""
        super().reset(seed=seed)
        if seed is not None:
            self._episode = 0
        self._episode += 1
        self._samples.seed(int(self.np_random.integers(2**31)))
        return self.observe(), {"episode": self._episode}

    def step(self, action: Any) -> Step:
        """Return a sample and the action itself."""
        self.count += 1
        terminated = np.bool_(self._episode % 2 == 1 and self.count >= 7)
        truncated = self._episode % 2 == 0 and self.count >= 5
        info = {"digest": digest(action), "action": copy.deepcopy(action)}
        return self.observe(), float(self.np_random.normal()), terminated, truncated, info


class SpecialFloatEnv(PlainEnv):
    """Observes NaN with a payload, infinities, -0.0 and a denormal beside an image."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {
                "f16": spaces.Box(-np.inf, np.inf, (6,), np.float16),
                "f32": spaces.Box(-np.inf, np.inf, (6,), np.float32),
                "f64": spaces.Box(-np.inf, np.inf, (6,), np.float64),
                "img": spaces.Box(0, 255, (210, 160, 3), np.uint8),
            }
        )

    def observe(self) -> Any:
        """Return the special numbers and a random image."""
        f64 = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1])
        f32 = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 0.1], np.float32)
        f32.view(np.uint32)[0] |= 0xBEEF
        f16 = np.array([np.nan, np.inf, -np.inf, -0.0, 6e-8, 0.1], np.float16)
        img = self.np_random.integers(0, 256, (210, 160, 3), dtype=np.uint8)
        return {"f16": f16, "f32": f32, "f64": f64, "img": img}


class InfoEnv(PlainEnv):
    """Puts values of a group (see :mod:`.infozoo`) into ``info``, all of them in reset, one in each step."""

    GROUPS: ClassVar[dict[str, dict[str, Any]]] = {
        "exact": EXACT,
        "mapped": {name: sent for name, (sent, _) in MAPPED.items()},
        "opaque": OPAQUE,
    }

    def __init__(self, group: str = "exact") -> None:
        super().__init__()
        self._infos = list(self.GROUPS[group].items())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, _ = super().reset(seed=seed, options=options)
        return obs, dict(self._infos)

    def step(self, action: Any) -> Step:
        """Return the next value of the group."""
        name, value = self._infos[self.count % len(self._infos)]
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {name: value}


class RewardEnv(PlainEnv):
    """Returns rewards and flags of one kind."""

    KINDS: ClassVar[dict[str, Callable[[int], Any]]] = {
        "float": lambda n: n / 3,
        "int": lambda n: n,
        "bool": lambda n: n % 2 == 0,
        "float32": lambda n: np.float32(n / 3),
        "float64": lambda n: np.float64(n / 3),
        "int64": np.int64,
        "nan": lambda n: float("nan"),
        "infinite": lambda n: float("-inf"),
        "negative_zero": lambda n: -0.0,
        "array0d": lambda n: np.array(n / 3, np.float32),
        "array": lambda n: np.array([n, -n], np.float32),
    }

    def __init__(self, kind: str = "float") -> None:
        super().__init__()
        self._reward = self.KINDS[kind]

    def step(self, action: Any) -> Step:
        """End every ninth step, with a ``np.bool_``; truncate every fourth, with a ``bool``."""
        self.count += 1
        return (
            self.observe(),
            self._reward(self.count),
            np.bool_(self.count % 9 == 0),
            self.count % 4 == 0,
            {},
        )


class OptionsEnv(PlainEnv):
    """Reports what ``reset`` was given and what the constructor was given."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._kwargs = kwargs

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return seed, options and constructor arguments in ``info``."""
        obs, _ = super().reset(seed=seed)
        return obs, {"seed": seed, "options": options, "kwargs": self._kwargs}


class BadObsEnv(PlainEnv):
    """Declares a float32 Box of shape (4,) inside a Dict and returns something else."""

    KINDS: ClassVar[dict[str, Callable[[], Any]]] = {
        "right": lambda: {"x": np.zeros(4, np.float32)},
        "float64": lambda: {"x": np.zeros(4, np.float64)},
        "list": lambda: {"x": [0.0, 1.0, 2.0, 3.0]},
        "int": lambda: {"x": np.zeros(4, np.int64)},
        "shape": lambda: {"x": np.zeros((4, 1), np.float32)},
        "size": lambda: {"x": np.zeros(5, np.float32)},
        "object": lambda: {"x": np.array([None] * 4, object)},
        "text": lambda: {"x": "zero"},
        "none": lambda: {"x": None},
        "missing": lambda: {},
        "extra": lambda: {"x": np.zeros(4, np.float32), "y": 1},
        "no_dict": lambda: np.zeros(4, np.float32),
    }

    def __init__(self, kind: str = "float64", at: int = 0) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"x": spaces.Box(-1.0, 9.0, (4,), np.float32)})
        self._kind, self._at = kind, at

    def observe(self) -> Any:
        """Return the wrong observation from step ``at`` on (0: the reset)."""
        return self.KINDS[self._kind if self.count >= self._at else "right"]()


class BigEnv(PlainEnv):
    """Observes ``size`` random bytes; takes actions of ``action_size`` bytes and reports their digest."""

    def __init__(self, size: int = 1 << 20, action_size: int = 1) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (size,), np.uint8)
        self.action_space = spaces.Box(0, 255, (action_size,), np.uint8)
        self._size = size

    def observe(self) -> Any:
        """Return new random bytes."""
        return self.np_random.integers(0, 256, self._size, dtype=np.uint8)

    def step(self, action: Any) -> Step:
        """Report the digest of the action."""
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"digest": digest(action)}


class BigInfoEnv(PlainEnv):
    """Puts ``size`` bytes into every ``info``."""

    def __init__(self, size: int = 1 << 20) -> None:
        super().__init__()
        self._size = size

    def step(self, action: Any) -> Step:
        """Return a big ``info``."""
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"blob": bytes([self.count % 256]) * self._size}


class AttrEnv(PlainEnv):
    """Has attributes and methods to reach from outside."""

    greeting = "hello"

    def __init__(self) -> None:
        super().__init__()
        self.gravity = 9.8
        self.table = {"a": np.arange(3, dtype=np.int16)}
        self.handle = object()
        self.action_space = spaces.Discrete(4)
        self._secret = 42

    @property
    def broken(self) -> int:
        """Raise when read."""
        raise ValueError("this property is broken")

    def action_masks(self) -> Any:
        """Return which actions are allowed now, bool of shape (4,)."""
        return np.array([self.count % 2 == 0, True, False, self.count % 2 == 1])

    def add(self, left: Any, right: Any = 1) -> Any:
        """Return the sum."""
        return left + right

    def fail(self) -> None:
        """Raise."""
        raise KeyError("x")

    def step(self, action: Any) -> Step:
        """Report gravity, which may be set from outside."""
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"gravity": self.gravity}


class MaskedEnv(PlainEnv):
    """Allows other actions in every step and raises when another one is taken; episodes have 9 steps.

    The observation is float32 of shape (4,).
    """

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(4)

    def observe(self) -> Any:
        """Return random numbers."""
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def action_masks(self) -> Any:
        """Return which actions are allowed now, bool of shape (4,)."""
        return np.arange(4) % 3 == self.count % 3

    def step(self, action: Any) -> Step:
        """Reward big actions."""
        if not self.action_masks()[int(action)]:
            raise ValueError(f"action {action} is not allowed in step {self.count}")
        self.count += 1
        return self.observe(), float(action), self.count >= 9, False, {}


class RenderEnv(PlainEnv):
    """Renders frames that depend on the count: uint8 of shape (6, 8, 3), or text."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 50}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        """Return the frame."""
        if self.render_mode == "rgb_array":
            return (np.arange(6 * 8 * 3).reshape(6, 8, 3) + self.count).astype(np.uint8)
        return f"count {self.count}" if self.render_mode == "ansi" else None


class FrameListEnv(RenderEnv):
    """Collects its frames itself."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array_list", "ansi_list"], "render_fps": 4}

    def render(self) -> Any:
        """Return one frame for each step since the reset, and one for the reset."""
        if self.render_mode == "ansi_list":
            return [f"count {n}" for n in range(self.count + 1)]
        return [np.full((2, 2, 3), n % 256, np.uint8) for n in range(self.count + 1)]
