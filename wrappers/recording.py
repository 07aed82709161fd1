"""What recording a single and a vector environment have in common."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

import openenv_gym
from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.protocol.specs import to_spec
from openenv_gym.protocol.values import pack

from .trajectory import Header, TrajectoryWriter

__all__ = ["Recorder"]

_SEED_BITS = 31


class Recorder:
    """Writes the calls of one environment to a file, which it makes at the first call.

    Args:
        folder: Folder of the file.
        name: How the file's name begins.
        kind: ``"env"`` or ``"vector"``.
        env: The environment.

    Attributes:
        path: The file; ``None`` before the first call.
    """

    def __init__(self, folder: str, name: str, kind: str, env: Any) -> None:
        self._folder = folder
        self._name = name
        self._kind = kind
        self._env = env
        self._writer: TrajectoryWriter | None = None
        self._seeded = False

    @property
    def path(self) -> str | None:
        """The file; ``None`` before the first call."""
        return None if self._writer is None else str(self._writer.path)

    def reset(self, seed: Any, options: Any, call: Callable[[Any], Any]) -> Any:
        """Return ``call(seed)``, with a random seed if none was ever given, and write it down."""
        if seed is None and not self._seeded:
            seed = secrets.randbits(_SEED_BITS)
        self._seeded = True
        # The environment may take something out of the options.
        given = [pack(seed, "seed"), pack(options, "options")]
        result = self._call("reset", given, call, seed)
        self._file().reset(given, result)
        return result

    def step(self, action: Any, call: Callable[[Any], Any]) -> Any:
        """Return ``call(action)`` and write it down."""
        given = [pack(action, "action")]
        result = self._call("step", given, call, action)
        self._file().step(given, result)
        return result

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _call(self, name: str, given: list[Any], call: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return call(argument)
        except Exception as exc:
            self._file().raised(name, given, exc)
            raise

    def _file(self) -> TrajectoryWriter:
        if self._writer is None:
            self._writer = TrajectoryWriter(self._folder, self._name, self._header())
        return self._writer

    def _header(self) -> Header:
        env = self._env
        return Header(
            kind=self._kind,
            num_envs=env.num_envs if self._kind == "vector" else 1,
            spec=_json(env.spec),
            observation_space=_space(env.observation_space),
            action_space=_space(env.action_space),
            versions={
                "openenv_gym": openenv_gym.__version__,
                "gymnasium": gym.__version__,
                "numpy": np.__version__,
            },
        )


def _json(spec: EnvSpec | None) -> str | None:
    """Return the spec as JSON; ``None``: it holds something that has no such form."""
    try:
        return None if spec is None else spec.to_json()
    except (TypeError, ValueError):
        return None


def _space(space: gym.Space[Any]) -> Any:
    """Return the wire spec; ``None``: the space is of a kind that has none."""
    try:
        return to_spec(space)
    except ValueNotCarriedError:
        return None
