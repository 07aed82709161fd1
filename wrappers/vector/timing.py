"""A wrapper that says where the time of each step goes, lane by lane."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from openenv_gym.errors import ConfigError

from .remote_vector_env import RemoteVectorEnv
from .times import LaneTimes

__all__ = ["StepTiming"]


if TYPE_CHECKING:
    _Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _Wrapper = VectorWrapper  # generic from Gymnasium 1.4 on


class StepTiming(_Wrapper):
    """Puts ``infos["timing"]`` into each step: a dict of float64 arrays of shape ``(num_envs,)``, in seconds.

    =============== ======================================================================================
    ``total``       the whole step, as the caller sees it; the same for every lane
    ``queue``       waiting for the lane's turn in the server's worker
    ``environment`` the lane's own ``step``
    ``codec``       encoding and decoding, in the lane's worker and here
    ``network``     what is left when ``codec`` and the slowest lane of the session are taken off: wire,
                    kernel, frames, and waiting for other servers
    =============== ======================================================================================

    Laid out as Gymnasium lays out infos, masks included. A part that is not known is NaN: of a lane that
    failed or was truncated for a lost session, or with a server that does not take times. Around a local
    environment all of the step is every lane's ``environment``.

    Args:
        env: The vector environment; a remote one must be made with ``timing=True``.
        key: What to call the entry.

    Raises:
        ConfigError: The environment takes no times; or, in a step, its infos have ``key`` already.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], key: str = "timing") -> None:
        super().__init__(env)
        self._key = key
        base: Any = env.unwrapped
        self._remote: RemoteVectorEnv | None = base if isinstance(base, RemoteVectorEnv) else None
        self._forget()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the lanes, as the environment does."""
        result = self.env.reset(seed=seed, options=options)
        self._forget()
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the lanes and add where the time went."""
        began = perf_counter()
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        total = perf_counter() - began
        if self._key in infos:
            raise ConfigError(f"infos have {self._key!r} already; choose another: StepTiming(envs, key=...)")
        infos = {**infos, self._key: {}, f"_{self._key}": np.ones(self.num_envs, np.bool_)}
        for name, part in self._parts(total).items():
            infos[self._key] |= {name: part, f"_{name}": np.ones(self.num_envs, np.bool_)}
        return observations, rewards, terminated, truncated, infos

    def _forget(self) -> None:
        if self._remote is not None:
            self._remote.take_step_times()

    def _parts(self, total: float) -> dict[str, Any]:
        whole, none = np.full(self.num_envs, total), np.zeros(self.num_envs)
        if self._remote is None:
            times = LaneTimes(none, whole.copy(), none.copy(), whole)
        else:
            times = self._remote.take_step_times()
        # Clocks of two processes: what is left may come out a little below zero; NaN stays NaN.
        network = np.maximum(whole - times.codec - times.session, 0.0)
        return {
            "total": whole,
            "queue": times.queue,
            "environment": times.environment,
            "codec": times.codec,
            "network": network,
        }
