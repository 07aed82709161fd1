"""The HTTP side of the server, as a Starlette application.

======================= ===================================================================================
``GET /health``         ``{"status": "healthy"}`` as long as the server process lives; asks nobody
``GET /ready``          ``{"status": "ready"}``, or 503 while the server starts or shuts down
``GET /capacity``       ``{"active", "max", "waiting", ...}``: sessions now, at most, and queueing for a slot
``GET /metadata``       what is served: what the environment says of itself, and what Gymnasium does
``GET /schema``         JSON Schemas of its actions, observations and states; its spaces
``GET /openapi.json``   all this as an OpenAPI document; ``GET /docs``: the same as a page
``POST /reset``         an episode over HTTP, with ``POST /step`` and ``GET /state`` (:mod:`.openenv.http`)
``GET /list_...``       the task API (:mod:`.openenv.tasks`)
``/mcp``                tools for agents, over HTTP and WebSocket (:mod:`.mcp.endpoint`)
``WebSocket /ws``       sessions: binary ones that were not handed over to a worker, and those in JSON
======================= ===================================================================================

Errors are ``{"code", "message", "details"}``. ``/health`` and ``/ready`` are open to all; everything else
wants the server's token, if it has one. What the environment says of itself is asked once.
"""

from __future__ import annotations

import importlib

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv_gym.errors import OpenEnvError

from .arrivals import offers_ours
from .mcp.endpoint import McpEndpoint
from .mcp.streamable import SESSION
from .openenv.about import About
from .openenv.http import HEADER, HttpSessions, answer, failure
from .openenv.openapi import openapi
from .openenv.page import PAGE, PAGE_HEADERS
from .openenv.sessions import Sessions
from .openenv.talk import Talk
from .openenv.tasks import TaskRoutes
from .openenv.text import write_json
from .pool import Pool
from .problems import for_agents
from .security import check_host, check_origin, check_token
from .settings import ServerSettings
from .targets import Target

__all__ = ["PUMP", "create_app"]

#: Import string of the ASGI application that serves binary sessions; given the pool and the settings.
PUMP = "openenv_gym.servers.pump:Pump"
_OPEN_PATHS = ("/health", "/ready")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def create_app(pool: Pool, settings: ServerSettings, target: Target) -> Starlette:
    """Return the application.

    Its ``state`` has ``pool``, ``settings``, ``target``, ``sessions``, ``about``, and ``phase``:
    ``"starting"``, ``"ready"`` or ``"draining"``, which the server sets.
    """
    sessions, about = Sessions(pool), About(pool, settings, target)
    mcp = McpEndpoint(sessions, settings, target.name)
    routes: list[BaseRoute] = [
        Route("/health", _health),
        Route("/ready", _ready),
        Route("/capacity", _capacity),
        Route("/metadata", _metadata),
        Route("/schema", _schema),
        Route("/openapi.json", _openapi),
        Route("/docs", _docs),
        WebSocketRoute(
            "/ws", _Sockets(pool, settings, Talk(sessions, settings, target.name, mcp.dialect.in_session))
        ),
        Route("/ws", _not_a_websocket),
    ]
    if settings.mode == "simulation":
        routes += HttpSessions(sessions, settings).routes()
    routes += [*TaskRoutes(pool, settings, about).routes(), *mcp.routes()]
    app = Starlette(
        routes=routes,
        exception_handlers={OpenEnvError: _failed, HTTPException: _refused, Exception: _broken},
    )
    app.add_middleware(_Gate, settings=settings)
    if settings.allowed_origins:  # around the gate, for browsers send no token when they ask what is allowed
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=(HEADER, SESSION),
        )
    app.state.pool = pool
    app.state.settings = settings
    app.state.target = target
    app.state.sessions = sessions
    app.state.about = about
    app.state.phase = "starting"
    return app


class _Gate:
    """Checks who asks before any route does. WebSockets are checked where they are accepted."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and not _is_open(scope):
            try:
                self._check(Request(scope))
            except OpenEnvError as exc:
                app = failure(exc)
        await app(scope, receive, send)

    def _check(self, request: Request) -> None:
        headers = request.headers
        check_origin(self._settings, headers.get("origin"))
        if request.method not in _SAFE_METHODS:
            check_host(self._settings, headers.get("host"))
        check_token(self._settings, headers.get("authorization"))


def _is_open(scope: Scope) -> bool:
    """Return whether anybody may ask; ``root_path`` is where the application is mounted."""
    return scope["path"].removeprefix(scope.get("root_path", "")) in _OPEN_PATHS


class _Sockets:
    """``/ws``: the pump, imported when the first connection needs it, or JSON."""

    def __init__(self, pool: Pool, settings: ServerSettings, talk: ASGIApp) -> None:
        self._arguments = pool, settings
        self._talk = talk
        self._pump: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._binary() if offers_ours(scope) else self._talk
        await app(scope, receive, send)

    def _binary(self) -> ASGIApp:
        if self._pump is None:
            module, _, name = PUMP.partition(":")
            self._pump = getattr(importlib.import_module(module), name)(*self._arguments)
            assert self._pump is not None
        return self._pump


async def _failed(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, OpenEnvError)
    production = request.app.state.settings.mode == "production"
    return failure(for_agents(exc) if production else exc, "body")


async def _refused(request: Request, exc: Exception) -> Response:
    """Say in our form what Starlette refuses: unknown paths, wrong methods."""
    assert isinstance(exc, HTTPException)
    there_are = ", ".join(_paths(request.app))
    message = f"{request.method} {request.url.path}: {exc.detail}; there are {there_are}"
    body = {"code": "not_found", "message": message, "details": {}}
    return JSONResponse(body, exc.status_code, exc.headers)


def _paths(app: Starlette) -> list[str]:
    """Return every method and path, as in ``GET /health``."""
    routes = [route for route in app.routes if isinstance(route, Route)]
    return [f"{_method(route)} {route.path}" for route in routes]


def _method(route: Route) -> str:
    return "GET" if "GET" in (route.methods or ()) else "POST"


async def _broken(request: Request, exc: Exception) -> Response:
    """Answer for a bug of ours; uvicorn logs it."""
    return failure(OpenEnvError("the server failed to answer; its log says why"))


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
    return answer(write_json(await request.app.state.about.metadata()))


async def _schema(request: Request) -> Response:
    about: About = request.app.state.about
    schemas = await about.schemas()
    ours = {"name": request.app.state.target.name, **await about.spaces()}
    return answer(write_json({**schemas, "reset_observation": schemas["observation"], **ours}))


async def _openapi(request: Request) -> Response:
    about: About = request.app.state.about
    settings: ServerSettings = request.app.state.settings
    document = openapi(
        await about.metadata(),
        await about.schemas(),
        production=settings.mode == "production",
        token=settings.token is not None,
    )
    return answer(write_json(document))


async def _docs(request: Request) -> Response:
    return HTMLResponse(PAGE, headers=PAGE_HEADERS)
