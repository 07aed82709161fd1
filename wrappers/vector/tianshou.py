"""A remote vector environment as the vector environment that Tianshou's collectors take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from openenv_gym.errors import ConfigError
from openenv_gym.lane_infos import lane_info

from .remote_vector_env import RemoteVectorEnv

__all__ = ["TianshouVectorEnv", "to_tianshou"]

_Ids = None | int | Iterable[int] | np.ndarray[Any, Any]
_Results = tuple[np.ndarray[Any, Any], ...]
_OF_THE_LANES = ("action_space", "observation_space", "metadata", "spec")


def to_tianshou(envs: RemoteVectorEnv) -> TianshouVectorEnv:
    """Return ``envs`` with the interface of ``tianshou.env.BaseVectorEnv``.

    ::

        envs = gym.make_vec("remote/CartPole-v1", num_envs=16, autoreset_mode="Disabled")
        collector = Collector(policy, to_tianshou(envs), VectorReplayBuffer(20_000, 16))

    Results are those of Tianshou's ``DummyVectorEnv`` over the single environments. A step of all lanes is
    one exchange with each server, and so is a reset. Tianshou resets lanes itself, hence ``"Disabled"``.

    Args:
        envs: The vector environment, which ``close()`` closes.

    Raises:
        ConfigError: It is no bare ``RemoteVectorEnv``, has another autoreset mode, native lanes,
            ``copy=False``, or observations that Tianshou does not take.
    """
    if not isinstance(envs, RemoteVectorEnv):
        raise ConfigError(f"to_tianshou() takes a RemoteVectorEnv without wrappers, not {envs!r}")
    if envs.autoreset_mode is not AutoresetMode.DISABLED:
        raise ConfigError("Tianshou resets lanes itself; make the environment with autoreset_mode='Disabled'")
    if envs.native or not envs.copy:
        raise ConfigError("Tianshou steps lanes apart and keeps what it got; leave lanes and copy out")
    if isinstance(envs.single_observation_space, spaces.Tuple):
        raise ConfigError("Tianshou takes no Tuple observations; wrap the environment on its server")
    return TianshouVectorEnv(envs)


class TianshouVectorEnv:
    """What :func:`to_tianshou` returns. Indices are an int or several ints; ``None``: all lanes.

    Args:
        envs: The vector environment.

    Attributes:
        envs: The vector environment.
        env_num: Number of lanes.
        is_async: ``False``: a step returns the results of all lanes that it was given.
        waiting_id: Empty, for the same reason.
        is_closed: Whether it was closed.
    """

    is_async = False

    def __init__(self, envs: RemoteVectorEnv) -> None:
        self.envs = envs
        self.env_num: int = envs.num_envs
        self.waiting_id: list[int] = []
        self.is_closed = False

    def __len__(self) -> int:
        return self.env_num

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_LANES:
            return self.get_env_attr(name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def reset(self, env_id: _Ids = None, **kwargs: Any) -> tuple[Any, Any]:
        """Begin episodes in lanes.

        Args:
            env_id: Their indices.
            kwargs: ``seed``, which each of the lanes gets, and ``options``.

        Returns:
            Observations, stacked, and an object array with an info dict each, in the order of ``env_id``.

        Raises:
            TypeError: There are other arguments than these.
        """
        seed, options = kwargs.pop("seed", None), kwargs.pop("options", None)
        if kwargs:
            raise TypeError(f"reset() takes seed and options, not {', '.join(sorted(kwargs))}")
        return self._reset(self._lanes(env_id), [seed] * self.env_num, options)

    def step(self, action: Any, id: _Ids = None) -> _Results:
        """Step lanes.

        Args:
            action: One for each of them.
            id: Their indices.

        Returns:
            Observations, stacked; rewards, float64; terminated and truncated, bools; and an object array with
            an info dict each, in which ``env_id`` is the lane.
        """
        lanes = self._lanes(id)
        actions = np.asarray(action) if hasattr(action, "detach") else action
        if lanes == list(range(self.env_num)):
            observations, rewards, terminated, truncated, infos = self.envs.step(actions)
        else:
            self.envs.send_whole(actions, lanes)
            batch = self.envs.recv(lanes=lanes)
            observations, rewards, terminated, truncated, infos = batch[:5]
        found = self._infos(infos, range(len(lanes)))
        for lane, info in zip(lanes, found, strict=True):
            info["env_id"] = lane
        return self._stacked(observations), rewards, terminated, truncated, found

    def seed(self, seed: int | list[int] | None = None) -> list[list[int | None]]:
        """Reset all lanes with seeds, an int plus the lane's index or one each; return them, a list each."""
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + lane for lane in range(self.env_num)]
        else:
            seeds = list(seed)
        self._reset(list(range(self.env_num)), seeds, None)
        return [[each] for each in seeds]

    def render(self, **kwargs: Any) -> list[Any]:
        """Return a frame of each lane."""
        frames = self.envs.render()
        return [None] * self.env_num if frames is None else list(frames)

    def close(self) -> None:
        """Close the environment."""
        self.envs.close()
        self.is_closed = True

    def get_env_attr(self, key: str, id: _Ids = None) -> list[Any]:
        """Return an attribute of lanes."""
        own = f"single_{key}" if key.endswith("_space") else key
        values = [getattr(self.envs, own)] * self.env_num if key in _OF_THE_LANES else self.envs.get_attr(key)
        return [values[lane] for lane in self._lanes(id)]

    def set_env_attr(self, key: str, value: Any, id: _Ids = None) -> None:
        """Set an attribute of all lanes to one value.

        Raises:
            ConfigError: ``id`` leaves lanes out.
        """
        if sorted(self._lanes(id)) != list(range(self.env_num)):
            raise ConfigError("a vector environment reaches all lanes or none; leave id out")
        self.envs.set_attr(key, [value] * self.env_num)

    # -- inside

    def _reset(self, lanes: list[int], seeds: list[int | None], options: Any) -> tuple[Any, Any]:
        mask = np.zeros(self.env_num, np.bool_)
        mask[lanes] = True
        chosen = None if mask.all() else {"reset_mask": mask}
        if options is not None:
            chosen = {**options, **(chosen or {})}
        seed = None if all(each is None for each in seeds) else seeds
        observations, infos = self.envs.reset(seed=seed, options=chosen)
        return self._stacked(observations)[lanes], self._infos(infos, lanes)

    def _lanes(self, ids: _Ids) -> list[int]:
        if ids is None:
            return list(range(self.env_num))
        return [int(lane) for lane in np.atleast_1d(np.asarray(ids)).tolist()]

    def _stacked(self, observations: Any) -> Any:
        """Return a batch as an array, of objects where observations are none."""
        if isinstance(observations, np.ndarray):
            return observations
        values = list(iterate(self.envs.observation_space, observations))
        if not isinstance(values[0], Mapping):
            return np.stack(values)
        stacked = np.empty(len(values), object)
        stacked[:] = values
        return stacked

    def _infos(self, infos: dict[str, Any], places: Iterable[int]) -> Any:
        found = [lane_info(infos, place) for place in places]
        array = np.empty(len(found), object)
        array[:] = found
        return array
