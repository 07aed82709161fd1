"""A wrapper that records trajectories of a vector environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv, VectorWrapper

from ..recording import Recorder

__all__ = ["RecordTrajectory"]


if TYPE_CHECKING:
    _Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _Wrapper = VectorWrapper  # generic from Gymnasium 1.4 on


class RecordTrajectory(_Wrapper):
    """Records every reset and step of a vector environment, bit for bit; works with any.

    Files, seeds and errors are as for :class:`openenv_gym.wrappers.RecordTrajectory`, and
    :func:`~openenv_gym.wrappers.replay` repeats these trajectories, too.

    Args:
        env: The vector environment.
        folder: Where the file goes; made if it is not there.
        name: How the file's name begins.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], folder: str | os.PathLike[str], name: str = "trajectory"
    ) -> None:
        super().__init__(env)
        self._recorder = Recorder(os.fspath(folder), name, "vector", env)

    @property
    def path(self) -> str | None:
        """The file; ``None`` before the first call."""
        return self._recorder.path

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the lanes and write down what was returned. ``seed`` is an int or a list of them."""
        result: tuple[Any, dict[str, Any]] = self._recorder.reset(
            seed, options, lambda seed: self.env.reset(seed=seed, options=options)
        )
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the lanes and write down what was returned."""
        result: tuple[Any, Any, Any, Any, dict[str, Any]] = self._recorder.step(actions, self.env.step)
        return result

    def close(self, **kwargs: Any) -> None:
        """Close file and environment."""
        self._recorder.close()
        self.env.close(**kwargs)
