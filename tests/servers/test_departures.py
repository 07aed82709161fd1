"""Who leaves while he waits is noticed; who stays gets what he waits for."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest

from openenv_gym.servers.departures import unless_gone
from openenv_gym.servers.server import run_loop


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    server.setblocking(False)
    yield client, server
    client.close()
    server.close()


class _Work:
    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.cancelled = False

    async def run(self) -> None:
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize("reset", [False, True])
def test_who_leaves_waits_no_longer(pair: tuple[socket.socket, socket.socket], reset: bool) -> None:
    client, server = pair

    async def story() -> None:
        work = _Work()
        waiting = asyncio.ensure_future(unless_gone(server, work.run()))
        await asyncio.sleep(0.01)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionAbortedError, match="left while it waited"):
            await waiting
        assert work.cancelled

    run_loop(story())


@pytest.mark.parametrize("sent", [b"", b"what comes next"])
def test_who_stays_gets_it_and_loses_no_byte(pair: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    client, server = pair

    async def story() -> None:
        work = _Work()
        waiting = asyncio.ensure_future(unless_gone(server, work.run()))
        client.sendall(sent)
        await asyncio.sleep(0.01)
        work.release.set()
        await waiting
        assert not work.cancelled
        if sent:
            assert await asyncio.get_running_loop().sock_recv(server, 100) == sent

    run_loop(story())


def test_what_goes_wrong_meanwhile_is_raised(pair: tuple[socket.socket, socket.socket]) -> None:
    async def fail() -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        run_loop(unless_gone(pair[1], fail()))


def test_a_cancelled_wait_cancels_the_work(pair: tuple[socket.socket, socket.socket]) -> None:
    async def story() -> None:
        work = _Work()
        waiting = asyncio.ensure_future(unless_gone(pair[1], work.run()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.cancelled

    run_loop(story())
