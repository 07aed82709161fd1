"""First-ready batches when lanes, workers and servers fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym.errors import (
    DeadlineExceededError,
    RemoteEnvironmentError,
    ResetNeededError,
    VectorEnvError,
    WorkerCrashedError,
)
from openenv_gym.wrappers.vector import Batch, RemoteVectorEnv, fleet


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_FIRST_PAUSE", 0.001)


@contextmanager
def making(name: str = "Crash-v0", lanes: int = 4, **kwargs: Any) -> Iterator[RemoteVectorEnv]:
    if "provider" not in kwargs:
        kwargs["provider_kwargs"] = {"workers": 2}
    kwargs.setdefault("lane_threads", 1)
    envs = gym.make_vec("openenv/Gym-v0", num_envs=lanes, env_id=f"tests.support.testenvs:{name}", **kwargs)
    assert isinstance(envs, RemoteVectorEnv)
    try:
        yield envs
    finally:
        envs.close()


def crashing(lane: int, how: str = "kill", at: int = 2) -> list[dict[str, Any]]:
    return [{"how": how, "at": at if lane == each else 10**6} for each in range(4)]


def by_lane(batch: Batch) -> dict[int, tuple[int, bool]]:
    """Return observation and truncation of each lane."""
    rows = zip(batch.lanes.tolist(), batch.observations.tolist(), batch.truncations.tolist(), strict=True)
    return {lane: (observation, truncated) for lane, observation, truncated in rows}


def test_a_lane_that_raises_is_the_only_victim() -> None:
    with making(provider="inprocess", env_kwargs=crashing(2, how="exception"), on_error="truncate") as envs:
        envs.reset()
        envs.send(np.zeros(4, np.int64))
        envs.recv()
        envs.send(np.zeros(4, np.int64))
        with pytest.raises(VectorEnvError, match="lane 2 of 4 failed") as caught:
            while True:
                envs.recv(4)
        error = caught.value
        assert isinstance(error.__cause__, RemoteEnvironmentError)
        assert error.lanes == (2,)
        seen = by_lane(error.partial)
        assert seen == {lane: (2, False) for lane in seen}
        rest = sorted({0, 1, 3} - set(seen))
        if rest:
            assert sorted(envs.recv(len(rest)).lanes.tolist()) == rest
        with pytest.raises(ResetNeededError, match="in lane 2"):
            envs.send([0], [2])
        envs.reset(options={"reset_mask": error.mask})
        envs.send(np.zeros(4, np.int64))
        assert by_lane(envs.recv()) == {0: (3, False), 1: (3, False), 2: (1, False), 3: (3, False)}


def test_a_dead_worker_takes_all_its_lanes() -> None:
    with making(env_kwargs=crashing(3)) as envs:
        envs.reset()
        envs.send(np.zeros(4, np.int64))
        assert by_lane(envs.recv()) == dict.fromkeys(range(4), (1, False))
        envs.send([0, 0, 0], [0, 1, 3])
        with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
            envs.recv(3)
        assert isinstance(caught.value.errors[3], WorkerCrashedError)
        partial = by_lane(caught.value.partial)
        rest = {0, 1} - set(partial)
        if rest:
            partial |= by_lane(envs.recv(len(rest)))
        assert partial == {0: (2, False), 1: (2, False)}
        with pytest.raises(ResetNeededError, match="in lanes 2, 3"):
            envs.send([0, 0], [2, 3])
        envs.reset(options={"reset_mask": caught.value.mask})
        envs.send(np.zeros(4, np.int64))
        assert by_lane(envs.recv()) == {0: (3, False), 1: (3, False), 2: (1, False), 3: (1, False)}


def test_lost_episodes_end_truncated_those_of_lanes_that_did_not_run_too() -> None:
    with making(env_kwargs=crashing(3), on_error="truncate") as envs:
        envs.reset()
        envs.send(np.zeros(4, np.int64))
        envs.recv()
        envs.send([0, 0, 0], [0, 1, 3])
        batch = envs.recv(3)
        assert by_lane(batch) == {0: (2, False), 1: (2, False), 3: (1, True)}
        row = batch.lanes.tolist().index(3)
        assert batch.infos["openenv"]["error"][row] == "worker_crashed"
        envs.send(np.zeros(4, np.int64))
        assert by_lane(envs.recv()) == {0: (3, False), 1: (3, False), 2: (1, True), 3: (0, False)}
        envs.send(np.zeros(4, np.int64))
        assert by_lane(envs.recv()) == {0: (4, False), 1: (4, False), 2: (0, False), 3: (1, False)}


def test_lost_episodes_end_and_begin_in_one_step() -> None:
    with making(env_kwargs=crashing(3), on_error="truncate", autoreset_mode="SameStep") as envs:
        envs.reset()
        envs.send(np.zeros(4, np.int64))
        envs.recv()
        envs.send([0, 0, 0], [0, 1, 3])
        batch = envs.recv(lanes=[0, 1, 3])
        assert by_lane(batch) == {0: (2, False), 1: (2, False), 3: (0, True)}
        assert batch.infos["final_obs"].tolist() == [None, None, 1]
        assert batch.infos["final_info"]["openenv"]["error"].tolist() == [None, None, "worker_crashed"]
        envs.send(np.zeros(4, np.int64))
        batch = envs.recv(lanes=[0, 1, 2, 3])
        assert by_lane(batch) == {0: (3, False), 1: (3, False), 2: (0, True), 3: (1, False)}
        assert batch.infos["final_obs"].tolist() == [None, None, 1, None]


def test_whole_steps_go_on_after_a_loss_among_first_ready_ones() -> None:
    with making(env_kwargs=crashing(3), on_error="truncate") as envs:
        envs.reset()
        envs.step(np.zeros(4, np.int64))
        envs.send([0], [3])
        assert by_lane(envs.recv()) == {3: (1, True)}
        observations, _, _, truncated, _ = envs.step(np.zeros(4, np.int64))
        assert observations.tolist() == [2, 2, 1, 0]
        assert truncated.tolist() == [False, False, True, False]
        assert envs.step(np.zeros(4, np.int64))[0].tolist() == [3, 3, 0, 1]


def test_a_missed_deadline_is_the_end_of_the_lanes_of_its_worker() -> None:
    kwargs = {"unit": 1.0}
    with making("Sleep-v0", env_kwargs=kwargs, step_timeout=3.0, lane_threads=2) as envs:
        envs.reset()
        envs.send(np.array([0, 0, 30, 0]))
        ready: dict[int, tuple[int, bool]] = {}
        with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
            while True:
                ready |= by_lane(envs.recv(1))
        assert isinstance(caught.value.errors[2], DeadlineExceededError)
        assert {0: (0, False), 1: (0, False)}.items() <= (ready | by_lane(caught.value.partial)).items()


def test_an_interrupt_drops_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with making("Counter-v0", provider="inprocess") as envs:
        envs.reset()
        envs.send(np.zeros(4, np.int64))
        with monkeypatch.context() as patch:

            def interrupt(*_: Any) -> None:
                raise KeyboardInterrupt

            patch.setattr(envs._ready, "_wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.recv(4)
        assert not envs._ready.busy.any()
        envs.reset()
        assert envs.step(np.zeros(4, np.int64))[0].tolist() == [1, 1, 1, 1]
