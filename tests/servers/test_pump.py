"""The ASGI path carries messages both ways unchanged, and ends when either side does."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from openenv_gym.client.connect import connect
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.errors import CapacityError, OpenEnvError, ServerConnectionError
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.values import pack
from openenv_gym.servers import pump as module
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.pump import Pump
from openenv_gym.servers.records import Records
from openenv_gym.servers.run import ServerThread
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.transport.channel import Channel

from .wire import LOOPS, PATIENCE, hello, run

_PIECE = b"h" * 200


class _Pool:
    """Hands the worker's end of a connection to the test."""

    def __init__(self, refusal: OpenEnvError | None = None) -> None:
        self.records = Records()
        self.refusal = refusal
        self.admitted: asyncio.Queue[socket.socket] = asyncio.Queue()

    def advertisement(self) -> dict[str, str]:
        return {"OpenEnv-Workers": "2"}

    async def admit(self, hello: m.Hello, raw: bytes, arrival: Arrival) -> None:
        if self.refusal is not None:
            raise self.refusal
        sock = socket.socket(fileno=arrival.sock.detach())
        sock.setblocking(False)
        self.admitted.put_nowait(sock)


class _Scene:
    """One connection through the pump: the client's events and the worker's socket."""

    def __init__(
        self,
        *,
        refusal: OpenEnvError | None = None,
        subprotocols: tuple[str, ...] = (m.SUBPROTOCOL,),
        headers: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.pool = _Pool(refusal)
        self.pump = Pump(self.pool, ServerSettings(**settings))  # type: ignore[arg-type]
        self.scope = {
            "type": "websocket",
            "path": "/ws",
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            "subprotocols": list(subprotocols),
            "extensions": {"websocket.http.response": {}},
        }
        self.up: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.down: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.up.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(self.pump(self.scope, self.up.get, self._send))
        self.worker: socket.socket | None = None

    async def _send(self, event: Any) -> None:
        self.down.put_nowait(dict(event))

    async def open(self) -> None:
        assert (await self.down.get())["subprotocol"] == m.SUBPROTOCOL
        self.send(encode(hello()))
        self.worker = await self.pool.admitted.get()

    def send(self, payload: bytes) -> None:
        self.up.put_nowait({"type": "websocket.receive", "bytes": payload})

    async def arrived(self, size: int) -> bytes:
        """Return ``size`` bytes as the worker gets them."""
        assert self.worker is not None
        data = b""
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(self.worker, size - len(data))
        return data

    async def say(self, data: bytes) -> None:
        assert self.worker is not None
        await asyncio.get_running_loop().sock_sendall(self.worker, data)

    async def end(self) -> list[dict[str, Any]]:
        """Wait for the end; return what the client was sent."""
        await self.task
        if self.worker is not None:
            assert await asyncio.get_running_loop().sock_recv(self.worker, 1) == b""
            self.worker.close()
        return [self.down.get_nowait() for _ in range(self.down.qsize())]


def _story(tell: Callable[[], Awaitable[None]], new_loop: Any = asyncio.new_event_loop) -> None:
    async def main() -> None:
        await tell()

    run(main, new_loop)


@LOOPS
def test_messages_go_both_ways_as_they_are(new_loop: Any) -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        for payload in (b"", b"x", bytes(range(256)), _PIECE * 5000):
            scene.send(payload)
            masked = bytes(frames.header(0x82, len(payload), True)) + bytes(4) + payload
            assert await scene.arrived(len(masked)) == masked
            saying = asyncio.ensure_future(
                scene.say(bytes(frames.header(0x82, len(payload), False)) + payload)
            )
            assert await scene.down.get() == {"type": "websocket.send", "bytes": payload}
            await saying
        scene.up.put_nowait({"type": "websocket.disconnect", "code": 1006})
        assert [event["type"] for event in await scene.end()] in ([], ["websocket.close"])

    _story(tell, new_loop)


@LOOPS
def test_a_reply_may_come_in_any_pieces_and_pongs_are_not_passed_on(new_loop: Any) -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        for byte in b"".join((b"\x8a\x00", b"\x82\x02hi", b"\x89\x00", b"\x82\x03you")):
            await scene.say(bytes([byte]))
            await asyncio.sleep(0)
        assert [(await scene.down.get())["bytes"] for _ in range(2)] == [b"hi", b"you"]
        assert scene.worker is not None
        scene.worker.shutdown(socket.SHUT_WR)
        [close] = await scene.end()
        assert close["type"] == "websocket.close"

    _story(tell, new_loop)


def test_the_words_with_which_a_worker_closes_are_passed_on() -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        await scene.say(b"\x82\x03bye" + frames.frame(8, frames.close_payload(1001, "going"), masked=False))
        message, close = await scene.end()
        assert message["bytes"] == b"bye"
        assert (close["code"], close["reason"]) == (1001, "going")

    _story(tell)


def test_a_workers_last_words_arrive_although_the_client_speaks_to_it_still() -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        assert scene.worker is not None
        await scene.say(b"\x82\x03bye" + frames.frame(8, frames.close_payload(1001, "going"), masked=False))
        scene.worker.close()
        scene.worker = None
        scene.send(_PIECE)
        message, close = await scene.end()
        assert (message["bytes"], close["code"]) == (b"bye", 1001)

    _story(tell)


def test_a_client_that_vanishes_is_gone_for_the_worker_too() -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        scene.send(b"last")
        scene.up.put_nowait({"type": "websocket.disconnect", "code": 1006})
        assert await scene.arrived(10) == b"\x82\x84\0\0\0\0last"
        await scene.end()

    _story(tell)


def test_a_text_message_ends_the_connection_and_not_the_session() -> None:
    async def tell() -> None:
        scene = _Scene()
        await scene.open()
        scene.up.put_nowait({"type": "websocket.receive", "text": "{}"})
        [close] = await scene.end()
        assert (close["type"], close["code"]) == ("websocket.close", 1003)

    _story(tell)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "websocket.receive", "text": "{}"}, "protocol"),
        ({"type": "websocket.receive", "bytes": b"\xc1"}, "protocol"),
        ({"type": "websocket.receive", "bytes": encode(m.Reset(1))}, "protocol"),
        (
            {"type": "websocket.receive", "bytes": encode(m.Resume(session="b" * 32, token=b""))},
            "session_lost",
        ),
        ({"type": "websocket.receive", "bytes": encode(hello())}, "capacity"),
        (
            {"type": "websocket.receive", "bytes": encode(hello(client="x" * (1 << 20)))},
            "message_too_large",
        ),
        (None, "timeout"),
    ],
)
def test_a_connection_without_a_session_is_told_why(
    event: dict[str, Any] | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if event is None:
        monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def tell() -> None:
        scene = _Scene(refusal=CapacityError("full", active=1))
        if event is not None:
            scene.up.put_nowait(event)
        accept, message, close = await scene.end()
        assert accept["type"] == "websocket.accept"
        error = decode_reply(message["bytes"])
        assert isinstance(error, m.Error)
        assert (error.code, error.alive) == (code, False)
        assert (close["code"], close["reason"]) == (1013, "refused")

    _story(tell)


def test_a_client_that_leaves_before_it_said_anything_is_let_go() -> None:
    async def tell() -> None:
        scene = _Scene()
        scene.up.put_nowait({"type": "websocket.disconnect", "code": 1001})
        assert (await scene.end())[0]["type"] == "websocket.accept"
        assert scene.pool.admitted.empty()

    _story(tell)


@pytest.mark.parametrize(
    ("scene", "status", "code"),
    [
        ({"subprotocols": ()}, 400, "protocol"),
        ({"subprotocols": ("json",)}, 400, "protocol"),
        ({"token": "secret"}, 401, "authentication"),
        ({"token": "secret", "headers": {"authorization": "Bearer x"}}, 401, "authentication"),
        ({"headers": {"origin": "https://evil.example"}}, 403, "forbidden"),
        ({"mode": "production"}, 403, "forbidden"),
    ],
)
def test_a_handshake_is_refused_in_json(scene: dict[str, Any], status: int, code: str) -> None:
    async def tell() -> None:
        start, body = (await _Scene(**scene).end())[:2]
        assert (start["type"], start["status"]) == ("websocket.http.response.start", status)
        assert json.loads(body["body"])["code"] == code

    _story(tell)


@contextmanager
def _served(target: str, **settings: Any) -> Iterator[ServerThread]:
    settings = {"port": 0, "workers": 0, "handover": False, "drain_timeout": 2.0, **settings}
    with ServerThread(ServerSettings(**settings), target) as server:
        yield server


def _connect(server: ServerThread, *, compression: bool = False) -> Channel:
    return connect(parse_endpoint(server.base_url), None, compression=compression)


def _ask(channel: Channel, request: Any) -> Any:
    channel.send(encode(request))
    return decode_reply(channel.recv(time.monotonic() + PATIENCE))


@pytest.mark.parametrize("compression", ["none", "deflate"])
def test_a_session_over_the_path_end_to_end(compression: str) -> None:
    with _served("tests.support.testenvs:Attr-v0", compression=compression) as server:
        channel = _connect(server, compression=True)
        assert isinstance(_ask(channel, hello()), m.Welcome)
        assert isinstance(_ask(channel, m.Reset(1, [3])), m.Observation)
        for number, size in enumerate((1, 1000, 300_000), 2):
            left = np.random.default_rng(1).integers(0, 9, size, dtype=np.uint8)
            reply = _ask(channel, m.Call(number, "add", [pack(left, "left"), pack(left, "right")]))
            np.testing.assert_array_equal(reply.values[0], left + left)
        assert _ask(channel, m.Close(5)) == m.Closed(5)
        channel.abort()


def test_a_text_message_end_to_end_leaves_the_session_to_be_resumed() -> None:
    with _served("tests.support.testenvs:Counter-v0") as server:
        channel = _connect(server)
        assert isinstance(_ask(channel, hello()), m.Welcome)
        assert isinstance(_ask(channel, m.Reset(1)), m.Observation)
        sock, _ = channel.detach()
        sock.sendall(b"\x81\x82\0\0\0\0{}")
        with pytest.raises(ServerConnectionError) as caught:
            Channel(sock, client=True).recv()
        assert caught.value.details["close_code"] == 1003
        channel = _connect(server)
        assert _ask(channel, m.Resume(session=hello().session, token=hello().token)).last == 1
        channel.abort()


def test_a_session_whose_client_vanished_is_resumed() -> None:
    with _served("tests.support.testenvs:Counter-v0") as server:
        for last in (0, 1, 2):
            channel = _connect(server)
            if last == 0:
                assert isinstance(_ask(channel, hello()), m.Welcome)
            else:
                resumed = _ask(channel, m.Resume(session=hello().session, token=hello().token))
                assert resumed == m.Resumed(hello().session, last)
            assert isinstance(_ask(channel, m.Reset(last + 1)), m.Observation)
            channel.abort()
