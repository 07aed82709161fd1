"""A wrapper that says where the time of each step goes."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

import gymnasium as gym

from openenv_gym.client.stopwatch import StepTimes
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import ConfigError

__all__ = ["StepTiming"]


class StepTiming(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Puts ``info["timing"]`` into each step: a dict of seconds.

    =============== ======================================================================================
    ``total``       the whole step, as the caller sees it
    ``queue``       waiting for the environment's turn in the server's worker
    ``environment`` the environment's own ``step``
    ``codec``       encoding and decoding observation, action and info, here and there
    ``network``     the rest: wire, kernel, what both sides do with frames; wrappers between this one and
                    the environment count here, too
    =============== ======================================================================================

    A part that is not known is NaN: of a step that was truncated for a lost connection, or with a server that
    does not take times. Around a local environment all of the step is ``environment``.

    ::

        env = StepTiming(gym.make("remote/CartPole-v1", timing=True))

    Args:
        env: The environment; a remote one must be made with ``timing=True``.
        key: What to call the entry.

    Raises:
        ConfigError: The environment takes no times; or, in a step, its info has ``key`` already.
    """

    def __init__(self, env: gym.Env[Any, Any], key: str = "timing") -> None:
        gym.utils.RecordConstructorArgs.__init__(self, key=key)
        gym.Wrapper.__init__(self, env)
        self._key = key
        base: Any = env.unwrapped
        self._remote: RemoteEnv | None = base if isinstance(base, RemoteEnv) else None
        if self._remote is not None:
            _ = self._remote.step_times  # raises where times are not taken

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and add where the time went."""
        began = perf_counter()
        observation, reward, terminated, truncated, info = self.env.step(action)
        total = perf_counter() - began
        if self._key in info:
            raise ConfigError(f"info has {self._key!r} already; choose another key: StepTiming(env, key=...)")
        return observation, reward, terminated, truncated, {**info, self._key: self._parts(total)}

    def _parts(self, total: float) -> dict[str, float]:
        if self._remote is None:
            times: StepTimes | None = StepTimes(0.0, total, 0.0)
        else:
            times = self._remote.step_times
        if times is None:
            times = StepTimes(math.nan, math.nan, math.nan)
        # Clocks of two processes: what is left may come out a little below zero.
        rest = total - sum(times)
        return {"total": total, **times._asdict(), "network": rest if math.isnan(rest) else max(rest, 0.0)}
