"""The HTTP side of the server, as a Starlette application.

======================= ===================================================================================
``GET /health``         ``{"status": "healthy"}`` as long as the server process lives; asks nobody
``GET /ready``          ``{"status": "ready"}``, or 503 while the server starts or shuts down
``GET /capacity``       ``{"active", "max", "waiting", ...}``: sessions now, at most, and queueing for a slot
``GET /metadata``       what is served: name, Gymnasium metadata, render mode, registration
``GET /schema``         its spaces as JSON, and JSON Schemas of actions and observations
``WebSocket /ws``       sessions that were not handed over to a worker
======================= ===================================================================================

Errors are ``{"code", "message", "details"}``. ``/health`` and ``/ready`` are open to all; everything else
wants the server's token, if it has one. ``/metadata`` and ``/schema`` ask an environment once.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

import openenv_gym
from openenv_gym.errors import OpenEnvError
from openenv_gym.protocol.specs import from_spec
from openenv_gym.protocol.values import unpack_ext

from .jsonform import jsonable, space_form, space_schema
from .problems import problem, status_of
from .security import check_host, check_origin, check_token
from .settings import ServerSettings
from .targets import Target

__all__ = ["PUMP", "PoolLike", "create_app"]

#: Import string of the ASGI application that serves ``/ws``; given the pool and the settings.
PUMP = "openenv_gym.servers.pump:Pump"
_OPEN_PATHS = ("/health", "/ready")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_PATHS = ("/health", "/ready", "/capacity", "/metadata", "/schema")


class PoolLike(Protocol):
    """What the application needs of a pool."""

    def capacity(self) -> dict[str, Any]:
        """Return the numbers for ``/capacity``."""
        ...

    async def describe(self) -> dict[str, Any]:
        """Return what ``welcome`` says of the environment, packed."""
        ...


def create_app(pool: PoolLike, settings: ServerSettings, target: Target) -> Starlette:
    """Return the application.

    Its ``state`` has ``pool``, ``settings``, ``target``, and ``phase``: ``"starting"``, ``"ready"`` or
    ``"draining"``, which the server sets.
    """
    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/ready", _ready),
            Route("/capacity", _capacity),
            Route("/metadata", _metadata),
            Route("/schema", _schema),
            WebSocketRoute("/ws", _Late(pool, settings)),
            Route("/ws", _not_a_websocket),
        ],
        exception_handlers={OpenEnvError: _failed, HTTPException: _refused, Exception: _broken},
    )
    app.add_middleware(_Gate, settings=settings)
    app.state.pool = pool
    app.state.settings = settings
    app.state.target = target
    app.state.phase = "starting"
    return app


class _Gate:
    """Checks who asks before any route does. WebSockets are checked where they are accepted."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            try:
                self._check(Request(scope))
            except OpenEnvError as exc:
                app = _answer(exc)
        await app(scope, receive, send)

    def _check(self, request: Request) -> None:
        headers = request.headers
        check_origin(self._settings, headers.get("origin"))
        if request.method not in _SAFE_METHODS:
            check_host(self._settings, headers.get("host"))
        check_token(self._settings, headers.get("authorization"))


class _Late:
    """The pump, imported when the first connection needs it."""

    def __init__(self, pool: Any, settings: ServerSettings) -> None:
        self._arguments = pool, settings
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            module, _, name = PUMP.partition(":")
            self._app = getattr(importlib.import_module(module), name)(*self._arguments)
            assert self._app is not None
        await self._app(scope, receive, send)


def _answer(error: OpenEnvError) -> Response:
    headers = {"www-authenticate": "Bearer"} if status_of(error) == 401 else None
    return JSONResponse(problem(error), status_of(error), headers)


async def _failed(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, OpenEnvError)
    return _answer(exc)


async def _refused(request: Request, exc: Exception) -> Response:
    """Say in our form what Starlette refuses: unknown paths, wrong methods."""
    assert isinstance(exc, HTTPException)
    message = f"{request.method} {request.url.path}: {exc.detail}; there are GET {', '.join(_PATHS)}"
    body = {"code": "not_found", "message": message, "details": {}}
    return JSONResponse(body, exc.status_code, exc.headers)


async def _broken(request: Request, exc: Exception) -> Response:
    """Answer for a bug of ours; uvicorn logs it."""
    return _answer(OpenEnvError("the server failed to answer; its log says why"))


async def _not_a_websocket(request: Request) -> Response:
    message = "this is a WebSocket endpoint: connect with ws:// or wss://"
    body = {"code": "protocol", "message": message, "details": {}}
    return JSONResponse(body, 426, {"upgrade": "websocket"})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "healthy"})


async def _ready(request: Request) -> Response:
    phase = request.app.state.phase
    return JSONResponse({"status": phase}, 200 if phase == "ready" else 503)


async def _capacity(request: Request) -> Response:
    return JSONResponse(request.app.state.pool.capacity())


async def _metadata(request: Request) -> Response:
    state = request.app.state
    facts = _unpack(await state.pool.describe())
    return JSONResponse(
        {
            "name": state.target.name,
            "taken_as": state.target.how,
            "server": f"openenv_gym {openenv_gym.__version__}",
            "metadata": jsonable(facts.get("metadata")),
            "render_mode": facts.get("render_mode"),
            "spec": jsonable(facts.get("spec")),
        }
    )


async def _schema(request: Request) -> Response:
    state = request.app.state
    facts = _unpack(await state.pool.describe())
    action, observation = from_spec(facts["action_space"]), from_spec(facts["observation_space"])
    return JSONResponse(
        {
            "name": state.target.name,
            "spaces": {"action": space_form(action), "observation": space_form(observation)},
            "action": space_schema(action),
            "observation": space_schema(observation),
        }
    )


def _unpack(facts: dict[str, Any]) -> dict[str, Any]:
    """Return packed values as Python's."""
    data = msgspec.msgpack.encode(facts)
    unpacked: dict[str, Any] = msgspec.msgpack.decode(data, ext_hook=unpack_ext)
    return unpacked
