"""The ASGI path: a connection that cannot be handed over is joined to its worker by a socket pair.

The worker serves its end as it serves every other connection, so there is one session implementation. It is
taken when TLS ends in uvicorn, where descriptors cannot be passed, or with ``--handover off``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from openenv_gym.errors import OpenEnvError, RemoteProtocolError
from openenv_gym.protocol import frames
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.messages import SUBPROTOCOL
from openenv_gym.protocol.reader import FrameReader

from .arrivals import PATIENCE, Arrivals, nothing_came, offers_ours
from .pool import Arrival, Pool
from .problems import problem, status_of
from .replies import error_reply
from .security import check_mode, check_origin, check_token
from .settings import ServerSettings

__all__ = ["Pump"]

_LOG = logging.getLogger("openenv_gym.server")
_NO_KEY = bytes(4)


class Pump:
    """ASGI application for ``/ws``.

    Args:
        pool: Every session of the server.
        settings: Its settings.
    """

    def __init__(self, pool: Pool, settings: ServerSettings) -> None:
        self._arrivals = Arrivals(pool, settings)
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        websocket = WebSocket(scope, receive, send)
        try:
            self._check(websocket)
        except OpenEnvError as exc:
            await _refuse(websocket, exc)
            return
        headers = self._arrivals.advertisement().items()
        await websocket.accept(SUBPROTOCOL, [(name.encode(), value.encode()) for name, value in headers])
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        introduced = False
        try:
            first = await _first(websocket)
            if first is not None:
                await self._arrivals.introduce(first, Arrival(theirs))
                introduced = True
                await _pump(websocket, ours)
        except OpenEnvError as exc:
            if introduced:  # this connection is over, its session may be resumed
                await _close(websocket, exc.details.get("close_code", 1002))
            else:
                await _say(websocket, encode(error_reply(exc, alive=False)))
                await _close(websocket, 1013, "refused")
        except (OSError, WebSocketDisconnect) as exc:
            _LOG.debug("a connection ended: %r", exc)
        finally:
            ours.close()
            theirs.close()
            await _close(websocket)

    def _check(self, websocket: WebSocket) -> None:
        check_token(self._settings, websocket.headers.get("authorization"))
        check_origin(self._settings, websocket.headers.get("origin"))
        check_mode(self._settings)
        if not offers_ours(websocket.scope):
            raise RemoteProtocolError(f"this server speaks the WebSocket subprotocol {SUBPROTOCOL}; offer it")


async def _first(websocket: WebSocket) -> bytes | None:
    """Return the first message; ``None`` when the client is gone."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await _receive(websocket)
    except TimeoutError:
        raise nothing_came(PATIENCE) from None


async def _pump(websocket: WebSocket, sock: socket.socket) -> None:
    """Carry messages both ways until one side ends; raises what ended it."""
    both = [asyncio.create_task(way(websocket, sock)) for way in (_up, _down)]
    try:
        ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def _up(websocket: WebSocket, sock: socket.socket) -> None:
    """Client to worker."""
    while (payload := await _receive(websocket)) is not None:
        try:
            await _forward(payload, sock)
        except ConnectionError:  # the worker let go; what it said last comes the other way
            await asyncio.Event().wait()


async def _forward(payload: bytes, sock: socket.socket) -> None:
    """Send a message to the worker, masked with zeros, which costs nothing and changes nothing."""
    data = frames.header(0x80 | frames.BINARY, len(payload), True) + _NO_KEY + payload
    try:
        sent = sock.send(data)
    except BlockingIOError:
        sent = 0
    if sent < len(data):
        await asyncio.get_running_loop().sock_sendall(sock, memoryview(data)[sent:])


async def _down(websocket: WebSocket, sock: socket.socket) -> None:
    """Worker to client."""
    loop = asyncio.get_running_loop()
    reader = FrameReader(client=True)
    while True:
        reader.arrived = await loop.sock_recv_into(sock, reader.target)
        if not reader.arrived:
            return
        while (event := reader.next()) is not None:
            if not isinstance(event, frames.Frame):
                await websocket.send({"type": "websocket.send", "bytes": bytes(event)})
            elif event.opcode == frames.CLOSE:
                code, reason = frames.parse_close(event.payload)
                await websocket.close(code, reason)
                return


async def _receive(websocket: WebSocket) -> bytes | None:
    """Return the next message; ``None`` when the client is gone."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        return None
    payload = message.get("bytes")
    if payload is None:
        raise frames.wrong(f"{SUBPROTOCOL} uses binary messages only and a text message came", 1003)
    return bytes(payload)


async def _say(websocket: WebSocket, payload: bytes) -> None:
    with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect):
        await websocket.send_bytes(payload)


async def _close(websocket: WebSocket, code: int = 1000, reason: str = "") -> None:
    if websocket.application_state is not WebSocketState.DISCONNECTED:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect):
            await websocket.close(code, reason)


async def _refuse(websocket: WebSocket, exc: OpenEnvError) -> None:
    from starlette.responses import JSONResponse

    await websocket.send_denial_response(JSONResponse(problem(exc), status_of(exc)))
