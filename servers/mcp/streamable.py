"""Standard MCP over streamable HTTP (revision 2025-06-18, basic/transports).

====================================== =====================================================================
``POST`` with ``initialize``           200 and a new ``Mcp-Session-Id``; 503 when the server is full
``POST`` with another request          200: JSON, or, for ``tools/call``, an event stream if that is accepted
``POST`` with notifications, responses 202
``GET``                                an event stream of what the server has to say; 405 without a session
``DELETE``                             204, and the session has ended; 405 without one
unknown session                        404: begin a new one with ``initialize``
unknown ``MCP-Protocol-Version``       400
====================================== =====================================================================

Event streams carry a comment now and then, so that a call may take as long as it needs. A stream that breaks
off does not end its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from openenv_gym.errors import OpenEnvError, SessionLostError

from ..openenv.sessions import Sessions
from ..openenv.text import write_json
from ..problems import status_of
from ..settings import ServerSettings
from .agent import LATEST, VERSIONS, Agent
from .rpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError, failure, from_error, success

__all__ = ["SESSION", "VERSION", "Streamable"]

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"

_UNSUPPORTED_VERSION = -32022
_SESSION_NOT_FOUND = -32001
_BATCHES = "2025-03-26"
_HEARTBEAT = 15.0
_NOTE = "mcp"
_CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
_EVENTS = "text/event-stream"
_COMMENT = b":\r\n\r\n"


class _RefusedError(Exception):
    """A request that gets an HTTP error; the body is a JSON-RPC error."""

    def __init__(self, status: int, error: RpcError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


_Call = asyncio.Task[dict[str, Any]]


class _Line:
    """What the transport keeps of a session: its agent, who listens, and which calls run."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.listener: asyncio.Queue[dict[str, Any] | None] | None = None
        self.calls: dict[Any, _Call] = {}

    def begin(self, request_id: Any, work: Coroutine[Any, Any, dict[str, Any]]) -> _Call:
        """Begin a call, and know it while it runs.

        One that is cancelled before its turn has come is not carried out; of any other the result is dropped.
        """
        call = self.calls[request_id] = asyncio.create_task(work)

        def forget(_: Any) -> None:
            if self.calls.get(request_id) is call:
                del self.calls[request_id]

        call.add_done_callback(forget)
        return call


class Streamable:
    """Answers HTTP requests.

    Args:
        sessions: The table of sessions.
        settings: The server's settings.
    """

    def __init__(self, sessions: Sessions, settings: ServerSettings) -> None:
        self._sessions = sessions
        self._settings = settings

    async def post(self, request: Request, message: Any) -> Response:
        """Answer ``POST``; ``message`` is the JSON that came."""
        try:
            if not request.headers.get("content-type", "").lower().startswith("application/json"):
                raise _RefusedError(415, RpcError(INVALID_REQUEST, "Content-Type must be application/json"))
            if _is_request(message) and message["method"] == "initialize":
                return await self._initialize(request, message)
            _check_version(request)
            line = await self._line(request)
            if isinstance(message, list) and message and line.agent.version == _BATCHES:
                return await self._batch(request, line, message)
            return await self._one(request, line, message)
        except _RefusedError as exc:
            request_id = message["id"] if _is_request(message) else None
            return _json(failure(request_id, exc.error), exc.status)

    async def get(self, request: Request) -> Response:
        """Answer ``GET``: the stream of what the server has to say by itself."""
        if SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        try:
            _check_version(request)
            line = await self._line(request)
            if not _takes_events(request):
                raise _RefusedError(406, RpcError(INVALID_REQUEST, f"GET needs Accept: {_EVENTS}"))
        except _RefusedError as exc:
            return _json(failure(None, exc.error), exc.status)
        return _stream(self._listen(line))

    async def delete(self, request: Request) -> Response:
        """Answer ``DELETE``: end the session."""
        if SESSION not in request.headers:
            return Response(status_code=405, headers={"allow": "POST"})
        try:
            line = await self._line(request)
        except _RefusedError as exc:
            return _json(failure(None, exc.error), exc.status)
        await self._sessions.close(line.agent.held)
        return Response(status_code=204)

    # -- sessions

    async def _initialize(self, request: Request, message: dict[str, Any]) -> Response:
        try:
            version = Agent.agreed(_params(message))
        except RpcError as exc:
            raise _RefusedError(400, exc) from None
        try:
            held = await self._sessions.open(ttl=self._settings.http_session_ttl)
            agent = Agent(held, version)
            try:
                with self._sessions.use(held):
                    result = await agent.welcome()
            except BaseException:
                await self._sessions.close(held)
                raise
        except OpenEnvError as exc:
            raise _RefusedError(status_of(exc), from_error(exc)) from exc
        held.notes[_NOTE] = _Line(agent)
        response = _answer(request, success(message["id"], result))
        response.headers[SESSION] = held.id
        return response

    async def _line(self, request: Request) -> _Line:
        session_id = request.headers.get(SESSION)
        if session_id is None:
            raise _RefusedError(
                400, RpcError(INVALID_REQUEST, "no Mcp-Session-Id: begin a session with initialize")
            )
        try:
            held = self._sessions.find(session_id)
            if held.peer.ended.done():
                await self._sessions.close(held)
                raise held.peer.ended.result()
            line = held.notes.get(_NOTE)
            if line is None:
                raise SessionLostError("it is no session of MCP")
        except OpenEnvError as exc:
            error = from_error(exc)
            why = error.message.removesuffix("; begin a new session")
            message = f"Session not found: {why}; begin a new one with initialize"
            raise _RefusedError(404, RpcError(_SESSION_NOT_FOUND, message, error.data)) from None
        assert isinstance(line, _Line)
        return line

    # -- messages

    async def _one(self, request: Request, line: _Line, message: Any) -> Response:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise _RefusedError(400, RpcError(INVALID_REQUEST, "the body must be one JSON-RPC 2.0 message"))
        if not _is_request(message):
            if not _is_note(message):
                text = "a request has a string as method and a string or integer as id"
                raise _RefusedError(400, RpcError(INVALID_REQUEST, text))
            self._notified(line, message)
            return Response(status_code=202)
        call = line.begin(message["id"], self._answered(line, message))
        if message["method"] == "tools/call" and _takes_events(request):
            return _stream(self._call(line, call))
        answer = await _awaited(call, message)
        if line.agent.changed and line.listener is not None:
            line.agent.changed = False
            line.listener.put_nowait(_CHANGED)
        return _answer(request, answer)

    async def _batch(self, request: Request, line: _Line, messages: list[Any]) -> Response:
        answers: list[Any] = []
        for message in messages:
            if _is_request(message):
                answers.append(
                    await _awaited(line.begin(message["id"], self._answered(line, message)), message)
                )
            elif isinstance(message, dict) and _is_note(message):
                self._notified(line, message)
            else:
                answers.append(failure(None, RpcError(INVALID_REQUEST, "no JSON-RPC 2.0 message")))
        return _answer(request, answers) if answers else Response(status_code=202)

    def _notified(self, line: _Line, message: dict[str, Any]) -> None:
        if message.get("method") == "notifications/cancelled":
            params = message.get("params")
            request_id = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(request_id, str | int) and request_id in line.calls:
                line.calls[request_id].cancel()

    async def _answered(self, line: _Line, message: dict[str, Any]) -> dict[str, Any]:
        held = line.agent.held
        with self._sessions.use(held):
            try:
                answer = success(message["id"], await line.agent.answer(message["method"], _params(message)))
            except RpcError as exc:
                answer = failure(message["id"], exc)
            # Not after a failure: a call that overran would keep this question waiting, and its agent.
            if message["method"] == "tools/call" and not answer.get("result", {"isError": True})["isError"]:
                await line.agent.look()
        return answer

    async def _call(self, line: _Line, call: _Call) -> AsyncIterator[bytes]:
        """Yield the events of a call's stream. The call goes on when nobody reads them."""
        while not call.done():
            done, _ = await asyncio.wait((call,), timeout=_HEARTBEAT)
            if not done:
                yield _COMMENT
        if call.cancelled():
            return
        if line.agent.changed:
            line.agent.changed = False
            yield _event(_CHANGED)
        yield _event(call.result())

    async def _listen(self, line: _Line) -> AsyncIterator[bytes]:
        """Yield what the server has to say until the session ends, or another stream takes over."""
        if line.listener is not None:
            line.listener.put_nowait(None)
        mine: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        line.listener = mine
        held = line.agent.held
        ended = held.peer.ended

        def end(_: Any) -> None:
            mine.put_nowait(None)

        ended.add_done_callback(end)
        try:
            with self._sessions.use(held):
                if line.agent.changed:
                    line.agent.changed = False
                    yield _event(_CHANGED)
                while (part := await _heard(mine)) is not None:
                    yield part
        finally:
            ended.remove_done_callback(end)
            if line.listener is mine:
                line.listener = None


async def _awaited(call: _Call, message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request that gets one whatever happens, as HTTP wants it."""
    await asyncio.wait((call,))
    if call.cancelled():
        return failure(message["id"], RpcError(INTERNAL_ERROR, "the client cancelled this request"))
    return call.result()


async def _heard(queue: asyncio.Queue[dict[str, Any] | None]) -> bytes | None:
    """Return what comes next for a listener; a comment when nothing does for a while."""
    try:
        async with asyncio.timeout(_HEARTBEAT):
            said = await queue.get()
    except TimeoutError:
        return _COMMENT
    return None if said is None else _event(said)


def _is_request(message: Any) -> bool:
    """Return whether ``message`` wants a response."""
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return False
    request_id = message.get("id")
    return isinstance(request_id, str | int) and not isinstance(request_id, bool)


def _is_note(message: dict[str, Any]) -> bool:
    """Return whether ``message`` is a notification or a response, which get none."""
    if "method" in message:
        return isinstance(message["method"], str) and "id" not in message
    return "result" in message or "error" in message


def _params(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    if not isinstance(params, dict | None):
        raise RpcError(INVALID_PARAMS, "'params' must be an object")
    return params or {}


def _check_version(request: Request) -> None:
    version = request.headers.get(VERSION, LATEST)
    if version not in VERSIONS:
        raise _RefusedError(
            400,
            RpcError(
                _UNSUPPORTED_VERSION,
                f"this server does not speak MCP {version[:40]!r}; it speaks {', '.join(VERSIONS)}",
                {"supported": list(VERSIONS), "requested": version},
            ),
        )


def _accepted(request: Request) -> set[str]:
    accept = ",".join(request.headers.getlist("accept")) or "*/*"
    return {part.partition(";")[0].strip().lower() for part in accept.split(",")}


def _takes_events(request: Request) -> bool:
    return _EVENTS in _accepted(request)


def _answer(request: Request, answer: Any) -> Response:
    """Return an answer as JSON, or as a stream of one event where nothing else is accepted."""
    accepted = _accepted(request)
    if accepted & {"application/json", "application/*", "*/*"}:
        return _json(answer)
    if _EVENTS in accepted:
        return Response(_event(answer), media_type=_EVENTS)
    raise _RefusedError(406, RpcError(INVALID_REQUEST, f"Accept must have application/json or {_EVENTS}"))


def _json(answer: Any, status: int = 200) -> Response:
    return Response(write_json(answer), status, media_type="application/json")


def _stream(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(
        events, media_type=_EVENTS, headers={"cache-control": "no-cache", "x-accel-buffering": "no"}
    )


def _event(message: Any) -> bytes:
    return b"event: message\r\ndata: " + write_json(message) + b"\r\n\r\n"
