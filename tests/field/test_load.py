"""Many sessions at once, big ones beside small ones: nobody is cut off, no clock runs while one waits."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import CapacityError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.frames import masked_message
from tests.faults.raw import RawConnection, hello, upgrade
from tests.support.serverproc import eventually, serving
from tests.support.testenvs import BigEnv

_SLEEP, _BIG = "tests.support.testenvs:SleepEnv", "tests.support.testenvs:BigEnv"
_SIZE = 20 << 20
_HOMES = pytest.mark.parametrize(
    ("workers", "handover"), [("1", "on"), ("1", "off"), ("0", "on")], ids=["worker", "pumped", "thread"]
)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process hold the sockets of all clients."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 1 << 14), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_f006_steps_of_many_sessions_at_one_instant_keep_their_limit(workers: str, tmp_path: Path) -> None:
    sessions = 200
    barrier = threading.Barrier(sessions, timeout=60)
    with serving(_SLEEP, "--workers", workers, log=tmp_path / "log") as server:

        def live(number: int) -> tuple[int, float]:
            env = RemoteEnv(base_url=server.url, step=0.5, step_timeout=8.0)
            env.reset()
            barrier.wait()
            observation, reward, *_ = env.step(number)
            env.close()
            return int(observation), reward

        with ThreadPoolExecutor(sessions) as pool:
            assert list(pool.map(live, range(sessions))) == [(number, 1.0) for number in range(sessions)]


def test_f006_waiting_for_a_slot_is_not_building(tmp_path: Path) -> None:
    options = ("--workers", "1", "--max-sessions", "1", "--construction-deadline", "5")
    with serving(_SLEEP, *options, log=tmp_path / "log") as server, ThreadPoolExecutor(1) as pool:
        holder = RemoteEnv(base_url=server.url)
        newcomer = pool.submit(
            RemoteEnv, base_url=server.url, init=0.2, slot_timeout=60.0, connect_timeout=5.0
        )
        time.sleep(6.0)
        assert not newcomer.done()
        holder.close()
        env = newcomer.result()
        assert env.reset()[0] == 0
        with pytest.raises(CapacityError, match="slot_timeout=SECONDS"):
            RemoteEnv(base_url=server.url, slot_timeout=0.1)
        env.close()


@pytest.mark.parametrize(
    ("sessions", "room", "workers", "handover"),
    [
        (200, 128, "2", "on"),
        (200, 200, "2", "off"),
        pytest.param(1024, 1024, "8", "on", marks=pytest.mark.full),
        pytest.param(1024, 512, "8", "off", marks=pytest.mark.full),
    ],
)
def test_f019_each_of_many_connects_is_served_or_told_that_it_is_full(
    sessions: int, room: int, workers: str, handover: str, many_files: None, tmp_path: Path
) -> None:
    begin, decided = (threading.Barrier(sessions, timeout=100) for _ in range(2))
    options = ("--workers", workers, "--handover", handover, "--max-sessions", str(room))
    with serving("echo", *options, log=tmp_path / "log") as server:

        def live(number: int) -> str:
            begin.wait()
            try:
                env = RemoteEnv(base_url=server.url, connect_timeout=60.0)
            except CapacityError:
                decided.wait()
                return "full"
            decided.wait()
            env.reset()
            for step in range(10):
                text = f"{number}, {step}"
                assert env.step(text)[0] == text
            env.close()
            return "served"

        with ThreadPoolExecutor(sessions) as pool:
            outcomes = Counter(pool.map(live, range(sessions)))
        assert outcomes == Counter({"served": room, "full": sessions - room})

        def idle() -> bool:
            capacity = server.capacity()
            return (capacity["active"], capacity["waiting"]) == (0, 0)

        assert eventually(idle)
        assert server.log() == ""


@_HOMES
def test_f025_a_big_observation_on_its_way_holds_nobody_up(
    workers: str, handover: str, tmp_path: Path
) -> None:
    options = ("--workers", workers, "--handover", handover)
    with serving(_BIG, *options, log=tmp_path / "log") as server:
        with RawConnection(server.url, receive_buffer=4096) as slow:
            slow.send(upgrade())
            slow.upgraded()
            slow.send(hello(env_kwargs={"size": _SIZE}))
            assert isinstance(slow.receive(), m.Welcome)
            slow.send(masked_message(encode(m.Reset(1))))
            assert slow.sock.recv(1, socket.MSG_PEEK)  # the rest has no room before somebody reads
            quick = RemoteEnv(base_url=server.url, size=16)
            quick.reset(seed=1)
            for _ in range(500):
                quick.step(np.zeros(1, np.uint8))
            assert server.get("/health")
            quick.close()
            reply = slow.receive()
            assert isinstance(reply, m.Observation)
            assert len(reply.observations) >= _SIZE
            slow.send(masked_message(encode(m.Close(2))))
            slow.receive()


@pytest.mark.parametrize("handover", ["on", "off"])
def test_f025_big_observations_leave_time_for_others(handover: str, tmp_path: Path) -> None:
    options = ("--workers", "1", "--handover", handover)
    action = np.zeros(1, np.uint8)
    with serving(_BIG, *options, log=tmp_path / "log") as server, ThreadPoolExecutor(1) as pool:
        big, local = RemoteEnv(base_url=server.url, size=_SIZE), BigEnv(_SIZE)
        quick, twin = RemoteEnv(base_url=server.url, size=16), BigEnv(16)
        for pair in ((big, local), (quick, twin)):
            assert np.array_equal(*(env.reset(seed=3)[0] for env in pair))

        def stream() -> Any:
            for _ in range(3):
                observation = big.step(action)[0]
            return observation

        for _ in range(10):  # this thread itself may have to wait for a core for so long
            streaming, steps = pool.submit(stream), 0
            while not streaming.done():
                assert np.array_equal(quick.step(action)[0], twin.step(action)[0])
                steps += 1
            expected = [local.step(action)[0] for _ in range(3)][-1]
            assert np.array_equal(streaming.result(), expected)
            if steps > 10:
                break
        assert steps > 10
        big.close()
        quick.close()
