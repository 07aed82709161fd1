"""Environments for tests, served by name: ``tests.support.testenvs:Counter-v0`` or ``...:CounterEnv``."""

from __future__ import annotations

import gymnasium as gym

from .faultenvs import (
    BusyEnv,
    ChildEnv,
    CounterEnv,
    CrashEnv,
    FailingInitEnv,
    GilEnv,
    PrintEnv,
    SleepEnv,
    SlowCloseEnv,
    ThreadEnv,
)
from .shapeenvs import (
    AttrEnv,
    BadObsEnv,
    BigEnv,
    BigInfoEnv,
    FrameListEnv,
    InfoEnv,
    MaskedEnv,
    OptionsEnv,
    RenderEnv,
    RewardEnv,
    SpaceEnv,
    SpecialFloatEnv,
)
from .spacezoo import SPACES

__all__ = [
    "INFO_IDS",
    "REWARD_IDS",
    "SPACE_IDS",
    "AttrEnv",
    "BadObsEnv",
    "BigEnv",
    "BigInfoEnv",
    "BusyEnv",
    "ChildEnv",
    "CounterEnv",
    "CrashEnv",
    "FailingInitEnv",
    "FrameListEnv",
    "GilEnv",
    "InfoEnv",
    "MaskedEnv",
    "OptionsEnv",
    "PrintEnv",
    "RenderEnv",
    "RewardEnv",
    "SleepEnv",
    "SlowCloseEnv",
    "SpaceEnv",
    "SpecialFloatEnv",
    "ThreadEnv",
]

_PLAIN = (
    AttrEnv,
    BadObsEnv,
    BigEnv,
    BigInfoEnv,
    BusyEnv,
    ChildEnv,
    CounterEnv,
    CrashEnv,
    FailingInitEnv,
    FrameListEnv,
    GilEnv,
    InfoEnv,
    MaskedEnv,
    OptionsEnv,
    PrintEnv,
    RenderEnv,
    RewardEnv,
    SleepEnv,
    SlowCloseEnv,
    SpaceEnv,
    SpecialFloatEnv,
    ThreadEnv,
)


def _register(name: str, cls: type[gym.Env], **kwargs: object) -> str:
    env_id = f"{name}-v0"
    if env_id not in gym.registry:
        entry_point = f"{cls.__module__}:{cls.__qualname__}"
        gym.register(env_id, entry_point=entry_point, disable_env_checker=True, kwargs=kwargs)
    return env_id


for _cls in _PLAIN:
    _register(_cls.__name__.removesuffix("Env"), _cls)

#: One id for every kind of space, for every group of info values, for every kind of reward.
SPACE_IDS = [_register(f"Space-{kind}", SpaceEnv, kind=kind) for kind in SPACES]
INFO_IDS = [_register(f"Info-{group}", InfoEnv, group=group) for group in InfoEnv.GROUPS]
REWARD_IDS = [_register(f"Reward-{kind}", RewardEnv, kind=kind) for kind in RewardEnv.KINDS]
