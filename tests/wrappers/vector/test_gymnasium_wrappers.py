"""Gymnasium's vector wrappers do to remote lanes what they do to local ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from openenv_gym.testing import difference, same
from tests.support.testenvs import RenderEnv, SpaceEnv

LANES = 3
Envs = gym.vector.VectorEnv[Any, Any, Any]
Wrap = Callable[[Any], Envs]

#: Those that work in each mode.
ALWAYS: dict[str, Wrap] = {
    "statistics": wrappers.RecordEpisodeStatistics,
    "lists": wrappers.DictInfoToList,
    "clip reward": lambda envs: wrappers.ClipReward(envs, -1.0, 0.0),
    "transform reward": lambda envs: wrappers.TransformReward(envs, lambda rewards: rewards / 2),
    "each reward": lambda envs: wrappers.VectorizeTransformReward(
        envs, gym.wrappers.ClipReward, max_reward=0
    ),
    "normal reward": wrappers.NormalizeReward,
    "clip action": wrappers.ClipAction,
    "rescale action": lambda envs: wrappers.RescaleAction(envs, np.float32(-1), np.float32(1)),
    "transform action": lambda envs: wrappers.TransformAction(envs, lambda actions: actions / 2),
    "each action": lambda envs: wrappers.VectorizeTransformAction(
        envs, gym.wrappers.RescaleAction, min_action=np.float32(-1), max_action=np.float32(1)
    ),
}
#: Those that refuse SAME_STEP, whose last observations they would leave as they are.
OBSERVING: dict[str, Wrap] = {
    "normal": wrappers.NormalizeObservation,
    "dtype": lambda envs: wrappers.DtypeObservation(envs, np.float64),
    "flat": wrappers.FlattenObservation,
    "rescale": lambda envs: wrappers.RescaleObservation(envs, np.float32(-1), np.float32(1)),
    "reshape": lambda envs: wrappers.ReshapeObservation(envs, (1, 3)),
    "transform": lambda envs: wrappers.TransformObservation(envs, lambda observations: observations * 2),
    "each": lambda envs: wrappers.VectorizeTransformObservation(
        envs, gym.wrappers.ReshapeObservation, shape=(3, 1)
    ),
}
CASES = [
    *((name, wrap, mode) for name, wrap in ALWAYS.items() for mode in AutoresetMode),
    *((name, wrap, AutoresetMode.NEXT_STEP) for name, wrap in OBSERVING.items()),
]


def pendulum() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1", max_episode_steps=12, disable_env_checker=True)


def pair(mode: AutoresetMode) -> tuple[Envs, Envs]:
    """Return remote and local lanes."""
    remote = gym.make_vec(
        "remote/Pendulum-v1", LANES, max_episode_steps=12, autoreset_mode=mode, provider="inprocess"
    )
    return remote, SyncVectorEnv([pendulum] * LANES, autoreset_mode=mode)


def rollout(envs: Envs, steps: int) -> list[Any]:
    """Return all results, without how long the episodes took."""
    disabled = envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    envs.action_space.seed(1)
    results: list[Any] = [envs.reset(seed=4)]
    for _ in range(steps):
        result = envs.step(envs.action_space.sample())
        if isinstance(result[-1], dict) and "episode" in result[-1]:
            del result[-1]["episode"]["t"]
        results.append(result)
        if disabled and (result[2] | result[3]).any():
            results.append(envs.reset())
    return results


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize(("name", "wrap", "mode"), CASES)
def test_a_wrapper_acts_as_locally(name: str, wrap: Wrap, mode: AutoresetMode) -> None:
    ours, theirs = map(wrap, pair(mode))
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert difference(rollout(ours, 30), rollout(theirs, 30)) is None
    ours.close()
    assert ours.closed


@pytest.mark.parametrize(("name", "wrap"), OBSERVING.items())
def test_a_wrapper_of_observations_refuses_same_step_as_locally(name: str, wrap: Wrap) -> None:
    ours, theirs = pair(AutoresetMode.SAME_STEP)
    for envs in (theirs, ours):
        with pytest.raises((ValueError, AssertionError)):
            wrap(envs)
    ours.close()


def test_parts_of_observations_are_filtered() -> None:
    remote = gym.make_vec(
        "openenv/Gym-v0", 2, env_id="tests.support.testenvs:Space-dict-v0", provider="inprocess"
    )
    local = SyncVectorEnv([lambda: SpaceEnv("dict")] * 2)
    ours, theirs = (wrappers.FilterObservation(envs, ["a"]) for envs in (remote, local))
    assert difference(ours.reset(seed=1), theirs.reset(seed=1)) is None
    ours.close()


def test_statistics_survive_masked_resets() -> None:
    envs = wrappers.RecordEpisodeStatistics(
        gym.make_vec("remote/CartPole-v1", LANES, autoreset_mode=AutoresetMode.DISABLED, provider="inprocess")
    )
    lengths, episodes = np.zeros(LANES, int), 0
    envs.action_space.seed(1)
    envs.reset(seed=1)
    for _ in range(80):
        _, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
        lengths += 1
        ended = terminated | truncated
        if ended.any():
            assert infos["episode"]["l"][ended].tolist() == lengths[ended].tolist()
            lengths[ended] = 0
            episodes += int(ended.sum())
            envs.reset(options={"reset_mask": ended})
    assert episodes > LANES
    envs.close()


if hasattr(wrappers, "RecordVideo"):  # from Gymnasium 1.3 on

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
    def test_videos_have_the_frames_of_local_lanes(tmp_path: Path) -> None:
        remote = gym.make_vec(
            "openenv/Gym-v0",
            2,
            env_id="tests.support.testenvs:Render-v0",
            render_mode="rgb_array",
            provider="inprocess",
        )
        recorders: list[Any] = [
            wrappers.RecordVideo(envs, str(tmp_path / name), episode_trigger=lambda episode: True)
            for name, envs in (
                ("ours", remote),
                ("theirs", SyncVectorEnv([lambda: RenderEnv("rgb_array")] * 2)),
            )
        ]
        for envs in recorders:
            envs.reset()
            for _ in range(4):
                envs.step(np.zeros(2, np.int64))
        ours, theirs = (np.array(envs.recorded_frames) for envs in recorders)
        assert len(ours) == 5
        assert same(ours, theirs)
        for envs in recorders:
            envs.close()
        assert [path.suffix for path in (tmp_path / "ours").iterdir()] == [".mp4"]
