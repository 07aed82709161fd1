"""The server as an ASGI application, for ``uvicorn module:app`` and for mounting in another application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv_gym.errors import ConfigError, OpenEnvError

from .app import create_app as routes_of
from .crew import import_failed
from .openenv.http import failure
from .options import settings_from_values
from .pool import Pool
from .problems import for_agents
from .settings import ServerSettings, env_variable
from .targets import Kind, Target, resolve

__all__ = ["create_app"]

_LOG = logging.getLogger("openenv_gym.server")


def create_app(
    environment: str | Callable[..., Any],
    *,
    action_type: type | None,
    observation_type: type | None,
    env_name: str | None,
    max_concurrent_envs: int | None,
    **options: Any,
) -> Starlette:
    """Return the application; see :func:`openenv_gym.create_app`."""
    if max_concurrent_envs is not None:
        options.setdefault("max_sessions", max_concurrent_envs)
    if not os.environ.get(env_variable("workers")):
        options.setdefault("workers", 0)
    settings = settings_from_values({**options, "handover": False})
    if (settings.token or settings.insecure) and "host" not in options:
        settings = replace(settings, host="0.0.0.0")
    settings.check_exposure()
    target = _target(environment, env_name, settings, action_type, observation_type)
    pool = Pool(settings, target)
    app = routes_of(pool, settings, target)
    app.add_middleware(_Opening, door := _Door(app, pool, settings))
    app.router.lifespan_context = door.lifespan
    return app


def _target(
    environment: Any,
    name: str | None,
    settings: ServerSettings,
    action_type: type | None,
    observation_type: type | None,
) -> Target:
    types = {"action_type": action_type, "observation_type": observation_type}
    chosen = {key: kind for key, kind in types.items() if kind is not None}
    if isinstance(environment, str):
        if chosen or name:
            raise ConfigError("create_app(): types and env_name go with a class, not with its name")
        return resolve(environment)
    if not callable(environment):
        kind = type(environment).__name__
        raise ConfigError(
            f"create_app() takes a class or a factory, not a {kind}: each session builds an environment"
        )
    text = f"{environment.__module__}:{environment.__qualname__}"
    if chosen:
        environment = _typed(environment, chosen)
    elif settings.worker_count and not _importable(environment):
        raise ConfigError(
            f"workers={settings.workers}: {text} cannot be imported by another process; define it at the top"
            " of a module that is not the program itself, or use workers=0"
        )
    return Target(text, name or environment.__name__, Kind.IMPORT, lambda: environment)


def _typed(environment: Any, types: dict[str, type]) -> Any:
    """Return a class with other types; a factory's product has its own."""
    if not isinstance(environment, type):
        return environment
    return type(environment.__name__, (environment,), {"__module__": environment.__module__, **types})


def _importable(environment: Any) -> bool:
    module = sys.modules.get(environment.__module__)
    found: Any = module
    for part in environment.__qualname__.split("."):
        found = getattr(found, part, None)
    return environment.__module__ != "__main__" and found is environment


class _Door:
    """Opens a pool when it is first needed, and drains it when the application ends."""

    def __init__(self, app: Starlette, pool: Pool, settings: ServerSettings) -> None:
        self._app = app
        self._pool = pool
        self._settings = settings
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make sure that sessions can be had; try again if the last attempt failed.

        Raises:
            OpenEnvError: They cannot; the class says why.
        """
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        target = self._pool.target.text
        try:
            self._pool.start()
            await self._pool.open()
        except ConfigError as exc:
            raise import_failed(target, exc.message) from exc
        except OpenEnvError:
            raise
        except (Exception, SystemExit) as exc:
            raise import_failed(target, traceback.format_exc()) from exc
        self._app.state.phase = "ready"

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Be open as long as the application lives."""
        await self.open()
        try:
            yield
        finally:
            app.state.phase = "draining"
            await self._pool.drain(self._settings.drain_timeout)


class _Opening:
    """Opens the door for applications whose lifespan nobody runs, as mounted ones."""

    def __init__(self, app: ASGIApp, door: _Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        try:
            if scope["type"] != "lifespan":
                await self._door.open()
        except OpenEnvError as exc:
            _LOG.error("%s", exc.message)
            if scope["type"] != "http":
                raise
            app = failure(for_agents(exc))  # nobody has looked yet at who asks
        await app(scope, receive, send)


def _failed(opening: asyncio.Task[None]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
