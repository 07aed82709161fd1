"""Field bugs about calls: late replies, threads, loops, deadlines, sessions side by side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import CapacityError, DeadlineExceededError, InterruptedStepError, SessionLostError
from openenv_gym.testing import check_remote
from tests.conformance.serving import Cell, serve
from tests.support.faultenvs import CounterEnv
from tests.support.serverproc import eventually

from .conftest import ANY_ENV

Remote = Callable[..., RemoteEnv]
THREAD, PROCESS = Cell("thread", "handover", "unix"), Cell("process", "handover", "unix")
#: Sessions that share a worker, in threads or in a process, and one that is alone in its process.
HOMES = [
    pytest.param(THREAD, {}, id="thread"),
    pytest.param(PROCESS, {}, id="process"),
    pytest.param(PROCESS, {"sessions_per_worker": 1}, id="alone"),
]


class MeetingEnv(CounterEnv):
    """Goes on, in each call, only when ``size`` of them are in that call at once."""

    _barriers: dict[int, threading.Barrier] = {}  # noqa: RUF012 - of the worker
    _lock = threading.Lock()

    def __init__(self, size: int) -> None:
        super().__init__()
        with self._lock:
            self._barrier = self._barriers.setdefault(size, threading.Barrier(size, timeout=30))
        self._barrier.wait()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._barrier.wait()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        self._barrier.wait()
        return super().step(action)

    def close(self) -> None:
        self._barrier.wait()


# -- F009: late replies


@pytest.mark.parametrize(("cell", "settings"), HOMES)
def test_f009_the_reply_of_a_step_that_came_too_late_answers_nothing(
    cell: Cell, settings: dict[str, Any], tmp_path: Path
) -> None:
    with serve(ANY_ENV, cell, tmp_path, **settings) as url:
        env = RemoteEnv(base_url=url, env_kwargs={"name": "SleepEnv", "unit": 0.4}, step_timeout=5.0)
        env.reset()
        with pytest.raises(DeadlineExceededError):
            env.step(20)
        assert env.reset()[0] == 0
        assert [int(env.step(action)[0]) for action in (0, 1, 0)] == [0, 1, 0]
        env.close()


def test_f009_the_reply_of_an_interrupted_step_answers_nothing(remote: Remote) -> None:
    class AlarmError(Exception):
        pass

    def ring(number: int, frame: Any) -> None:
        raise AlarmError

    env = remote("SleepEnv", unit=0.1)
    env.reset()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(AlarmError):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            env.step(5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(InterruptedStepError, match=r"the last step was interrupted.*call reset\(\)"):
        env.step(0)
    assert env.reset()[0] == 0
    observation, reward, *_ = env.step(1)
    assert (int(observation), reward) == (1, 1.0)


# -- deadlines


@pytest.mark.parametrize("name", ["SleepEnv", "BusyEnv", "GilEnv"])
def test_f005_f027_f079_a_call_that_does_not_end_is_ended(name: str, tmp_path: Path) -> None:
    kwargs = {"step": 600.0} if name == "SleepEnv" else {"seconds": 600.0}
    with serve(ANY_ENV, PROCESS, tmp_path, sessions_per_worker=1) as url:
        env = RemoteEnv(base_url=url, env_kwargs={"name": name, **kwargs}, step_timeout=4.5)
        env.reset()
        with pytest.raises(DeadlineExceededError, match="4.5 s") as caught:
            env.step(0)
        assert isinstance(caught.value, SessionLostError)
        assert env.reset()[0] == 0
        env.close()


def test_f005_what_a_call_started_is_ended_with_it(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with serve(ANY_ENV, PROCESS, tmp_path, sessions_per_worker=1, step_deadline=4.0) as url:
        kwargs = {"name": "ChildEnv", "seconds": 600.0, "path": str(path)}
        env = RemoteEnv(base_url=url, env_kwargs=kwargs)
        env.reset()
        with pytest.raises(DeadlineExceededError):
            env.step(0)
        child = int((tmp_path / "notes.pid").read_text())
        assert eventually(lambda: not alive(child))
        env.close()


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


# -- sessions side by side


@pytest.mark.parametrize(("cell", "settings"), HOMES[:2])
def test_f021_f022_no_call_waits_for_another_session(
    cell: Cell, settings: dict[str, Any], tmp_path: Path
) -> None:
    size = 24

    def live(number: int) -> int:
        env = RemoteEnv(base_url=url, env_kwargs={"name": f"{__name__}:MeetingEnv", "size": size})
        env.reset()
        count = int(env.step(0)[0])
        env.close()
        return count

    with serve(ANY_ENV, cell, tmp_path, **settings) as url, ThreadPoolExecutor(size) as pool:
        assert list(pool.map(live, range(size))) == [1] * size


@pytest.mark.parametrize(("cell", "settings"), HOMES)
def test_f023_all_calls_of_a_session_come_on_one_thread_without_a_loop(
    cell: Cell, settings: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "closes"

    def live(number: int) -> int:
        kwargs = {"name": "ThreadEnv", "run_loop": number % 2 == 0, "path": str(path)}
        env = RemoteEnv(base_url=url, env_kwargs=kwargs, render_mode="ansi")
        env.reset(seed=number)
        for _ in range(50):
            env.step(0)
        assert env.render() == "step 50"
        thread = int(env.thread())
        env.close()
        return thread

    with serve(ANY_ENV, cell, tmp_path, **settings) as url, ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(8)))
    text = path.read_text()
    assert (text.count("same"), text.count("other")) == (8, 0)


def test_f014_f108_sessions_of_one_server_count_for_themselves(tmp_path: Path) -> None:
    with serve(ANY_ENV, PROCESS, tmp_path) as url:
        envs = [RemoteEnv(base_url=url, env_kwargs={"name": "CounterEnv"}) for _ in range(64)]
        counts: dict[int, list[int]] = {number: [] for number in range(64)}
        for env in envs:
            env.reset()
        order = list(counts) * 20
        random.Random(1).shuffle(order)
        for number in order:
            counts[number].append(int(envs[number].step(0)[0]))
        assert all(seen == list(range(1, 21)) for seen in counts.values())
        for env in envs:
            env.close()


def test_f015_bundled_environments_take_many_sessions() -> None:
    envs = [gym.make("openenv/Echo-v0") for _ in range(8)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        assert env.step(f"I am {number}")[0] == f"I am {number}"
    for env in envs:
        env.close()


def test_f017_a_full_server_says_so_and_a_newcomer_may_wait(tmp_path: Path) -> None:
    with serve(ANY_ENV, THREAD, tmp_path, max_sessions=2) as url:
        kwargs: dict[str, Any] = {"base_url": url, "env_kwargs": {"name": "CounterEnv"}}
        first, second = RemoteEnv(**kwargs), RemoteEnv(**kwargs)
        with pytest.raises(CapacityError, match="2/2 sessions active; raise --max-sessions"):
            RemoteEnv(**kwargs)
        with ThreadPoolExecutor(1) as pool:
            third = pool.submit(lambda: RemoteEnv(**kwargs, slot_timeout=30))
            first.close()
            third.result().close()
        second.close()


# -- F028, F032: threads, forks and loops of the client


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_f028_an_env_may_be_stepped_from_threads_and_after_a_fork(remote: Remote) -> None:
    env = remote("CounterEnv")
    env.reset()
    for _ in range(1000):
        env.step(0)
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: int(env.step(0)[0]), range(200)))
    assert sorted(seen) == list(range(1001, 1201))

    child = os.fork()
    if child == 0:
        code = 1
        try:
            # The session is the parent's; a child's reset opens one of its own.
            with contextlib.suppress(SessionLostError):
                env.step(0)
            env.reset()
            code = 0 if int(env.step(0)[0]) == 1 else 2
            env.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert int(env.step(0)[0]) == 1201


@pytest.mark.parametrize("provider", ["process", "inprocess"])
def test_f032_a_running_loop_does_not_matter(provider: str) -> None:
    async def cell() -> None:
        env = gym.make("remote/CartPole-v1", provider=provider)
        check_remote(env, gym.make("CartPole-v1"), steps=10)
        env.close()
        vector = gym.make_vec("remote/CartPole-v1", num_envs=2, vectorization_mode="sync", provider=provider)
        vector.reset(seed=1)
        assert vector.step(np.array([0, 1]))[0].shape == (2, 4)
        vector.close()

    asyncio.run(cell())
