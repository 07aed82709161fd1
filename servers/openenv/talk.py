"""``/ws`` for clients that speak OpenEnv's JSON: text frames, one answer to each message, in order.

A message that cannot be understood costs one ``error`` frame, not the session. What ends the session is told
by an ``error`` frame and close code 1000; so does a server say that it has no free slot, or cannot build the
environment, right after it accepted the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from openenv_gym.errors import (
    ForbiddenError,
    OpenEnvError,
    RemoteProtocolError,
    UnsupportedError,
    ValidationError,
)

from ..problems import for_agents, problem, status_of
from ..security import check_origin, check_token
from ..settings import ServerSettings
from .forms import check_fields, check_object, error_form, outcome_form, reset_arguments
from .sessions import Held, Sessions
from .text import read_json, write_json

__all__ = ["Rpc", "Talk"]

_LOG = logging.getLogger("openenv_gym.server")
#: Answers a JSON-RPC request in a session.
Rpc = Callable[[Held, Any], Awaitable[Any]]


class _UnreadableError(Exception):
    """A message that has no meaning; carries the code of the error frame."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Talk:
    """ASGI application for ``/ws``, where the client offers no subprotocol of ours.

    Args:
        sessions: The table of sessions; ``/ws?session_id=`` attaches to one of them.
        settings: The server's settings.
        factory: What an environment that could not be built is called.
        rpc: Answers messages of the type ``mcp``; ``None``: there is nobody who does.
    """

    def __init__(
        self, sessions: Sessions, settings: ServerSettings, factory: str, rpc: Rpc | None = None
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._factory = factory
        self._rpc = rpc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        websocket = WebSocket(scope, receive, send)
        try:
            check_token(self._settings, websocket.headers.get("authorization"))
            check_origin(self._settings, websocket.headers.get("origin"))
        except OpenEnvError as exc:
            await websocket.send_denial_response(JSONResponse(problem(exc), status_of(exc)))
            return
        await websocket.accept()
        with contextlib.suppress(OSError, WebSocketDisconnect):
            await self._serve(websocket)

    async def _serve(self, websocket: WebSocket) -> None:
        asked = websocket.query_params.get("session_id")
        try:
            held = await self._sessions.open(ttl=None) if asked is None else self._sessions.find(asked)
            _attach(held)
        except OpenEnvError as exc:
            await _end(websocket, self._error(exc, alive=False))
            return
        try:
            with self._sessions.use(held):
                await self._converse(websocket, held)
        finally:
            held.attached = False
            if asked is None:
                await self._sessions.close(held)

    async def _converse(self, websocket: WebSocket, held: Held) -> None:
        turn = asyncio.Lock()
        obituary = asyncio.create_task(self._when_it_ends(websocket, held, turn))
        try:
            while True:
                event = await websocket.receive()
                if event["type"] == "websocket.disconnect":
                    return
                async with turn:
                    if websocket.application_state is WebSocketState.DISCONNECTED:
                        return
                    if not await self._answer(websocket, held, event):
                        return
        finally:
            obituary.cancel()

    async def _when_it_ends(self, websocket: WebSocket, held: Held, turn: asyncio.Lock) -> None:
        """Tell the client at once when its session ends while it is silent."""
        reason = await asyncio.shield(held.peer.ended)
        async with turn:
            with contextlib.suppress(OSError, WebSocketDisconnect):
                await _end(websocket, self._error(reason, alive=False))

    async def _answer(self, websocket: WebSocket, held: Held, event: Any) -> bool:
        """Answer a message; return whether the session goes on."""
        try:
            message = _read(event)
            if message["type"] == "close":
                await _close(websocket)
                return False
            answer = write_json(await self._carry_out(held, message))
        except _UnreadableError as exc:
            answer = write_json({"type": "error", "data": {"message": str(exc), "code": exc.code}})
        except OpenEnvError as exc:
            alive = not held.peer.ended.done()
            told = self._error(exc, alive=alive)
            if not alive:
                await _end(websocket, told)
                return False
            answer = write_json(told)
        await websocket.send_text(answer.decode())
        return True

    async def _carry_out(self, held: Held, message: dict[str, Any]) -> dict[str, Any]:
        kind, data = message["type"], message.get("data", {})
        if kind == "mcp":
            if self._rpc is None:
                raise UnsupportedError("this server answers no 'mcp' messages")
            return {"type": "mcp", "data": await self._rpc(held, data)}
        if self._settings.mode == "production":
            raise ForbiddenError(
                f"this server runs in production mode, which has no {kind!r}: tools are reached by 'mcp'"
                " (--mode, OPENENV_MODE)",
                option="mode",
            )
        if kind == "state":
            return {"type": "state", "data": await held.peer.state()}
        if kind == "reset":
            outcome = await held.peer.reset(*reset_arguments(data))
        else:
            outcome = await held.peer.step(data)
        return {"type": "observation", "data": outcome_form(outcome)}

    def _error(self, exc: OpenEnvError, *, alive: bool) -> dict[str, Any]:
        told = for_agents(exc) if self._settings.mode == "production" else exc
        return {"type": "error", "data": error_form(told, alive=alive, factory=self._factory)}


#: Types of messages, and whether they have ``data``: ``None``: they must have none.
_TYPES = {"reset": False, "step": True, "mcp": True, "state": None, "close": None}


def _read(event: Any) -> dict[str, Any]:
    """Return the message in a frame."""
    text = event.get("text")
    if text is None:
        raise _UnreadableError(
            "INVALID_JSON",
            "a binary frame came, and this connection speaks JSON in text frames; the binary protocol is"
            " chosen by its subprotocol when connecting",
        )
    try:
        message = read_json(text)
    except ValueError as exc:
        raise _UnreadableError("INVALID_JSON", f"Invalid JSON: {exc}") from None
    check_object(message, "$", "a message")
    kind = message.get("type", "")
    if not isinstance(kind, str) or kind not in _TYPES:
        shown = kind if isinstance(kind, str) else repr(kind)
        raise _UnreadableError("UNKNOWN_TYPE", f"Unknown message type: {shown[:80]}")
    takes = _TYPES[kind]
    check_fields(message, "type", *([] if takes is None else ["data"]))
    if takes and "data" not in message:
        raise ValidationError(f"{kind!r} needs the field 'data'", path="$.data")
    check_object(message.get("data", {}), "$.data", f"the data of {kind!r}")
    return dict(message)


def _attach(held: Held) -> None:
    if held.attached:
        raise RemoteProtocolError(f"the session {held.id} has a WebSocket attached already; close that first")
    held.attached = True


async def _end(websocket: WebSocket, answer: dict[str, Any]) -> None:
    await websocket.send_text(write_json(answer).decode())
    await _close(websocket)


async def _close(websocket: WebSocket) -> None:
    if websocket.application_state is not WebSocketState.DISCONNECTED:
        await websocket.close(1000)
