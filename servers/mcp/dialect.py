"""OpenEnv's dialect of MCP: JSON-RPC requests, each answered with a response and, over HTTP, status 200.

========================== ==================================================================================
method                     result
========================== ==================================================================================
``tools/list``             ``{"tools": [...]}``, in snake case
``tools/call``             ``content``, ``structured_content``, ``data``, ``is_error``, ``meta``
``openenv/session/create`` ``{"session_id"}``; over a WebSocket that of its own session
``openenv/session/close``  ``{"session_id", "closed": true}``; ``closing`` while a WebSocket is attached to it
========================== ==================================================================================

Both tool methods take ``session_id``. Over HTTP without one they get an environment of their own, which ends
with the call. Requests without ``id`` are answered like the others, and there are no batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from openenv_gym.errors import ErrorCode, OpenEnvError, SessionLostError, ToolNotFoundError

from ..openenv.sessions import Held, Sessions
from ..settings import ServerSettings
from .rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    failure,
    from_error,
    success,
)

__all__ = ["Dialect"]

_FIELDS = ("jsonrpc", "method", "params", "id")
_NO_MCP = "Environment does not support MCP"
_ATTACHED_PAUSE = 0.05


class Dialect:
    """Answers requests.

    Args:
        sessions: The table of sessions.
        settings: The server's settings.
        factory: What an environment that could not be built is called.
    """

    def __init__(self, sessions: Sessions, settings: ServerSettings, factory: str) -> None:
        self._sessions = sessions
        self._settings = settings
        self._factory = factory
        self._closing: set[asyncio.Task[None]] = set()

    async def answer(self, request: Any, own: Held | None = None) -> dict[str, Any]:
        """Return the response to a request.

        Args:
            request: The JSON value that came.
            own: The session of the WebSocket that it came over, if it did.
        """
        request_id = request.get("id") if isinstance(request, dict) else None
        if not isinstance(request_id, str | int | None) or isinstance(request_id, bool):
            request_id = None
        try:
            method, params = _parsed(request)
            return success(request_id, await self._carry_out(method, params, own))
        except RpcError as exc:
            return failure(request_id, exc)
        except OpenEnvError as exc:
            return failure(request_id, self.error(exc))

    def error(self, exc: OpenEnvError) -> RpcError:
        """Return an error of ours as clients of OpenEnv know it."""
        error = from_error(exc)
        match exc.code:
            case ErrorCode.CAPACITY:
                error.data |= {
                    "active_sessions": exc.details.get("active"),
                    "max_sessions": exc.details.get("max"),
                }
            case ErrorCode.CONSTRUCTION:
                error.data["factory_name"] = self._factory
            case ErrorCode.UNSUPPORTED:
                error = RpcError(INTERNAL_ERROR, _NO_MCP)
        return error

    async def in_session(self, own: Held, request: Any) -> dict[str, Any]:
        """Answer a request that came over the WebSocket of a session."""
        return await self.answer(request, own)

    # -- methods

    async def _carry_out(self, method: str, params: dict[str, Any], own: Held | None) -> Any:
        match method:
            case "openenv/session/create":
                held = own or await self._sessions.open(ttl=self._settings.http_session_ttl)
                with self._sessions.use(held):
                    return {"session_id": held.id}
            case "openenv/session/close":
                return await self._close(params, own)
            case "tools/list":
                return await self._in_session(_list, params, own)
            case "tools/call":
                if not isinstance(name := params.get("name"), str) or not name:
                    raise RpcError(INVALID_PARAMS, "Missing 'name' in params")
                if not isinstance(params.get("arguments", {}), dict):
                    raise RpcError(INVALID_PARAMS, "Invalid params - 'arguments' must be an object")
                return await self._in_session(_call, params, own)
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def _in_session(
        self, work: Callable[[Held, dict[str, Any]], Awaitable[Any]], params: dict[str, Any], own: Held | None
    ) -> Any:
        if own is not None:
            return await work(own, params)
        if params.get("session_id"):
            held = self._find(params["session_id"])
            with self._sessions.use(held):
                return await work(held, params)
        held = await self._sessions.open(ttl=None)
        try:
            return await work(held, params)
        finally:
            await self._sessions.close(held)

    async def _close(self, params: dict[str, Any], own: Held | None) -> dict[str, Any]:
        session_id = params.get("session_id")
        if not session_id:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
        if own is not None and session_id == own.id:
            raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
        held = self._find(session_id)
        if held.attached:
            task = asyncio.create_task(self._close_detached(held))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            return {"session_id": session_id, "closed": False, "closing": True}
        await self._sessions.close(held)
        return {"session_id": session_id, "closed": True}

    async def _close_detached(self, held: Held) -> None:
        """Close a session when its WebSocket has let go of it."""
        while held.attached:
            await asyncio.sleep(_ATTACHED_PAUSE)
        await self._sessions.close(held)

    def _find(self, session_id: Any) -> Held:
        try:
            return self._sessions.find(session_id if isinstance(session_id, str) else repr(session_id))
        except SessionLostError as exc:
            raise RpcError(
                INVALID_PARAMS, f"Unknown session_id: {str(session_id)[:80]}", exc.message
            ) from None


async def _list(held: Held, params: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [_tool(tool) for tool in await held.peer.ask("tools/list")]}


async def _call(held: Held, params: dict[str, Any]) -> dict[str, Any]:
    name = params["name"]
    try:
        form = await held.peer.ask("tools/call", {"name": name, "arguments": params.get("arguments", {})})
    except ToolNotFoundError as exc:
        raise RpcError(INTERNAL_ERROR, f"Unknown tool: {name!r}", exc.message) from None
    if form["is_error"]:
        text = " ".join(block.get("text", "") for block in form["content"])
        raise RpcError(INTERNAL_ERROR, f"Error calling tool {name!r}: {text}")
    blocks = [{**block, "annotations": None, "meta": None} | block for block in form["content"]]
    return {**form, "content": blocks}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": tool["name"],
        "title": None,
        "description": tool["description"],
        "input_schema": tool["input_schema"],
        "execution": None,
        "output_schema": tool["output_schema"],
        "icons": None,
        "annotations": None,
        "meta": None,
    }


def _parsed(request: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(request, dict):
        raise RpcError(PARSE_ERROR, "Parse error")
    wrong = [f"unknown field {name!r}" for name in request if name not in _FIELDS]
    if request.get("jsonrpc") != "2.0":
        wrong.append("'jsonrpc' must be '2.0'")
    method, params = request.get("method"), request.get("params", {})
    if not isinstance(method, str):
        wrong.append("'method' must be a string")
    if not isinstance(params, dict):
        wrong.append("'params' must be an object")
    request_id = request.get("id")
    if not isinstance(request_id, str | int | None) or isinstance(request_id, bool):
        wrong.append("'id' must be a string, an integer or null")
    if wrong:
        raise RpcError(INVALID_REQUEST, f"Invalid request: {'; '.join(wrong)}")
    return str(method), params
