"""Many lanes: what they hold up, where episodes end, what a failure takes along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym.errors import VectorEnvError
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv
from tests.support.vectorenvs import NumberedSpaceEnv

MEETING = "tests.support.vectorenvs:MeetingEnv"


def remote(target: str, lanes: int, **kwargs: Any) -> RemoteVectorEnv:
    return RemoteVectorEnv(target, num_envs=lanes, **{"provider": "inprocess", **kwargs})


@pytest.mark.parametrize("lanes_per_worker", [None, 50])
def test_f020_f021_all_lanes_are_at_work_at_the_same_time(lanes_per_worker: int | None) -> None:
    lanes = 250
    options: dict[str, Any] = {"lanes_per_worker": lanes_per_worker, "lane_threads": lanes}
    envs = remote(MEETING, lanes, env_kwargs={"party": lanes}, **options)
    envs.reset()
    for _ in range(3):
        envs.step(np.zeros(lanes, np.int64))
    envs.send(np.zeros(lanes, np.int64))
    assert len(envs.recv(lanes).lanes) == lanes
    envs.close()


def test_f059_a_loop_that_logs_final_infos_finds_them() -> None:
    envs = gym.wrappers.vector.RecordEpisodeStatistics(
        remote("CartPole-v1", 4, autoreset_mode=AutoresetMode.SAME_STEP)
    )
    envs.reset(seed=1)
    returns = []
    rng = np.random.default_rng(0)
    for _ in range(200):
        _, _, terminated, truncated, infos = envs.step(rng.integers(0, 2, 4))
        ended = terminated | truncated
        assert ("final_info" in infos) == ended.any()
        if ended.any():
            assert infos["_final_info"].tolist() == ended.tolist()
            assert infos["_final_obs"].tolist() == ended.tolist()
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    envs.close()
    assert len(returns) > 10


def test_f059_the_step_that_begins_an_episode_ignores_its_action() -> None:
    envs = remote("CartPole-v1", 2, max_episode_steps=2)
    results = []
    for action in (0, 1):
        envs.reset(seed=4)
        envs.step(np.zeros(2, np.int64))
        assert envs.step(np.zeros(2, np.int64))[3].all()
        observations, rewards, terminated, truncated, _ = envs.step(np.full(2, action))
        assert rewards.tolist() == [0.0, 0.0]
        assert not terminated.any() and not truncated.any()
        results.append(np.abs(observations) < 0.05)
    envs.close()
    assert all(result.all() for result in results)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_f060_the_last_observation_of_an_episode_is_there(mode: AutoresetMode) -> None:
    envs = remote("CartPole-v1", 3, autoreset_mode=mode)
    alone = [gym.make("CartPole-v1").unwrapped for _ in range(3)]
    envs.reset(seed=8)
    for lane, env in enumerate(alone):
        env.reset(seed=8 + lane)
    seen: set[int] = set()
    rng = np.random.default_rng(2)
    while len(seen) < 3:
        actions = rng.integers(0, 2, 3)
        observations, _, terminated, _, infos = envs.step(actions)
        for lane in sorted({0, 1, 2} - seen):
            due, _, ended, _, _ = alone[lane].step(actions[lane])
            last = (
                infos["final_obs"][lane] if mode is AutoresetMode.SAME_STEP and ended else observations[lane]
            )
            assert difference(last, due) is None
            assert terminated[lane] == ended
            if ended:
                seen.add(lane)
        if mode is AutoresetMode.DISABLED and terminated.any():
            envs.reset(options={"reset_mask": terminated})
    envs.close()


@pytest.mark.parametrize("number", range(60))
def test_f061_random_nested_spaces_are_batched_as_gymnasium_does_it(number: int) -> None:
    try:
        local = SyncVectorEnv([lambda: NumberedSpaceEnv(number)] * 3)
        first = local.reset(seed=1)
    except (ValueError, TypeError, IndexError):
        pytest.xfail("Gymnasium itself cannot batch this space")
    envs = remote(
        "tests.support.vectorenvs:NumberedSpaceEnv", 3, env_kwargs={"number": number}, lanes_per_worker=2
    )
    assert envs.observation_space == local.observation_space
    assert difference(envs.reset(seed=1), first) is None
    local.action_space.seed(number)
    for step in range(8):
        actions = local.action_space.sample()
        assert difference(envs.step(actions), local.step(actions), f"step {step}") is None
    envs.close()
    local.close()


def test_f066_f068_a_failure_names_lane_cause_and_place_and_takes_nobody_along() -> None:
    kwargs = [{"how": "exception", "at": 2 if lane == 2 else 99} for lane in range(4)]
    envs = remote("tests.support.testenvs:CrashEnv", 4, env_kwargs=kwargs, lane_threads=1)
    envs.reset(seed=0)
    envs.step(np.zeros(4, np.int64))
    with pytest.raises(VectorEnvError, match=r"lane 2 of 4 failed") as caught:
        envs.step(np.zeros(4, np.int64))
    assert "KeyError: 'the environment failed'" in str(caught.value)
    assert 'faultenvs.py", line' in str(caught.value)
    assert caught.value.partial[0].tolist() == [2, 2, 1, 2]
    envs.reset(options={"reset_mask": caught.value.mask})
    assert envs.step(np.zeros(4, np.int64))[0].tolist() == [3, 3, 1, 3]
    envs.close()


def resident() -> int:
    """Return the memory that this process occupies, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning")
@pytest.mark.parametrize("lanes", [0, 3])
def test_f076_recording_remote_frames_takes_no_memory_for_good(lanes: int, tmp_path: Path) -> None:
    target = "tests.support.shapeenvs:RenderEnv"
    about: dict[str, Any] = {"provider": "inprocess", "render_mode": "rgb_array"}
    if lanes:
        envs: Any = remote(target, lanes, max_episode_steps=20, **about)
        recorder: Any = gym.wrappers.vector.RecordVideo(
            envs, str(tmp_path / "videos"), episode_trigger=lambda _: True
        )
    else:
        from openenv_gym.env import RemoteEnv

        envs = gym.wrappers.TimeLimit(RemoteEnv(target, **about), 200)
        recorder = gym.wrappers.RecordVideo(envs, str(tmp_path / "videos"), episode_trigger=lambda _: True)
    episodes, before = 50, 0
    for episode in range(episodes):
        recorder.reset(seed=episode)
        for _ in range(200):
            recorder.step(recorder.action_space.sample())
        if episode == 5:
            before = resident()
    grown = resident() - before
    recorder.close()
    assert len(list((tmp_path / "videos").glob("*.mp4"))) >= episodes
    assert grown < 50 << 20


def test_f108_lanes_that_are_stepped_in_any_order_are_alone() -> None:
    lanes, rng = 30, np.random.default_rng(3)
    envs = remote("CartPole-v1", lanes, lanes_per_worker=10)
    alone = [gym.make("CartPole-v1").unwrapped for _ in range(lanes)]
    envs.reset(seed=20)
    for lane, env in enumerate(alone):
        env.reset(seed=20 + lane)
    over: set[int] = set()
    for _ in range(40):
        chosen = [int(lane) for lane in rng.permutation(lanes)[: rng.integers(1, lanes)] if lane not in over]
        if not chosen:
            continue
        actions = rng.integers(0, 2, len(chosen))
        envs.send(actions, chosen)
        batch = envs.recv(lanes=chosen)
        for row, lane in enumerate(chosen):
            due = alone[lane].step(actions[row])
            assert difference(batch.observations[row], due[0]) is None
            if due[2]:
                over.add(lane)
    envs.close()
    assert len(over) < lanes
