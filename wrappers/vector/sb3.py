"""A vector environment as a ``VecEnv`` of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from openenv_gym.errors import ConfigError
from openenv_gym.lane_infos import lane_info

__all__ = ["VecEnvMethods", "to_sb3"]

_FINAL = frozenset(("final_obs", "_final_obs", "final_info", "_final_info"))
_Indices = None | int | Iterable[int]


def to_sb3(envs: VectorEnv[Any, Any, Any]) -> Any:
    """Return a Stable-Baselines3 ``VecEnv`` that steps ``envs``: a ``RemoteVectorEnv`` or any other.

    ::

        envs = gym.make_vec("remote/CartPole-v1", num_envs=16, autoreset_mode="SameStep")
        model = PPO("MlpPolicy", VecMonitor(to_sb3(envs)))

    ``VecMonitor`` logs episodes' returns. When an episode ends, the lane's info is that of its last step,
    with ``terminal_observation``; ``reset_infos`` has the new episode's. ``TimeLimit.truncated`` is in every
    info. In ``SameStep`` a step is one call of ``envs``. In the other modes lanes that ended are reset at
    once by mask, which is another call.

    Args:
        envs: The vector environment, which ``close()`` closes.

    Raises:
        ConfigError: It is no vector environment, does not say its autoreset mode, reuses its batches
            (``copy=False``), or is an ``AsyncVectorEnv`` without shared memory in ``NextStep``, which would
            reset lanes twice.
        ImportError: Stable-Baselines3 is not installed.
    """
    given: Any = envs
    if not isinstance(given, VectorEnv):
        kind = type(given).__name__
        raise ConfigError(f"to_sb3() takes a vector environment, such as gym.make_vec gives, not a {kind}")
    mode = envs.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise ConfigError(f"metadata['autoreset_mode'] is {mode!r}; it must be a member of AutoresetMode")
    base = envs.unwrapped
    if isinstance(base, AsyncVectorEnv) and mode is AutoresetMode.NEXT_STEP and not base.shared_memory:
        raise ConfigError(
            "AsyncVectorEnv without shared memory resets lanes twice; make it with autoreset_mode='SameStep'"
        )
    if getattr(base, "copy", True) is False:
        raise ConfigError("Stable-Baselines3 keeps observations; make the environment without copy=False")
    return _vec_env_class()(envs)


@cache
def _vec_env_class() -> type:
    try:
        base = import_module("stable_baselines3.common.vec_env").VecEnv
    except ImportError as exc:
        raise ImportError("to_sb3() needs Stable-Baselines3: pip install stable-baselines3") from exc
    return type("VectorEnvAdapter", (VecEnvMethods, base), {"__module__": __name__})


class VecEnvMethods:
    """What the adapter does; the rest it has from Stable-Baselines3's ``VecEnv``.

    Args:
        envs: The vector environment.

    Attributes:
        envs: The vector environment.
        reset_infos: For each lane what its newest reset said.
    """

    num_envs: int
    reset_infos: list[dict[str, Any]]
    _seeds: list[int | None]
    _options: list[dict[str, Any]]

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self.envs = envs
        self._same_step = envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        self._actions: Any = None
        # VecEnv's constructor asks for an attribute of the lanes.
        spaces: tuple[Any, Any] = envs.single_observation_space, envs.single_action_space
        super().__init__(envs.num_envs, *spaces)  # type: ignore[call-arg]

    def reset(self) -> Any:
        """Reset all lanes with the seeds and options that were set; return the observations.

        Raises:
            ConfigError: The lanes were given different options.
        """
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ConfigError(
                "a vector environment gives all lanes the same options; pass set_options() one dict"
            )
        observations, infos = self.envs.reset(seed=self._seed(), options=options or None)
        self.reset_infos = [lane_info(infos, lane) for lane in range(self.num_envs)]
        self._seeds = [None] * self.num_envs
        self._options = [{} for _ in range(self.num_envs)]
        return observations

    def step_async(self, actions: Any) -> None:
        """Begin a step, in the background if the environment can."""
        if hasattr(self.envs, "step_async"):
            self.envs.step_async(actions)
        else:
            self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Return observations, rewards (float32), dones (bool), both of shape ``(num_envs,)``, and infos."""
        if hasattr(self.envs, "step_wait"):
            observations, rewards, terminated, truncated, infos = self.envs.step_wait()
        else:
            observations, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        dones = terminated | truncated
        found = [lane_info(infos, lane) for lane in range(self.num_envs)]
        if dones.any():
            observations = self._begin_again(observations, dones, found)
        for lane, info in enumerate(found):
            info["TimeLimit.truncated"] = bool(truncated[lane] and not terminated[lane])
        return observations, rewards.astype(np.float32), dones, found

    def close(self) -> None:
        """Close the environment."""
        self.envs.close()

    def get_images(self) -> list[Any]:
        """Return a frame of each lane."""
        frames = self.envs.render()
        return [None] * self.num_envs if frames is None else list(frames)

    # -- lanes

    def get_attr(self, attr_name: str, indices: _Indices = None) -> list[Any]:
        """Return an attribute of lanes, all if ``indices`` is ``None``."""
        if attr_name == "render_mode":
            values: Any = [self.envs.render_mode] * self.num_envs
        else:
            values = self._base("get_attr", attr_name)(attr_name)
        return [values[lane] for lane in self._lanes(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: _Indices = None) -> None:
        """Set an attribute of lanes to one value.

        Raises:
            ConfigError: ``indices`` leaves lanes out, and the environment reaches all or none.
        """
        lanes = self._lanes(indices)
        if self._are_all(lanes):
            self._base("set_attr", attr_name)(attr_name, [value] * self.num_envs)
            return
        if (served := self._served("set_attr_lanes")) is not None:
            served(lanes, attr_name, [value] * len(lanes))
            return
        for env in self._local(lanes):
            env.set_wrapper_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: _Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of lanes; return what each returned.

        Raises:
            ConfigError: ``indices`` leaves lanes out, and the environment reaches all or none.
        """
        lanes = self._lanes(indices)
        if self._are_all(lanes):
            results = self._base("call", method_name)(method_name, *method_args, **method_kwargs)
            return [results[lane] for lane in lanes]
        if (served := self._served("call_lanes")) is not None:
            return list(served(lanes, method_name, *method_args, **method_kwargs))
        return [
            env.get_wrapper_attr(method_name)(*method_args, **method_kwargs) for env in self._local(lanes)
        ]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: _Indices = None) -> list[bool]:
        """Return for each lane whether a wrapper is around it in this process; on a server there is none."""
        lanes = self._lanes(indices)
        if not hasattr(self.envs.unwrapped, "envs"):
            return [False] * len(lanes)
        return [_is_wrapped(env, wrapper_class) for env in self._local(lanes)]

    # -- inside

    def _seed(self) -> Any:
        """Return the seeds; one int where that says the same, since not every environment takes lists."""
        first = self._seeds[0]
        if first is None:
            return None if all(seed is None for seed in self._seeds) else self._seeds
        return first if self._seeds == [first + lane for lane in range(self.num_envs)] else self._seeds

    def _begin_again(self, observations: Any, dones: Any, infos: list[dict[str, Any]]) -> Any:
        """Reset the lanes that are done; put into ``infos`` how they ended, and return the observations."""
        ended = [int(lane) for lane in np.flatnonzero(dones)]
        if self._same_step:
            for lane in ended:
                final = infos[lane]
                self.reset_infos[lane] = {key: item for key, item in final.items() if key not in _FINAL}
                infos[lane] = {
                    **final.get("final_info", {}),
                    "terminal_observation": final["final_obs"],
                }
            return observations
        last = list(iterate(self.envs.observation_space, observations))
        observations, reset_infos = self.envs.reset(options={"reset_mask": np.array(dones)})
        for lane in ended:
            self.reset_infos[lane] = lane_info(reset_infos, lane)
            infos[lane]["terminal_observation"] = deepcopy(last[lane])
        return observations

    def _lanes(self, indices: _Indices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)

    def _are_all(self, lanes: list[int]) -> bool:
        return sorted(lanes) == list(range(self.num_envs))

    def _base(self, method: str, name: str) -> Any:
        """Return a method that vector wrappers do not pass on."""
        found = getattr(self.envs.unwrapped, method, None)
        if found is None:
            raise AttributeError(f"{self.envs} has no {method}(), so its lanes' {name!r} is out of reach")
        return found

    def _served(self, method: str) -> Any:
        """Return a method for some lanes of a remote vector environment; ``None``: it is none, or native."""
        envs: Any = self.envs.unwrapped
        return None if getattr(envs, "native", True) else getattr(envs, method, None)

    def _local(self, lanes: list[int]) -> list[gym.Env[Any, Any]]:
        envs = getattr(self.envs.unwrapped, "envs", None)
        if envs is None:
            raise ConfigError(f"{self.envs} reaches all lanes or none; leave indices out")
        return [envs[lane] for lane in lanes]


def _is_wrapped(env: Any, wrapper_class: type[Any]) -> bool:
    while isinstance(env, gym.Wrapper):
        if isinstance(env, wrapper_class):
            return True
        env = env.env
    return False
