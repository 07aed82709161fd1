"""What must act remotely as it does locally: Gymnasium's own ids, and test environments of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np

from openenv_gym.env import RemoteEnv
from tests.support import testenvs
from tests.support.shapeenvs import RewardEnv
from tests.support.spacezoo import SPACES

__all__ = ["IDS", "LITERAL", "SMALL", "SUBJECTS", "Subject", "build", "group_of"]

#: What ``gymnasium[classic-control,toy-text,box2d,mujoco]`` 1.4 registers and its checker passes.
LITERAL = [
    "Acrobot-v1",
    "Ant-v4",
    "Ant-v5",
    "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
    "Blackjack-v1",
    "CarRacing-v3",
    "CartPole-v0",
    "CartPole-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "HalfCheetah-v4",
    "HalfCheetah-v5",
    "Hopper-v4",
    "Hopper-v5",
    "Humanoid-v4",
    "Humanoid-v5",
    "HumanoidStandup-v4",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v4",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v4",
    "InvertedPendulum-v5",
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Pusher-v5",
    "Reacher-v4",
    "Reacher-v5",
    "Swimmer-v4",
    "Swimmer-v5",
    "Taxi-v4",
    "Walker2d-v4",
    "Walker2d-v5",
]

#: Those that the installed Gymnasium has.
IDS = [env_id for env_id in LITERAL if env_id in gym.registry]

#: Frames that a machine without a graphics card draws quickly.
SMALL = {"width": 120, "height": 96}

_TARGET = f"{__name__}:build"


def build(name: str, render_mode: str | None = None, **kwargs: Any) -> gym.Env[Any, Any]:
    """Return the test environment ``name``, perhaps ``module:name``: one server can host them all."""
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    module, _, attribute = name.rpartition(":")
    env: gym.Env[Any, Any] = getattr(import_module(module) if module else testenvs, attribute)(**kwargs)
    return env


def group_of(env_id: str) -> str:
    """Return the part of Gymnasium that an id belongs to: ``box2d``, ``mujoco`` ..."""
    entry_point = gym.registry[env_id].entry_point
    assert isinstance(entry_point, str)
    return entry_point.split(".")[2].replace("_", " ")


@dataclass(frozen=True)
class Subject:
    """Something to compare.

    Attributes:
        name: What the tests call it.
        group: Its row in the table.
        kwargs: Arguments of the environment, and the ``name`` of a test environment.
        env_id: A Gymnasium id, unless it is a test environment.
        render_mode: For both sides; there are frames to compare then.
        masked: Whether the actions have to be those that ``action_masks()`` allows.
    """

    name: str
    group: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    env_id: str | None = None
    render_mode: str | None = None
    masked: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def target(self) -> str:
        return self.env_id or _TARGET

    @property
    def frames(self) -> int:
        return 10 if self.render_mode else 0

    def remote(self, base_url: str) -> gym.Env[Any, Any]:
        """Return the environment that the server hosts."""
        if self.env_id is None:
            return RemoteEnv(base_url=base_url, env_kwargs=self.kwargs, render_mode=self.render_mode)
        return gym.make(
            f"remote/{self.env_id}",
            base_url=base_url,
            render_mode=self.render_mode,
            disable_env_checker=True,
            **self.kwargs,
        )

    def local(self) -> gym.Env[Any, Any]:
        """Return the same environment in this process."""
        if self.env_id is None:
            return build(render_mode=self.render_mode, **self.kwargs)
        return gym.make(self.env_id, render_mode=self.render_mode, disable_env_checker=True, **self.kwargs)

    def policy(
        self, remote: gym.Env[Any, Any], local: gym.Env[Any, Any]
    ) -> Callable[[Any, dict[str, Any]], Any] | None:
        """Return what chooses the actions, as action-masking libraries do; ``None``: samples."""
        if not self.masked:
            return None

        def choose(obs: Any, info: dict[str, Any]) -> int:
            masks = remote.get_wrapper_attr("action_masks")()
            assert np.array_equal(masks, local.get_wrapper_attr("action_masks")())
            return int(np.flatnonzero(masks)[-1])

        return choose


def _of_gymnasium(env_id: str) -> Subject:
    group = group_of(env_id)
    kwargs = SMALL if group == "mujoco" else {}
    return Subject(env_id, group, kwargs, env_id=env_id, render_mode="rgb_array")


def _test(name: str, group: str = "others", **kwargs: Any) -> Subject:
    about = {key: kwargs.pop(key) for key in ("render_mode", "masked") if key in kwargs}
    label = "-".join([name, *map(str, kwargs.values()), *map(str, about.values())])
    return Subject(label, group, {"name": name, **kwargs}, **about)


SUBJECTS = [
    *map(_of_gymnasium, IDS),
    *(_test("SpaceEnv", "spaces", kind=kind) for kind in SPACES),
    *(_test("RewardEnv", "rewards", kind=kind) for kind in RewardEnv.KINDS),
    Subject("InfoEnv-exact", "infos", {"name": "InfoEnv", "group": "exact"}),
    _test("SpecialFloatEnv"),
    _test("OptionsEnv", number=1, table={"a": (1, None)}),
    _test("AttrEnv"),
    _test("CounterEnv"),
    _test("BigEnv", size=1 << 18, action_size=1 << 16),
    _test("BigInfoEnv", size=1 << 18),
    _test("RenderEnv", render_mode="rgb_array"),
    _test("RenderEnv", render_mode="ansi"),
    _test("FrameListEnv", render_mode="rgb_array_list"),
    _test("MaskedEnv", masked=True),
]
