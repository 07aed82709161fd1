"""A wrapper that records trajectories of a single environment."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym

from .recording import Recorder

__all__ = ["RecordTrajectory"]


class RecordTrajectory(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Records every reset and step, bit for bit, in a file that :func:`~openenv_gym.wrappers.replay` repeats.

    Each env writes a file of its own, ``<folder>/<name>-<number>.trajectory``; ``path`` names it. The first
    reset, if it has no seed, gets a random one, so that the trajectory can be repeated. A call that raises is
    recorded, too. The format stands in :mod:`openenv_gym.wrappers.trajectory`.

    ::

        env = RecordTrajectory(gym.make("remote/CartPole-v1"), "runs")
        ...
        env.close()
        replay("runs/trajectory-0.trajectory")

    Args:
        env: The environment.
        folder: Where the file goes; made if it is not there.
        name: How the file's name begins.

    Raises:
        ValueNotCarriedError: In a call: seed, options or action have no form in a file; the environment was
            not called. Infos may hold anything; what has no form is written as the name of its type and its
            ``repr``.
        OSError: In a call: the file cannot be written.
    """

    def __init__(
        self, env: gym.Env[Any, Any], folder: str | os.PathLike[str], name: str = "trajectory"
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, folder=os.fspath(folder), name=name)
        gym.Wrapper.__init__(self, env)
        self._recorder = Recorder(os.fspath(folder), name, "env", env)

    @property
    def path(self) -> str | None:
        """The file; ``None`` before the first call."""
        return self._recorder.path

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and write down what it returned."""
        result: tuple[Any, dict[str, Any]] = self._recorder.reset(
            seed, options, lambda seed: self.env.reset(seed=seed, options=options)
        )
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and write down what it returned."""
        result: tuple[Any, Any, bool, bool, dict[str, Any]] = self._recorder.step(action, self.env.step)
        return result

    def close(self) -> None:
        """Close file and environment."""
        self._recorder.close()
        self.env.close()
