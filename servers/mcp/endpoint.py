"""``/mcp``: which of two languages a client speaks.

A request with the header ``Mcp-Session-Id`` or ``MCP-Protocol-Version``, or with the method ``initialize``,
is standard MCP over streamable HTTP (:mod:`.streamable`); so are ``GET`` and ``DELETE``. Any other ``POST``,
and a WebSocket, is OpenEnv's dialect (:mod:`.dialect`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from openenv_gym.errors import OpenEnvError, RemoteProtocolError

from ..openenv.http import read_body
from ..openenv.sessions import Held, Sessions
from ..openenv.text import read_json, write_json
from ..problems import problem, status_of
from ..security import check_origin, check_token
from ..settings import ServerSettings
from .dialect import Dialect
from .rpc import PARSE_ERROR, SERVER_ERROR, RpcError, failure
from .streamable import SESSION, VERSION, Streamable

__all__ = ["McpEndpoint"]

_LEFT = 499
"""Nobody gets to see it but access logs."""


class McpEndpoint:
    """The routes of ``/mcp``.

    Args:
        sessions: The table of sessions.
        settings: The server's settings.
        factory: What an environment that could not be built is called.

    Attributes:
        dialect: Answers messages of the type ``mcp`` of ``/ws`` too.
    """

    def __init__(self, sessions: Sessions, settings: ServerSettings, factory: str) -> None:
        self.dialect = Dialect(sessions, settings, factory)
        self._sessions = sessions
        self._settings = settings
        self._streamable = Streamable(sessions, settings)

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/mcp", self._post, methods=["POST"]),
            Route("/mcp", self._streamable.get, methods=["GET"]),
            Route("/mcp", self._streamable.delete, methods=["DELETE"]),
            WebSocketRoute("/mcp", self._websocket),
        ]

    async def _post(self, request: Request) -> Response:
        standard = SESSION in request.headers or VERSION in request.headers
        try:
            message = await read_body(request, self._settings)
        except RemoteProtocolError as exc:
            text = f"Parse error: {exc.message}" if standard else "Parse error"
            return _json(failure(None, RpcError(PARSE_ERROR, text)), 400 if standard else 200)
        if standard or (isinstance(message, dict) and message.get("method") == "initialize"):
            return await self._streamable.post(request, message)
        return await _unless_left(request, self.dialect.answer(message))

    async def _websocket(self, websocket: WebSocket) -> None:
        try:
            check_token(self._settings, websocket.headers.get("authorization"))
            check_origin(self._settings, websocket.headers.get("origin"))
        except OpenEnvError as exc:
            await websocket.send_denial_response(JSONResponse(problem(exc), status_of(exc)))
            return
        await websocket.accept()
        with contextlib.suppress(OSError, WebSocketDisconnect):
            await self._serve(websocket)
        if websocket.application_state is not WebSocketState.DISCONNECTED:
            with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):
                await websocket.close()

    async def _serve(self, websocket: WebSocket) -> None:
        try:
            held = await self._sessions.open(ttl=None)
        except OpenEnvError as exc:
            error = self.dialect.error(exc)
            await _say(websocket, failure(None, RpcError(SERVER_ERROR, error.message, error.data)))
            return
        held.attached = True
        try:
            with self._sessions.use(held):
                await self._converse(websocket, held)
        finally:
            await self._sessions.close(held)

    async def _converse(self, websocket: WebSocket, held: Held) -> None:
        while True:
            event = await _unless_ended(websocket.receive(), held)
            if event is None:
                error = self.dialect.error(held.peer.ended.result())
                await _say(websocket, failure(None, RpcError(SERVER_ERROR, error.message, error.data)))
                return
            if event["type"] == "websocket.disconnect":
                return
            text = event.get("text")
            try:
                if text is None:
                    raise ValueError("a binary frame came, and JSON-RPC goes in text frames")
                answer = await self.dialect.answer(read_json(text), held)
            except ValueError as exc:
                answer = failure(None, RpcError(PARSE_ERROR, f"Parse error: {exc}"))
            await _say(websocket, answer)
            if held.peer.ended.done():
                return


async def _unless_left(request: Request, answering: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """Return an answer; whose client leaves is not waited for, and nothing more begins on its behalf."""
    answer = asyncio.create_task(answering)
    leaving = asyncio.ensure_future(request.receive())  # the body has come, so there is nothing else to come
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return _json(answer.result())
        return Response(status_code=_LEFT)
    finally:
        for task in (answer, leaving):
            task.cancel()


async def _unless_ended(receive: Coroutine[Any, Any, Any], held: Held) -> Any:
    """Return what a client sends next; ``None`` when its session ends first."""
    receiving = asyncio.create_task(receive)
    try:
        await asyncio.wait((receiving, held.peer.ended), return_when=asyncio.FIRST_COMPLETED)
        return receiving.result() if receiving.done() else None
    finally:
        receiving.cancel()


async def _say(websocket: WebSocket, answer: Any) -> None:
    await websocket.send_text(write_json(answer).decode())


def _json(answer: Any, status: int = 200) -> Response:
    return Response(write_json(answer), status, media_type="application/json")
