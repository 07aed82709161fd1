"""Handshakes and frames, byte by byte, and event loops of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.reader import FrameReader

__all__ = [
    "LOOPS",
    "PATIENCE",
    "SESSION",
    "TOKEN",
    "handshake",
    "heard",
    "hello",
    "message",
    "read_all",
    "run",
]

PATIENCE = 20.0
SESSION, TOKEN = "a" * 32, b"t" * 16
LOOPS = pytest.mark.parametrize(
    "new_loop",
    [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")],
)
Main = Callable[[], Coroutine[Any, Any, None]]


def run(main: Main, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
    """Run ``main`` on a new loop; what goes wrong in a callback or a task of the loop is an error here."""
    failures: list[dict[str, Any]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: failures.append(context))
        async with asyncio.timeout(PATIENCE):
            await main()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(watched())
    assert failures == []


def handshake(*lines: str, path: str = "/ws", offer: str | None = m.SUBPROTOCOL) -> bytes:
    """Return the request of a WebSocket handshake, with more header ``lines``."""
    head = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    head += [] if offer is None else [f"Sec-WebSocket-Protocol: {offer}"]
    return "\r\n".join([*head, *lines, "", ""]).encode()


def hello(session: str = SESSION, token: bytes = TOKEN, **fields: Any) -> m.Hello:
    """Return a first message."""
    return m.Hello(session=session, token=token, **fields)


def message(request: Any) -> bytes:
    """Return the frame of ``request`` as a client sends it."""
    return bytes(frames.masked_message(encode(request)))


async def read_all(sock: Any) -> bytes:
    """Return what comes from a non-blocking socket until its end."""
    data = bytearray()
    loop = asyncio.get_running_loop()
    try:
        while part := await loop.sock_recv(sock, 65536):
            data += part
    except ConnectionResetError:
        pass
    return bytes(data)


def heard(data: bytes) -> list[Any]:
    """Return what a client gets from the bytes: replies, and other frames as ``(opcode, payload)``."""
    reader = FrameReader(client=True, initial=data)
    found: list[Any] = []
    while (event := reader.next()) is not None:
        if isinstance(event, frames.Frame):
            found.append((event.opcode, bytes(event.payload)))
        else:
            found.append(decode_reply(event))
    return found
