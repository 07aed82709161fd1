"""A recorded trajectory, repeated: does the environment still answer the same?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from openenv_gym.errors import ConfigError, RemoteProtocolError
from openenv_gym.protocol.specs import from_spec
from openenv_gym.testing import difference

from .trajectory import Header, RaisedCall, Record, ResetCall, StepCall, Trajectory, carried, comparable

__all__ = ["ReplayDifferenceError", "Replayed", "replay"]

_Env = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]
_FIELDS = {
    "env": ("observation", "reward", "terminated", "truncated", "info"),
    "vector": ("observations", "rewards", "terminations", "truncations", "infos"),
}


class Replayed(NamedTuple):
    """How much was repeated, without a difference.

    Attributes:
        resets: Number of resets.
        steps: Number of steps.
        raised: Number of calls that raised, then and now.
        cut: Whether the file ends within a record, as after a crash.
    """

    resets: int
    steps: int
    raised: int
    cut: bool


class ReplayDifferenceError(AssertionError):
    """The environment answered otherwise than the recorded one.

    Attributes:
        step: Number of steps before the call, over all episodes.
        reset: Number of resets before the call.
        field: What differs: ``"reward"``, ``"info"`` ..., of a vector environment ``"rewards"`` ...
    """

    def __init__(self, message: str, *, step: int, reset: int, field: str) -> None:
        super().__init__(message)
        self.step = step
        self.reset = reset
        self.field = field


def replay(path: str | os.PathLike[str], env: _Env | None = None) -> Replayed:
    """Repeat a recorded trajectory on a fresh environment, and compare every answer bit for bit.

    Values are compared as they come back from a file: types, dtypes, shapes and bits count.

    Args:
        path: The file, as :class:`~openenv_gym.wrappers.RecordTrajectory` wrote it, of a single or a vector
            environment.
        env: The environment to drive, which stays open; ``None``: one is made from the recorded spec, and
            closed.

    Returns:
        How much was repeated.

    Raises:
        ReplayDifferenceError: An answer differs; the message names step, field and place of the first
            difference.
        ConfigError: The file is no trajectory of this version, holds no spec to make an env from, or ``env``
            is no env of the recorded kind.
        Exception: Whatever the env raises where the recorded one did not.
    """
    trajectory = Trajectory(path)
    made = env is None
    if env is None:
        env = _make(trajectory)
    try:
        return _Replay(trajectory, env).run()
    finally:
        if made:
            env.close()


class _Replay:
    def __init__(self, trajectory: Trajectory, env: _Env) -> None:
        header = trajectory.header
        if isinstance(env, VectorEnv) is not (header.kind == "vector"):
            raise ConfigError(
                f"{trajectory.path} holds a trajectory of kind {header.kind!r}; pass an env of it"
            )
        self._trajectory = trajectory
        self._env: Any = env
        self._fields = _FIELDS[header.kind]
        self._resets = self._steps = self._raised = 0
        try:
            found = next(_surface_differences(header, env), None)
        except RemoteProtocolError as exc:
            raise _malformed(trajectory, f"its header: {exc}") from exc
        if found is not None:
            field, text = found
            raise self._error(field, f"{field} is {text}")

    def run(self) -> Replayed:
        for record in self._trajectory:
            self._repeat(record)
        return Replayed(self._resets, self._steps, self._raised, self._trajectory.cut)

    def _repeat(self, record: Record) -> None:
        match record:
            case ResetCall(seed=seed, options=options, result=result):
                self._compare(self._reset(seed, options), result, (self._fields[0], self._fields[-1]))
                self._resets += 1
            case StepCall(action=action, result=result):
                self._compare(self._env.step(action), result, self._fields)
                self._steps += 1
            case RaisedCall():
                self._raise_again(record)
                self._raised += 1

    def _reset(self, seed: Any, options: Any) -> Any:
        return self._env.reset(seed=seed, options=options)

    def _compare(self, ours: Any, theirs: list[Any], fields: tuple[str, ...]) -> None:
        for field, now, then in zip(fields, ours, theirs, strict=True):
            text = difference(carried(now), comparable(then), field)
            if text is not None:
                raise self._error(field, text)

    def _raise_again(self, record: RaisedCall) -> None:
        try:
            if record.call == "reset":
                self._reset(*record.given)
            else:
                self._env.step(*record.given)
        except Exception:
            return
        raise self._error("error", f"{record.call} returned; the recorded call raised {record.error}")

    def _error(self, field: str, text: str) -> ReplayDifferenceError:
        where = f"step {self._steps} (reset {self._resets})" if self._resets else "before the first reset"
        message = f"{self._trajectory.path}, {where}: {text}"
        return ReplayDifferenceError(message, step=self._steps, reset=self._resets, field=field)


def _surface_differences(header: Header, env: _Env) -> Iterator[tuple[str, str]]:
    if isinstance(env, VectorEnv) and env.num_envs != header.num_envs:
        yield "num_envs", f"{env.num_envs}, not {header.num_envs}"
    for field, spec in (
        ("observation_space", header.observation_space),
        ("action_space", header.action_space),
    ):
        if spec is not None and (recorded := from_spec(spec)) != getattr(env, field):
            yield field, f"{getattr(env, field)!r}, not {recorded!r}"


def _make(trajectory: Trajectory) -> _Env:
    text = trajectory.header.spec
    if text is None:
        raise ConfigError(f"{trajectory.path} has no spec to make an env from; pass env=")
    try:
        spec = EnvSpec.from_json(text)
    except Exception as exc:
        raise _malformed(trajectory, f"its spec: {exc}") from exc
    if trajectory.header.kind == "vector":
        return gym.make_vec(spec)
    return gym.make(spec)


def _malformed(trajectory: Trajectory, what: str) -> ConfigError:
    return ConfigError(f"{trajectory.path} is damaged, {what}; record it again")
