"""Handshakes of ours leave uvicorn with every byte; all else reaches uvicorn with every byte."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.client import ClientProtocol
from websockets.exceptions import NegotiationError
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openenv_gym.protocol import messages as m
from openenv_gym.servers import takeover as module
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.takeover import TakeoverProtocol

from .wire import LOOPS, handshake, read_all, run

_BEYOND = bytes(range(256))


class _Arrivals:
    """Takes what is handed over; one at a time."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ServerSettings(**settings)
        self.taken: asyncio.Queue[tuple[Arrival, bytes]] = asyncio.Queue()

    def welcome(self, arrival: Arrival, answer: bytes) -> None:
        self.taken.put_nowait((arrival, answer))


class _App:
    """uvicorn's application: answers HTTP with what it was asked, and echoes on WebSockets."""

    def __init__(self, arrivals: _Arrivals | None) -> None:
        self.state = SimpleNamespace(**({} if arrivals is None else {"arrivals": arrivals}))
        self.offers: list[list[str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._echo(scope, receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        text = f"{scope['method']} {scope['path']} ".encode() + body
        headers = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        self.offers.append(scope["subprotocols"])
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"]})


class _Watched(TakeoverProtocol):
    """Lets the test know how many pieces have come."""

    pieces: asyncio.Queue[bytes]

    def data_received(self, data: bytes) -> None:
        self.pieces.put_nowait(data)
        super().data_received(data)


class _Scene:
    """A server whose connections are looked at by the protocol."""

    def __init__(self, arrivals: _Arrivals | None, context: ssl.SSLContext | None = None) -> None:
        self.arrivals = arrivals
        self.app = _App(arrivals)
        self.config = uvicorn.Config(
            self.app, ws="websockets-sansio", lifespan="off", log_config=None, access_log=False
        )
        self.config.load()
        self.state = ServerState()
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.context = context
        self.port = 0

    def _protocol(self) -> TakeoverProtocol:
        protocol = _Watched(self.config, self.state, {}, asyncio.get_running_loop())
        protocol.pieces = self.pieces
        return protocol

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._protocol, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for connection in list(self.state.connections):
                connection.transport.abort()  # type: ignore[union-attr]
            while self.state.connections:
                await asyncio.sleep(0)

    async def client(self, first: bytes) -> socket.socket:
        """Connect, send ``first``, and wait until it was looked at."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", self.port))
        if first:
            await loop.sock_sendall(sock, first)
            seen = b""
            while len(seen) < len(first):
                seen += await self.pieces.get()
        return sock

    async def taken(self) -> tuple[Arrival, bytes]:
        assert self.arrivals is not None
        return await self.arrivals.taken.get()


def _serve(
    new_loop: Any,
    story: Callable[[_Scene], Awaitable[None]],
    context: ssl.SSLContext | None = None,
    **settings: Any,
) -> None:
    """Run ``story`` beside a server; its connections are all closed afterwards."""

    async def main() -> None:
        scene = _Scene(_Arrivals(**settings), context)
        async with scene.served():
            await story(scene)
        assert scene.state.connections == set()

    run(main, new_loop)


def _client_protocol(**options: Any) -> ClientProtocol:
    return ClientProtocol(
        parse_uri("ws://localhost/ws"), subprotocols=[Subprotocol(m.SUBPROTOCOL)], **options
    )


async def _rest(sock: socket.socket, data: bytes) -> bytes:
    """Send ``data`` and no more; return what comes back until the end."""
    await asyncio.get_running_loop().sock_sendall(sock, data)
    sock.shutdown(socket.SHUT_WR)
    answer = await read_all(sock)
    sock.close()
    return answer


async def _until(sock: socket.socket, ending: bytes) -> bytes:
    """Return what comes up to ``ending``."""
    data = b""
    while not data.endswith(ending):
        part = await asyncio.get_running_loop().sock_recv(sock, 4096)
        assert part, data
        data += part
    return data


@LOOPS
def test_a_handshake_may_come_in_any_two_pieces_and_nothing_beyond_it_is_lost(new_loop: Any) -> None:
    stream = handshake() + _BEYOND[:40]

    async def story(scene: _Scene) -> None:
        for cut in range(len(stream) + 1):
            client = await scene.client(stream[:cut])
            await asyncio.get_running_loop().sock_sendall(client, stream[cut:])
            client.shutdown(socket.SHUT_WR)
            arrival, answer = await scene.taken()
            assert answer.startswith(b"HTTP/1.1 101 ") and answer.endswith(b"\r\n\r\n")
            assert arrival.unread + await read_all(arrival.sock) == _BEYOND[:40]
            arrival.sock.close()
            client.close()

    _serve(new_loop, story)


@LOOPS
def test_what_follows_the_handshake_at_once_and_later_arrives_in_order(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        for size in (0, 1, 256, 70_000):
            early = (_BEYOND * (size // 256 + 1))[:size]
            client = await scene.client(b"")
            sending = asyncio.ensure_future(_rest(client, handshake() + early + _BEYOND))
            arrival, _ = await scene.taken()
            assert arrival.unread + await read_all(arrival.sock) == early + _BEYOND
            arrival.sock.close()
            assert await sending == b""

    _serve(new_loop, story)


@LOOPS
def test_the_answer_is_one_that_a_client_takes(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        protocol = _client_protocol()
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()))
        arrival, answer = await scene.taken()
        protocol.receive_data(answer)
        assert protocol.handshake_exc is None
        assert (protocol.subprotocol, protocol.extensions) == (m.SUBPROTOCOL, [])
        assert not arrival.deflate
        arrival.sock.close()
        client.close()

    _serve(new_loop, story)


@LOOPS
def test_the_connection_has_one_owner(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(handshake())
        arrival, _ = await scene.taken()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not arrival.sock.getblocking()
        arrival.sock.send(b"from the owner")
        arrival.sock.close()
        assert await read_all(client) == b"from the owner"
        client.close()

    _serve(new_loop, story)


@pytest.mark.parametrize("agreed", [True, False])
def test_compression_is_agreed_on_without_context_if_the_server_wants_it(agreed: bool) -> None:
    async def story(scene: _Scene) -> None:
        protocol = _client_protocol(extensions=[ClientPerMessageDeflateFactory()])
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()))
        arrival, answer = await scene.taken()
        assert arrival.deflate is agreed
        protocol.receive_data(answer)
        assert protocol.handshake_exc is None
        assert len(protocol.extensions) == agreed
        assert answer.count(b"_no_context_takeover") == 2 * agreed
        arrival.sock.close()
        client.close()

    _serve(asyncio.new_event_loop, story, compression="deflate" if agreed else "none")


_GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_POST = b"POST /y HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"


@LOOPS
@pytest.mark.parametrize(("request_", "expected"), [(_GET, b"GET /x "), (_POST, b"POST /y body")])
def test_other_requests_may_come_in_any_two_pieces(new_loop: Any, request_: bytes, expected: bytes) -> None:
    async def story(scene: _Scene) -> None:
        for cut in range(len(request_) + 1):
            client = await scene.client(request_[:cut])
            await asyncio.get_running_loop().sock_sendall(client, request_[cut:])
            head, _, body = (await read_all(client)).partition(b"\r\n\r\n")
            assert (head[:12], body) == (b"HTTP/1.1 200", expected)
            client.close()

    _serve(new_loop, story)


@LOOPS
def test_a_connection_that_was_passed_on_stays_open_for_more(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await _until(client, b"GET /a ")).startswith(b"HTTP/1.1 200 ")
        await asyncio.get_running_loop().sock_sendall(
            client, b"GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n" + _GET
        )
        assert (await read_all(client)).count(b"HTTP/1.1 200 ") == 2
        client.close()

    _serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    "head",
    [
        pytest.param(handshake(offer=None), id="no subprotocol"),
        pytest.param(handshake(offer="json"), id="another subprotocol"),
        pytest.param(handshake(offer=f"{m.SUBPROTOCOL}0"), id="a longer name"),
        pytest.param(handshake(offer=None, path=f"/ws?x={m.SUBPROTOCOL}"), id="in the path"),
        pytest.param(handshake(f"Cookie: {m.SUBPROTOCOL}", offer="json"), id="in a cookie"),
    ],
)
def test_websockets_that_do_not_offer_our_subprotocol_are_uvicorns(new_loop: Any, head: bytes) -> None:
    async def story(scene: _Scene) -> None:
        for cut in (len(head) // 2, len(head)):
            client = await scene.client(head[:cut])
            await asyncio.get_running_loop().sock_sendall(client, head[cut:])
            assert (await _until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            await asyncio.get_running_loop().sock_sendall(client, b"\x81\x82\0\0\0\0hi")
            assert await _until(client, b"hi") == b"\x81\x02hi"
            client.close()
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    _serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize("offers", [f"json, {m.SUBPROTOCOL}", f"{m.SUBPROTOCOL} ,x"])
def test_ours_may_be_one_of_several_offers(new_loop: Any, offers: str) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(handshake(offer=offers))
        arrival, answer = await scene.taken()
        assert f"Sec-WebSocket-Protocol: {m.SUBPROTOCOL}\r\n".encode() in answer
        arrival.sock.close()
        client.close()

    _serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", id="TLS"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="SSH"),
        pytest.param(b"GET \x00\xff\r\n\r\n", id="bad request line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000, id="endless head"),
        pytest.param(handshake("a broken line").replace(b"a broken line", b"\x00"), id="broken handshake"),
    ],
)
def test_what_is_no_request_is_for_uvicorn_to_answer(new_loop: Any, data: bytes) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(b"")
        answer = await _rest(client, data)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    _serve(new_loop, story)


@LOOPS
def test_a_long_head_is_passed_on_whole(new_loop: Any) -> None:
    data = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"

    async def story(scene: _Scene) -> None:
        client = await scene.client(b"")
        await asyncio.get_running_loop().sock_sendall(client, data)
        assert (await read_all(client)).endswith(b"\r\n\r\nGET /x ")
        client.close()

    _serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    ("old", "new"),
    [(b"Version: 13", b"Version: 12"), (b"dGhlIHNhbXBsZSBub25jZQ==", b"short")],
)
def test_a_handshake_with_a_fault_is_answered_and_closed(new_loop: Any, old: bytes, new: bytes) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(handshake().replace(old, new))
        assert (await read_all(client)).startswith(b"HTTP/1.1 400 ")
        client.close()

    _serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("X: none", 401, "authentication"),
        ("Authorization: Bearer wrong", 401, "authentication"),
        ("Authorization: Basic c2VjcmV0", 401, "authentication"),
        ("Authorization: Bearer secret\r\nOrigin: https://evil.example", 403, "forbidden"),
    ],
)
def test_who_may_not_come_in_is_told_why_in_json(new_loop: Any, line: str, status: int, code: str) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(handshake(line) + _BEYOND)
        head, _, body = (await read_all(client)).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(body)["code"] == code
        assert scene.arrivals is not None and scene.arrivals.taken.empty()
        client.close()

    _serve(new_loop, story, token="secret")


@LOOPS
def test_token_and_origin_let_in(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        client = await scene.client(handshake("Authorization: Bearer secret", "Origin: https://good.example"))
        arrival, answer = await scene.taken()
        assert answer.startswith(b"HTTP/1.1 101 ")
        arrival.sock.close()
        client.close()

    _serve(new_loop, story, token="secret", allowed_origins=("https://good.example",))


def _context(side: int) -> ssl.SSLContext:
    """Return a context that needs no certificate."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH:@SECLEVEL=0")
    return context


@LOOPS
def test_where_tls_ends_here_all_is_passed_on(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", scene.port, ssl=_context(ssl.PROTOCOL_TLS_CLIENT)
        )
        writer.write(handshake())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"\x81\x82\0\0\0\0hi")
        assert await reader.readexactly(4) == b"\x81\x02hi"
        assert scene.app.offers == [[m.SUBPROTOCOL]]
        writer.close()

    _serve(new_loop, story, _context(ssl.PROTOCOL_TLS_SERVER))


@LOOPS
def test_without_arrivals_all_is_uvicorns(new_loop: Any) -> None:
    async def main() -> None:
        scene = _Scene(None)
        async with scene.served():
            client = await scene.client(b"")
            await asyncio.get_running_loop().sock_sendall(client, handshake())
            assert (await _until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            client.close()
            assert scene.app.offers == [[m.SUBPROTOCOL]]

    run(main, new_loop)


@LOOPS
@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\n"], ids=["none", "a byte", "a line"])
def test_who_does_not_say_what_it_wants_is_cut_off(
    new_loop: Any, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def story(scene: _Scene) -> None:
        client = await scene.client(said)
        assert await read_all(client) == b""
        client.close()

    _serve(new_loop, story)


@LOOPS
def test_patience_ends_with_the_first_request(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def story(scene: _Scene) -> None:
        other = await scene.client(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ours = await scene.client(handshake())
        arrival, _ = await scene.taken()
        await asyncio.sleep(0.1)
        other.send(_GET)
        assert (await read_all(other)).count(b"HTTP/1.1 200 ") == 2
        other.close()
        ours.send(b"late")
        ours.close()
        assert await read_all(arrival.sock) == b"late"
        arrival.sock.close()

    _serve(new_loop, story)


@LOOPS
def test_clients_that_leave_before_the_decision_are_forgotten(new_loop: Any) -> None:
    async def story(scene: _Scene) -> None:
        for said in (b"", b"G", handshake()[:-1]):
            client = await scene.client(said)
            client.shutdown(socket.SHUT_WR)
            assert await read_all(client) == b""
            client.close()
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    _serve(new_loop, story)


def test_a_client_sees_when_the_subprotocol_is_another() -> None:
    async def story(scene: _Scene) -> None:
        protocol = _client_protocol()
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()).replace(b"msgpack.v1", b"msgpack.v9"))
        protocol.receive_data(await asyncio.get_running_loop().sock_recv(client, 4096))
        assert protocol.handshake_exc is None or isinstance(protocol.handshake_exc, NegotiationError)
        assert protocol.subprotocol is None
        client.close()

    _serve(asyncio.new_event_loop, story)
