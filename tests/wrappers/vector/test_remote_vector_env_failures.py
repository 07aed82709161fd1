"""Failures of a part: which lanes they take, what the error says, and how it goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym.errors import (
    DeadlineExceededError,
    RemoteEnvironmentError,
    ResetNeededError,
    ServerConnectionError,
    SessionLostError,
    VectorEnvError,
    WorkerCrashedError,
)
from openenv_gym.wrappers.vector import RemoteVectorEnv, fleet

STEP = np.zeros(4, np.int64)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_FIRST_PAUSE", 0.001)


@contextmanager
def making(name: str, lanes: int = 4, **kwargs: Any) -> Iterator[RemoteVectorEnv]:
    """Make a vector of a test environment, in two worker processes unless ``kwargs`` say otherwise."""
    if not {"provider", "provider_kwargs", "servers"} & set(kwargs):
        kwargs["provider_kwargs"] = {"workers": 2}
    # A thread count keeps the server from trying the environment out first, which would crash as well.
    kwargs.setdefault("lane_threads", 1)
    envs = gym.make_vec("openenv/Gym-v0", num_envs=lanes, env_id=f"tests.support.testenvs:{name}", **kwargs)
    assert isinstance(envs, RemoteVectorEnv)
    try:
        yield envs
    finally:
        envs.close()


def crashing(
    *lanes: int, of: int = 4, how: str = "kill", at: int = 3, where: str = "step"
) -> list[dict[str, Any]]:
    """Return the arguments of lanes some of which end badly in their ``at``-th call."""
    return [{"how": how, "where": where, "at": at if lane in lanes else 10**6} for lane in range(of)]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("on_error", ["raise", "truncate"])
def test_a_lane_that_raises_is_the_only_victim(mode: AutoresetMode, on_error: str) -> None:
    kwargs = crashing(2, how="exception")
    with making(
        "Crash-v0", provider="inprocess", env_kwargs=kwargs, autoreset_mode=mode, on_error=on_error
    ) as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        with pytest.raises(VectorEnvError, match="lane 2 of 4 failed") as caught:
            envs.step(STEP)
        error = caught.value
        assert error.lanes == (2,)
        assert error.mask.tolist() == [False, False, True, False]
        assert isinstance(error.__cause__, RemoteEnvironmentError)
        assert error.details["type"] == "KeyError"
        assert "KeyError: 'the environment failed'" in str(error)
        assert "faultenvs.py" in str(error)
        observations, rewards, terminated, truncated, infos = error.partial
        assert observations.tolist() == [3, 3, 2, 3]
        assert rewards.tolist() == [3.0, 3.0, 0.0, 3.0]
        assert not terminated.any() and not truncated.any()
        assert infos["_total"].tolist() == [True, True, False, True]
        with pytest.raises(ResetNeededError, match="no episode to step in lane 2"):
            envs.step(STEP)
        observations, infos = envs.reset(options={"reset_mask": error.mask})
        assert observations.tolist() == [3, 3, 0, 3]
        assert infos["_total"].tolist() == [False, False, True, False]
        assert envs.step(STEP)[0].tolist() == [4, 4, 1, 4]


def test_a_lane_that_raises_in_reset_is_the_only_victim() -> None:
    kwargs = crashing(1, how="exception", where="reset", at=1)
    with making("Crash-v0", provider="inprocess", env_kwargs=kwargs) as envs:
        with pytest.raises(VectorEnvError, match="lane 1 of 4 failed") as caught:
            envs.reset(seed=0)
        observations, infos = caught.value.partial
        assert observations.tolist() == [0, 0, 0, 0]
        assert infos["_total"].tolist() == [True, False, True, True]
        envs.reset(options={"reset_mask": caught.value.mask})
        assert envs.step(STEP)[0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_dead_worker_takes_its_own_lanes(mode: AutoresetMode) -> None:
    with making("Crash-v0", env_kwargs=crashing(3), autoreset_mode=mode) as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
            envs.step(STEP)
        error = caught.value
        assert isinstance(error.__cause__, WorkerCrashedError)
        assert error.mask.tolist() == [False, False, True, True]
        assert (error.details["exit_code"], error.details["signal"]) == (-9, "SIGKILL")
        assert error.server == envs.base_url[0]
        assert error.partial[0].tolist() == [3, 3, 2, 2]
        observations, infos = envs.reset(seed=1, options={"reset_mask": error.mask})
        assert observations.tolist() == [3, 3, 0, 0]
        assert infos["total"].tolist() == [0, 0, 0, 0]
        assert envs.step(STEP)[4]["total"].tolist() == [4, 4, 1, 1]


def test_each_lane_may_have_a_process_of_its_own() -> None:
    options = {"provider_kwargs": {"workers": 2, "sessions_per_worker": 1}, "lanes_per_worker": 1}
    with making("Crash-v0", env_kwargs=crashing(2), **options) as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        with pytest.raises(VectorEnvError) as caught:
            envs.step(STEP)
        assert caught.value.lanes == (2,)
        assert isinstance(caught.value.errors[2], WorkerCrashedError)


def test_the_end_of_a_lost_episode_is_told_and_the_next_step_begins_another() -> None:
    with making("Crash-v0", env_kwargs=crashing(3), on_error="truncate") as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        observations, rewards, terminated, truncated, infos = envs.step(STEP)
        assert observations.tolist() == [3, 3, 2, 2]
        assert rewards.tolist() == [3.0, 3.0, 0.0, 0.0]
        assert truncated.tolist() == [False, False, True, True]
        assert not terminated.any()
        assert infos["_openenv"].tolist() == [False, False, True, True]
        assert infos["openenv"]["error"].tolist() == [None, None, "worker_crashed", "worker_crashed"]
        assert infos["openenv"]["server"][3] == envs.base_url[0]
        observations, rewards, terminated, truncated, infos = envs.step(STEP)
        assert observations.tolist() == [4, 4, 0, 0]
        assert rewards.tolist() == [4.0, 4.0, 0.0, 0.0]
        assert not truncated.any()
        assert infos["total"].tolist() == [4, 4, 0, 0]
        assert "openenv" not in infos
        assert envs.step(STEP)[0].tolist() == [5, 5, 1, 1]


def test_the_end_of_a_lost_episode_and_the_next_beginning_are_one_step() -> None:
    options = {"on_error": "truncate", "autoreset_mode": "SameStep"}
    with making("Crash-v0", env_kwargs=crashing(0), **options) as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        observations, _, _, truncated, infos = envs.step(STEP)
        assert observations.tolist() == [0, 0, 3, 3]
        assert truncated.tolist() == [True, True, False, False]
        assert infos["final_obs"].tolist() == [2, 2, None, None]
        assert infos["_final_info"].tolist() == [True, True, False, False]
        assert infos["final_info"]["openenv"]["error"][0] == "worker_crashed"
        assert infos["total"].tolist() == [0, 0, 3, 3]
        assert envs.step(STEP)[0].tolist() == [1, 1, 4, 4]


def test_the_end_of_a_lost_episode_is_told_and_the_user_begins_another() -> None:
    options = {"on_error": "truncate", "autoreset_mode": "Disabled"}
    with making("Crash-v0", env_kwargs=crashing(0), **options) as envs:
        envs.reset(seed=0)
        envs.step(STEP)
        envs.step(STEP)
        truncated = envs.step(STEP)[3]
        assert truncated.tolist() == [True, True, False, False]
        with pytest.raises(ResetNeededError, match="in lanes 0, 1"):
            envs.step(STEP)
        assert envs.reset(options={"reset_mask": truncated})[0].tolist() == [0, 0, 3, 3]
        assert envs.step(STEP)[0].tolist() == [1, 1, 4, 4]


@pytest.mark.parametrize("on_error", ["raise", "truncate"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_part_of_a_lost_session_may_be_reset_first(mode: str, on_error: str) -> None:
    with making("Counter-v0", env_kwargs={"pid": True}, on_error=on_error, autoreset_mode=mode) as envs:
        envs.reset(seed=0)
        kill_worker(envs.step(STEP)[4], 2)
        wait_for_end(envs, 1)
        mask = np.array([False, False, True, False])
        if on_error == "raise":
            with pytest.raises(VectorEnvError, match="lane 3 of 4 failed.*\n.*SIGKILL") as caught:
                envs.reset(options={"reset_mask": mask})
            assert caught.value.partial[0].tolist() == [1, 1, 0, 1]
            assert envs.reset(options={"reset_mask": caught.value.mask})[0].tolist() == [1, 1, 0, 0]
            assert envs.step(STEP)[0].tolist() == [2, 2, 1, 1]
            return
        assert envs.reset(options={"reset_mask": mask})[0].tolist() == [1, 1, 0, 1]
        observations, _, _, truncated, _ = envs.step(STEP)
        assert truncated.tolist() == [False, False, False, True]
        assert observations.tolist() == [2, 2, 1, 1 if mode == "NextStep" else 0]
        assert envs.step(STEP)[0].tolist() == [3, 3, 2, 0 if mode == "NextStep" else 1]


def kill_worker(infos: dict[str, Any], lane: int) -> None:
    """Kill the process that runs ``lane``, as an info of a counter tells it."""
    os.kill(int(infos["pid"][lane]), signal.SIGKILL)


def wait_for_end(envs: RemoteVectorEnv, part: int) -> None:
    """Wait until the connection of a session has ended, as this side sees it."""
    connection = envs._stepper.fleet.parts[part].connection
    assert connection is not None
    deadline = time.monotonic() + 10
    while not connection.poll() and time.monotonic() < deadline:
        time.sleep(0.002)
    assert connection.poll()


def test_whoever_crashes_again_and_again_is_given_up() -> None:
    kwargs = crashing(0, at=1)
    with making("Crash-v0", env_kwargs=kwargs, on_error="truncate", max_restarts=2) as envs:
        envs.reset(seed=0)
        outcomes = []
        with pytest.raises(VectorEnvError, match=r"lost 3 times in a row, and max_restarts=2") as caught:
            for _ in range(20):
                outcomes.append(envs.step(STEP)[3][0])
        assert outcomes == [True, False, True, False, True]
        assert caught.value.lanes == (0, 1)
        assert isinstance(caught.value.__cause__, SessionLostError)
        assert caught.value.details["exit_code"] == -9
        envs.reset(options={"reset_mask": caught.value.mask})
        assert envs.step(STEP)[3].tolist() == [True, True, False, False]


def test_a_reset_that_hangs_is_tried_again_and_given_up() -> None:
    options: dict[str, Any] = {"step_timeout": 3.0, "max_restarts": 1, "on_error": "truncate"}
    kwargs = [{"reset": 0.0}, {"reset": 0.0}, {"reset": 30.0}, {"reset": 0.0}]
    with making("Sleep-v0", env_kwargs=kwargs, **options) as envs:
        with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
            envs.reset(seed=0)
        assert isinstance(caught.value.errors[2].__cause__, DeadlineExceededError)
        assert caught.value.partial[1]["_total"].tolist() == [True, True, False, False]


def test_a_missed_deadline_takes_the_lanes_of_its_worker() -> None:
    with making("Sleep-v0", env_kwargs={"unit": 1.0}, step_timeout=3.0) as envs:
        envs.reset(seed=0)
        with pytest.raises(VectorEnvError, match="lanes 0, 1 of 4 failed") as caught:
            envs.step(np.array([30, 0, 0, 0]))
        assert isinstance(caught.value.errors[0], DeadlineExceededError)
        envs.reset(options={"reset_mask": caught.value.mask})
        assert envs.step(STEP)[4]["total"].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("on_error", ["raise", "truncate"])
def test_a_dead_server_takes_its_lanes_and_is_started_again(on_error: str) -> None:
    options: dict[str, Any] = {"servers": 2, "provider_kwargs": {"workers": 1}, "on_error": on_error}
    with making("Counter-v0", env_kwargs={"pid": True}, **options) as envs:
        assert len(envs.base_url) == 2
        envs.reset(seed=0)
        infos = envs.step(STEP)[4]
        provider: Any = envs._stepper.fleet.parts[1].opener.provider
        os.kill(provider._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it follows its server by itself
            kill_worker(infos, 2)
        if on_error == "raise":
            with pytest.raises(VectorEnvError, match="lanes 2, 3 of 4 failed") as caught:
                envs.step(STEP)
            assert isinstance(caught.value.errors[2], ServerConnectionError | SessionLostError)
            envs.reset(options={"reset_mask": caught.value.mask})
        else:
            assert envs.step(STEP)[3].tolist() == [False, False, True, True]
            assert envs.step(STEP)[0].tolist() == [3, 3, 0, 0]
            return
        assert envs.step(STEP)[0].tolist() == [3, 3, 1, 1]


def test_a_lost_session_is_told_by_every_call() -> None:
    with making("Counter-v0", env_kwargs={"pid": True}) as envs:
        kill_worker(envs.reset(seed=0)[1], 0)
        for call in (lambda: envs.get_attr("count"), lambda: envs.set_attr("level", 1)):
            with pytest.raises(VectorEnvError, match="lanes 0, 1 of 4 failed"):
                call()
        with pytest.raises(VectorEnvError, match="lanes 0, 1"):
            envs.step(STEP)
        mask = np.array([True, True, False, False])
        assert envs.reset(options={"reset_mask": mask})[0].tolist() == [0, 0, 1, 1]


def test_many_kills_leave_nothing_behind(no_leaks: None) -> None:
    rng = np.random.default_rng(7)
    options = {"on_error": "truncate", "max_restarts": None, "env_kwargs": {"pid": True}}
    with making("Counter-v0", **options) as envs:
        infos = envs.reset(seed=0)[1]
        counts = np.zeros(4, np.int64)
        for _ in range(6):
            lane = int(rng.integers(4))
            kill_worker(infos, lane)
            other = slice(2, 4) if lane < 2 else slice(0, 2)
            mine = slice(0, 2) if lane < 2 else slice(2, 4)
            truncated = envs.step(STEP)[3]
            assert truncated[mine].all() and not truncated[other].any()
            observations, _, _, _, infos = envs.step(STEP)
            counts[other] += 2
            counts[mine] = 0
            assert observations.tolist() == counts.tolist()
        assert len(set(infos["pid"])) == 2
    provider: Any = envs._stepper.fleet.parts[0].opener.provider
    provider.stop()
