"""Real sessions of a pool, in threads and in processes: their slots, ends and explanations."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Discrete

from openenv_gym.client.connect import connect
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.errors import (
    ServerConnectionError,
    SessionLostError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers.board import Operation
from openenv_gym.servers.pool import Arrival, Pool
from openenv_gym.servers.run import ServerThread
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.transport.channel import Channel

from .ends import ask, told
from .laneenvs import GATES
from .wire import LOOPS, hello, run

_COUNTER = "tests.support.testenvs:Counter-v0"
A, B = "a" * 32, "b" * 32


class _Threads:
    """A pool whose sessions run in threads of the test."""

    def __init__(self, target: str = _COUNTER, **settings: Any) -> None:
        settings = {"workers": 0, "max_sessions": 1, **settings}
        self.pool = Pool(ServerSettings(**settings), resolve(target))
        self.numbers = iter(range(1, 1000))

    async def client(self, **fields: Any) -> tuple[m.Hello, Channel, Any]:
        """Have a session admitted; return its hello, the client's end, and what it is told first."""
        asked = hello(f"{next(self.numbers):032x}", slot_timeout=20.0, **fields)
        ours, theirs = socket.socketpair()
        await self.pool.admit(asked, encode(asked), Arrival(theirs))
        channel = Channel(ours, client=True)
        return asked, channel, await asyncio.to_thread(told, channel)

    async def empty(self) -> None:
        """Wait until no slot is taken."""
        while self.pool.capacity()["active"]:
            await asyncio.sleep(0.001)


def _real(tell: Callable[[_Threads], Awaitable[None]], new_loop: Any, *args: Any, **settings: Any) -> None:
    async def main() -> None:
        scene = _Threads(*args, **settings)
        scene.pool.start()
        await scene.pool.open()
        await tell(scene)
        await scene.pool.drain(20.0)

    run(main, new_loop)


@LOOPS
def test_a_slot_is_free_again_however_a_session_ends(new_loop: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "notes")

    async def tell(scene: _Threads) -> None:
        for how in ("close", "vanish", "evict", "fail"):
            fields = {"where": "init", "at": 1} if how == "fail" else {}
            asked, channel, first = await scene.client(env_kwargs={"path": path, **fields})
            if how == "fail":
                assert first.code == "construction"
            elif how == "close":
                assert await asyncio.to_thread(ask, channel, m.Close(1)) == m.Closed(1)
                await scene.empty()
            elif how == "vanish":
                channel.abort()
            else:
                scene.pool.end(scene.pool.records.living[asked.session], SessionLostError("idle"))
                assert (await asyncio.to_thread(told, channel)).message == "idle"
            if how == "vanish":
                _, channel, first = await scene.client()
                assert isinstance(first, m.Welcome)
                await asyncio.to_thread(ask, channel, m.Close(1))
            channel.abort()
            await scene.empty()
        assert scene.pool.records.living == {}

    _real(tell, new_loop, "tests.support.testenvs:Crash-v0")
    assert Path(path).read_text() == "icicici"


@LOOPS
def test_draining_closes_environments_and_tells_clients(new_loop: Any, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    clients: list[Channel] = []

    async def tell(scene: _Threads) -> None:
        for _ in range(3):
            clients.append((await scene.client(env_kwargs={"path": str(path)}))[1])

    _real(tell, new_loop, max_sessions=3)
    assert [told(client).code for client in clients] == ["server_draining"] * 3
    assert path.read_text() == "iiiccc"
    for client in clients:
        client.abort()


def test_a_description_builds_and_closes_one_environment(tmp_path: Path) -> None:
    path = tmp_path / "notes"

    async def tell(scene: _Threads) -> None:
        both = await asyncio.gather(scene.pool.describe(), scene.pool.describe())
        assert both[0] == both[1] and both[0]["target"] == "Counter-v0"
        assert scene.pool.capacity()["active"] == 0

    _real(tell, asyncio.new_event_loop, env_kwargs={"path": str(path)})
    assert path.read_text() == "ic"


def test_a_call_that_overran_in_a_thread_costs_its_session_alone() -> None:
    gate = GATES["overrun"] = threading.Event()
    action = column_codec(Discrete(9), actions=True).encode_one(1, "action", str)

    async def tell(scene: _Threads) -> None:
        for _ in range(3):
            _, channel, first = await scene.client(env_kwargs={"gate": "overrun"})
            assert isinstance(first, m.Welcome)
            await asyncio.to_thread(ask, channel, m.Reset(1))
            error = await asyncio.to_thread(ask, channel, m.Step(2, action))
            assert error.code == "deadline_exceeded"
            channel.abort()
        gate.set()

    _real(tell, asyncio.new_event_loop, "tests.servers.laneenvs:GatedEnv", step_deadline=0.05, max_sessions=4)
    del GATES["overrun"]


def _resumed(endpoint: Any, asked: m.Hello) -> Any:
    """Return the answer to a resume; until the parent knows of the crash, there may be none."""
    while True:
        channel = connect(endpoint, None)
        try:
            return ask(channel, m.Resume(session=asked.session, token=asked.token))
        except ServerConnectionError:
            continue
        finally:
            channel.abort()


@pytest.mark.usefixtures("no_leaks")
def test_a_worker_process_that_dies_is_explained_to_its_client_and_replaced() -> None:
    settings = ServerSettings(port=0, workers=1, drain_timeout=2.0, max_sessions=1)
    with ServerThread(settings, "tests.support.testenvs:Crash-v0") as server:
        endpoint = parse_endpoint(server.base_url)
        for session, how, expected in ((A, "exit", 7), (B, "kill", -signal.SIGKILL)):
            channel = connect(endpoint, None)
            asked = hello(session, env_kwargs={"how": how, "where": "reset", "at": 1})
            assert isinstance(ask(channel, asked), m.Welcome)
            with pytest.raises(ServerConnectionError):
                ask(channel, m.Reset(1))
            error = _resumed(endpoint, asked)
            assert (error.code, error.details["exit_code"]) == ("worker_crashed", expected)


def test_the_cells_of_sessions_that_are_over_are_vacant() -> None:
    async def tell(scene: _Threads) -> None:
        asked, channel, _ = await scene.client()
        record = scene.pool.records.living[asked.session]
        board, place = record.worker.board, record.place
        assert board.cells[place] & 15 == Operation.IDLE
        await asyncio.to_thread(ask, channel, m.Close(1))
        channel.abort()
        await scene.empty()
        assert board.cells[place] == Operation.VACANT

    _real(tell, asyncio.new_event_loop)
