from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from openenv_gym.testing import check_vector_env
from openenv_gym.wrappers.trajectory import ResetCall, Trajectory
from openenv_gym.wrappers.vector import RecordTrajectory
from tests.testing.vectors import GYMNASIUMS_OWN


def make() -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)


def test_a_recorded_env_keeps_the_contract(tmp_path: Path) -> None:
    report = check_vector_env(lambda: RecordTrajectory(make(), tmp_path), steps=40, skip=GYMNASIUMS_OWN)
    assert report.outcome("reference") == "kept"


def test_seeds_and_masks_are_recorded(tmp_path: Path) -> None:
    envs = RecordTrajectory(make(), tmp_path, name="lanes")
    assert envs.path is None
    envs.reset(seed=[5, None])
    mask = np.array([True, False])
    envs.reset(options={"reset_mask": mask})
    envs.close()
    assert envs.closed
    first, second = Trajectory(str(envs.path))
    assert isinstance(first, ResetCall) and isinstance(second, ResetCall)
    assert first.seed == [5, None] and second.seed is None
    assert second.options["reset_mask"].tolist() == [True, False]
    header = Trajectory(str(envs.path)).header
    assert (header.kind, header.num_envs) == ("vector", 2)
