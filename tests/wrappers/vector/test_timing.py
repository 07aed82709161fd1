from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.errors import ConfigError
from openenv_gym.testing import check_vector_env
from openenv_gym.wrappers.vector import StepTiming
from tests.support.testenvs import AttrEnv
from tests.testing.vectors import GYMNASIUMS_OWN

PARTS = ("total", "queue", "environment", "codec", "network")


def remote(name: str = "Attr", n: int = 3, **kwargs: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    return gym.make_vec(
        "openenv/Gym-v0",
        n,
        env_id=f"tests.support.testenvs:{name}-v0",
        provider="inprocess",
        timing=True,
        **kwargs,
    )


def stepped(envs: Any) -> dict[str, Any]:
    """Return the entry of one step, without its masks."""
    infos = envs.step(np.zeros(envs.num_envs, np.int64))[-1]
    assert infos["_timing"].all()
    assert all(infos["timing"][f"_{part}"].all() for part in PARTS)
    return {part: infos["timing"][part] for part in PARTS}


def test_the_parts_of_a_step_are_there_for_each_lane() -> None:
    envs = StepTiming(remote())
    envs.reset()
    for _ in range(3):
        timing = stepped(envs)
        assert all(column.shape == (3,) and column.dtype == np.float64 for column in timing.values())
        assert all((column >= 0).all() for column in timing.values())
        assert (timing["environment"] > 0).all() and (timing["codec"] > 0).all()
        assert (timing["network"] + timing["environment"] + timing["codec"] <= timing["total"]).all()
    envs.close()


def test_slow_lanes_are_told_from_fast_ones() -> None:
    kwargs: list[dict[str, Any]] = [{"step": 0.0}, {"step": 2.0}]
    envs = StepTiming(remote("Sleep", 2, env_kwargs=kwargs, lane_threads=1))
    envs.reset()
    timing = stepped(envs)
    assert timing["environment"][1] >= 2.0 > timing["environment"][0]
    assert timing["queue"][1] > timing["queue"][0]
    assert (timing["total"] - timing["network"] >= 2.0).all()
    envs.close()


def test_a_local_step_is_all_environment() -> None:
    envs = StepTiming(SyncVectorEnv([AttrEnv] * 2))
    envs.reset()
    timing = stepped(envs)
    assert (timing["environment"] == timing["total"]).all() and (timing["total"] > 0).all()
    assert not (timing["queue"].any() or timing["codec"].any() or timing["network"].any())


def test_the_contract_is_kept() -> None:
    # Times never repeat themselves, so what rests on repetition is left open.
    skipped = ("seeding", "reference", *GYMNASIUMS_OWN)
    report = check_vector_env(lambda: StepTiming(remote()), steps=6, skip=skipped)
    assert report.outcome("infos") == "kept"


def test_times_must_be_taken() -> None:
    envs = gym.make_vec("remote/CartPole-v1", 1, provider="inprocess")
    with pytest.raises(ConfigError, match="make the environment with timing=True"):
        StepTiming(envs)
    envs.close()


def test_an_entry_of_the_environment_is_not_overwritten() -> None:
    envs = StepTiming(SyncVectorEnv([AttrEnv]), key="gravity")
    envs.reset()
    with pytest.raises(ConfigError, match="infos have 'gravity' already"):
        envs.step(np.zeros(1, np.int64))
