"""Requests whose head does not end, or does not come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv_gym.servers import patience as module
from openenv_gym.servers.patience import LONGEST_HEAD

from .takeoverscene import Scene, serve, until
from .wire import LOOPS, read_all

_GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"


@LOOPS
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"POST /x HTTP/1.1\r\nHost: local", id="the first request"),
        pytest.param(_GET + b"GET /x HTT", id="a later one"),
    ],
)
def test_a_head_that_does_not_end_closes_the_connection(
    new_loop: Any, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def story(scene: Scene) -> None:
        client = await scene.client(first)
        assert (await read_all(client)).count(b"HTTP/1.1 200 ") == first.count(_GET)
        client.close()

    serve(new_loop, story)


@LOOPS
def test_a_head_that_is_too_long_is_refused(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(b"POST /x HTTP/1.1\r\nHost: localhost\r\nX: ")
        await asyncio.get_running_loop().sock_sendall(client, b"a" * LONGEST_HEAD)
        assert (await read_all(client)).startswith(b"HTTP/1.1 400 ")
        client.close()

    serve(new_loop, story)


@LOOPS
def test_a_request_that_came_may_take_its_time(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def story(scene: Scene) -> None:
        client = await scene.client(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na")
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().sock_sendall(client, b"b")
        assert (await until(client, b"POST /x ab")).startswith(b"HTTP/1.1 200 ")
        client.close()

    serve(new_loop, story)


@LOOPS
def test_a_websocket_may_be_silent(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)
    handshake = (
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    async def story(scene: Scene) -> None:
        client = await scene.client(handshake)
        assert (await until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().sock_sendall(client, b"\x81\x82\0\0\0\0hi")
        assert await until(client, b"hi") == b"\x81\x02hi"
        client.close()

    serve(new_loop, story)
