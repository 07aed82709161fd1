"""``/reset``, ``/step`` and ``/state`` over HTTP: requests of one client share a session.

``POST /reset`` opens a session and answers with its id, as the cookie ``openenv_session`` and the header
``OpenEnv-Session``; the requests that follow send either of them back. A session that nobody uses for
``http_session_ttl`` seconds ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from openenv_gym.errors import (
    MessageTooLargeError,
    OpenEnvError,
    RemoteProtocolError,
    ResetNeededError,
    SessionLostError,
    ValidationError,
)

from ..arrivals import PATIENCE
from ..problems import problem, status_of
from ..settings import ServerSettings
from .forms import check_fields, check_object, detail_of, outcome_form, reset_arguments, timeout_of
from .sessions import Held, Sessions
from .text import read_json, write_json

__all__ = ["COOKIE", "HEADER", "HttpSessions", "answer", "failure", "read_body"]

COOKIE = "openenv_session"
HEADER = "OpenEnv-Session"
_SLOWEST = 1024.0
"""Bytes a second that a body must bring, after its first seconds."""


class HttpSessions:
    """The three routes.

    Args:
        sessions: The table of sessions.
        settings: The server's settings.
    """

    def __init__(self, sessions: Sessions, settings: ServerSettings) -> None:
        self._sessions = sessions
        self._settings = settings

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/reset", self._reset, methods=["POST"]),
            Route("/step", self._step, methods=["POST"]),
            Route("/state", self._state, methods=["GET"]),
        ]

    async def _reset(self, request: Request) -> Response:
        body = check_object(await read_body(request, self._settings, empty={}), "$", "the body")
        seed, options = reset_arguments(body)
        held = self._known(request)
        fresh = held is None
        if held is None:
            former = _session_of(request)
            held = await self._sessions.open(ttl=self._settings.http_session_ttl, former=former)

        async def reset(held: Held) -> bytes:
            await self._sessions.renew(held)
            held.kept = None
            return write_json(outcome_form(await held.peer.reset(seed, options)))

        response = await self._in(held, request, reset)
        if fresh and response.status_code != 200:
            await self._sessions.close(held)
            for header in (HEADER, "set-cookie"):
                del response.headers[header]
        return response

    async def _step(self, request: Request) -> Response:
        held = self._needed(request)
        body = check_object(await read_body(request, self._settings), "$", "the body")
        check_fields(body, "action", "timeout_s", "request_id")
        if "action" not in body:
            raise ValidationError("the body needs the field 'action'", path="$.action")
        action = check_object(body["action"], "$.action", "an action")
        timeout = timeout_of(body.get("timeout_s"), "$.timeout_s")
        request_id = body.get("request_id")
        if not isinstance(request_id, str | None):
            raise ValidationError("a request_id is a text", path="$.request_id")

        async def step(held: Held) -> bytes:
            if request_id is not None and held.kept is not None and held.kept[0] == request_id:
                return held.kept[1]
            data = write_json(outcome_form(await held.peer.step(action, timeout=timeout)))
            held.kept = None if request_id is None else (request_id, data)
            return data

        return await self._in(held, request, step, "body", "action")

    async def _state(self, request: Request) -> Response:
        async def state(held: Held) -> bytes:
            return write_json(await held.peer.state())

        return await self._in(self._needed(request), request, state)

    async def _in(
        self, held: Held, request: Request, work: Callable[[Held], Awaitable[bytes]], *where: str
    ) -> Response:
        """Answer in a session, with its id, whatever comes of it."""
        with self._sessions.use(held):
            async with held.turn:
                try:
                    if await request.is_disconnected():
                        raise RemoteProtocolError("the client left before its turn; nothing was executed")
                    response = answer(await work(held))
                except OpenEnvError as exc:
                    response = failure(exc, *(where or ("body",)))
        response.headers[HEADER] = held.id
        response.set_cookie(
            COOKIE,
            held.id,
            max_age=None if held.ttl is None else max(int(held.ttl), 1),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def _known(self, request: Request) -> Held | None:
        session_id = _session_of(request)
        try:
            return None if session_id is None else self._sessions.find(session_id)
        except SessionLostError:
            return None

    def _needed(self, request: Request) -> Held:
        session_id = _session_of(request)
        if session_id is None:
            raise ResetNeededError(
                f"this request names no session: POST /reset first, and send the cookie {COOKIE!r} or the"
                f" header {HEADER!r} of its answer with each request that follows"
            )
        try:
            return self._sessions.find(session_id)
        except SessionLostError as exc:
            raise SessionLostError(f"{exc.message}; POST /reset opens a new one") from None


def _session_of(request: Request) -> str | None:
    return request.headers.get(HEADER) or request.cookies.get(COOKIE) or None


async def read_body(request: Request, settings: ServerSettings, empty: Any = None) -> Any:
    """Return the JSON in the body of a request; ``empty``: what an empty one stands for, if anything.

    Raises:
        MessageTooLargeError: It is larger than ``max_message_size``.
        RemoteProtocolError: It is not JSON, or did not come.
    """
    data = await _received(request, settings.max_message_size)
    if not data.strip() and empty is not None:
        return empty
    try:
        return read_json(data)
    except ValueError as exc:
        raise RemoteProtocolError(f"the body is not JSON: {exc}") from None


async def _received(request: Request, limit: int) -> bytes:
    """Return the bytes of a body. A client must send some now and then, and not a few at a time for ever."""
    data = bytearray()
    parts = request.stream()
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        try:
            async with asyncio.timeout_at(PATIENCE + min(clock(), began + len(data) / _SLOWEST)):
                part = await anext(parts)
        except StopAsyncIteration:
            return bytes(data)
        except ClientDisconnect:
            raise RemoteProtocolError("the client left in the middle of the body") from None
        except TimeoutError:
            raise RemoteProtocolError(
                f"the body is not whole: {len(data)} bytes came in {clock() - began:.0f} s"
            ) from None
        data += part
        if len(data) > limit:
            raise MessageTooLargeError(
                f"the body is larger than {limit} bytes (--max-message-size, OPENENV_MAX_MESSAGE_SIZE)",
                size=len(data),
                limit=limit,
                option="max_message_size",
            )


def answer(data: bytes) -> Response:
    """Return JSON as an answer."""
    return Response(data, media_type="application/json")


def failure(error: OpenEnvError, *where: str) -> Response:
    """Return an error as an answer; what is wrong with a request also in the form of FastAPI's servers.

    Args:
        error: What went wrong.
        where: The part of the request that paths in it are about.
    """
    status = status_of(error)
    body = problem(error)
    if status == 422:
        body["detail"] = detail_of(error, *where)
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return Response(write_json(body), status, headers, "application/json")
