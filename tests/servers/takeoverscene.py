"""A server on a real event loop whose connections the take-over looks at first."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import uvicorn
from uvicorn.server import ServerState
from websockets.client import ClientProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openenv_gym.protocol import messages as m
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.takeover import TakeoverProtocol

from .wire import read_all, run

__all__ = ["BEYOND", "Arrivals", "Scene", "client_protocol", "rest_of", "serve", "until"]

BEYOND = bytes(range(256))


class Arrivals:
    """Takes what is handed over; one at a time."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ServerSettings(**settings)
        self.taken: asyncio.Queue[tuple[Arrival, bytes]] = asyncio.Queue()

    def advertisement(self) -> dict[str, str]:
        return {"OpenEnv-Workers": "2"}

    def welcome(self, arrival: Arrival, answer: bytes) -> None:
        self.taken.put_nowait((arrival, answer))


class App:
    """uvicorn's application: answers HTTP with what it was asked, and echoes on WebSockets."""

    def __init__(self, arrivals: Arrivals | None) -> None:
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


class Watched(TakeoverProtocol):
    """Lets the test know how many pieces have come."""

    pieces: asyncio.Queue[bytes]

    def data_received(self, data: bytes) -> None:
        self.pieces.put_nowait(data)
        super().data_received(data)


class Scene:
    """A server whose connections are looked at by the protocol."""

    def __init__(self, arrivals: Arrivals | None, context: ssl.SSLContext | None = None) -> None:
        self.arrivals = arrivals
        self.app = App(arrivals)
        self.config = uvicorn.Config(
            self.app, ws="websockets-sansio", lifespan="off", log_config=None, access_log=False
        )
        self.config.load()
        self.state = ServerState()
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.context = context
        self.port = 0

    def _protocol(self) -> TakeoverProtocol:
        protocol = Watched(self.config, self.state, {}, asyncio.get_running_loop())
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


def serve(
    new_loop: Any,
    story: Callable[[Scene], Awaitable[None]],
    context: ssl.SSLContext | None = None,
    **settings: Any,
) -> None:
    """Run ``story`` beside a server; its connections are all closed afterwards."""

    async def main() -> None:
        scene = Scene(Arrivals(**settings), context)
        async with scene.served():
            await story(scene)
        assert scene.state.connections == set()

    run(main, new_loop)


def client_protocol(**options: Any) -> ClientProtocol:
    return ClientProtocol(
        parse_uri("ws://localhost/ws"), subprotocols=[Subprotocol(m.SUBPROTOCOL)], **options
    )


async def rest_of(sock: socket.socket, data: bytes) -> bytes:
    """Send ``data``, if it is taken, and no more; return what comes back until the end."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(sock, data)
        sock.shutdown(socket.SHUT_WR)
    answer = await read_all(sock)
    sock.close()
    return answer


async def until(sock: socket.socket, ending: bytes) -> bytes:
    """Return what comes up to ``ending``."""
    data = b""
    while not data.endswith(ending):
        part = await asyncio.get_running_loop().sock_recv(sock, 4096)
        assert part, data
        data += part
    return data
