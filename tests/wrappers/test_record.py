from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from openenv_gym.testing import check_remote
from openenv_gym.wrappers import RecordTrajectory
from openenv_gym.wrappers.trajectory import StepCall, Trajectory
from tests.support.testenvs import CounterEnv, SpaceEnv


def test_recording_changes_nothing(tmp_path: Path) -> None:
    with RecordTrajectory(SpaceEnv("nested"), tmp_path) as env:
        check_remote(env, SpaceEnv("nested"), steps=20)
        assert env.path == str(tmp_path / "trajectory-0.trajectory")
    assert sum(isinstance(call, StepCall) for call in Trajectory(str(env.path))) == 20


def test_a_spec_makes_another_recorder_with_a_file_of_its_own(tmp_path: Path) -> None:
    env = RecordTrajectory(gym.make("CartPole-v1"), tmp_path / "runs", name="pole")
    env.reset()
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    again.reset()
    assert isinstance(again, RecordTrajectory)
    assert again.path == str(tmp_path / "runs" / "pole-1.trajectory")
    for one in (env, again):
        one.close()


def test_an_env_that_raises_is_closed_and_its_file_kept(tmp_path: Path) -> None:
    class Failing(CounterEnv):
        def step(self, action: int) -> tuple[object, float, bool, bool, dict[str, object]]:
            raise ValueError("no more")

    env = RecordTrajectory(Failing(), tmp_path)
    env.reset()
    with pytest.raises(ValueError, match="no more"):
        env.step(0)
    env.close()
    env.close()
    assert [type(call).__name__ for call in Trajectory(str(env.path))] == ["ResetCall", "RaisedCall"]
