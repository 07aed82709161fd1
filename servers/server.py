"""A server on an event loop: uvicorn for HTTP, the pool for sessions, and how they start and end together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import uvicorn
import uvicorn.server

from .app import create_app
from .arrivals import Arrivals
from .listening import Listening
from .patience import http_protocol
from .pool import Pool
from .settings import ServerSettings
from .takeover import TakeoverProtocol
from .targets import Target

__all__ = ["Server", "StopRequest", "run_loop"]

_LOG = logging.getLogger("openenv_gym.server")
_OWNER_GONE_DRAIN = 1.0
"""Seconds for running calls when nobody is left who waits for them."""


class StopRequest:
    """Asks a server to stop, from a signal handler or any thread; a second time: at once."""

    def __init__(self) -> None:
        self.count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None

    def __call__(self) -> None:
        """Ask once more."""
        self.count += 1
        loop, changed = self._loop, self._changed
        if loop is not None and changed is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, as was asked for
                loop.call_soon_threadsafe(changed.set)

    async def wait(self, count: int) -> None:
        """Return once the server was asked ``count`` times."""
        if self._changed is None:
            self._changed = asyncio.Event()
            self._loop = asyncio.get_running_loop()
        while self.count < count:
            self._changed.clear()
            if self.count < count:
                await self._changed.wait()


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers: they would cut every session."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """A server, from its bound sockets to its last worker's end.

    Args:
        settings: Its settings.
        target: What it serves.
        listening: Its sockets; closed when it ends.
        pool: Its sessions, started.
    """

    def __init__(self, settings: ServerSettings, target: Target, listening: Listening, pool: Pool) -> None:
        self._settings = settings
        self._listening = listening
        self._pool = pool
        self._app = create_app(pool, settings, target)
        self._arrivals = Arrivals(pool, settings)
        self._app.state.arrivals = self._arrivals
        self._uvicorn = _Uvicorn(self._config())

    async def serve(self, stop: StopRequest, ready: Callable[[str], None]) -> None:
        """Serve until asked to stop.

        Args:
            stop: Ends it.
            ready: Told the base URL once sessions can be had.

        Raises:
            OpenEnvError: It could not start.
        """
        drain = self._settings.drain_timeout
        http = asyncio.create_task(self._uvicorn.serve(self._listening.sockets))
        with self._owner(stop) as owner_gone:
            try:
                await self._accepting(http)
                if await _unless(self._pool.open(), stop.wait(1), http):
                    self._app.state.phase = "ready"
                    ready(self._listening.base_url)
                    await _unless(self._idle(), stop.wait(1), http)
            finally:
                self._app.state.phase = "draining"
                self._refuse()
                quick = min(drain, _OWNER_GONE_DRAIN) if owner_gone.is_set() else drain
                await self._end(stop, quick, http)

    async def _accepting(self, http: asyncio.Task[None]) -> None:
        """Wait until uvicorn has taken the sockets over: before that it cannot be told to let go of them."""
        while not self._uvicorn.started and not http.done():
            await asyncio.sleep(0.001)

    def _config(self) -> uvicorn.Config:
        settings = self._settings
        return uvicorn.Config(
            self._app,
            http=TakeoverProtocol if settings.handover else http_protocol(),
            ws="websockets-sansio",
            ws_max_size=settings.max_message_size,
            ws_ping_interval=settings.keepalive,
            # A client computes between two steps for as long as it likes, and answers no ping meanwhile.
            ws_ping_timeout=None,
            ws_per_message_deflate=settings.compression == "deflate",
            lifespan="off",
            log_config=None,
            # At DEBUG it logs all headers, the token among them, into the log of whose program this may be.
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )

    async def _idle(self) -> None:
        """Return when there was no session for ``exit_when_idle`` seconds."""
        limit = self._settings.exit_when_idle
        if limit is None:
            await asyncio.Event().wait()
            return
        ready = time.monotonic()
        while True:
            since = self._pool.idle_since()
            left = limit if since is None else max(since, ready) + limit - time.monotonic()
            if left <= 0:
                _LOG.info("no session for %g s (--exit-when-idle): exiting", limit)
                return
            await asyncio.sleep(max(left, 0.01))

    @contextlib.contextmanager
    def _owner(self, stop: StopRequest) -> Iterator[asyncio.Event]:
        """Watch the owner, if there is one; the event says that it has gone."""
        gone = asyncio.Event()
        fd = self._settings.owner_fd
        if fd is None:
            yield gone
            return
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.remove_reader(fd)
            _LOG.info("the process that owns this server has ended: exiting")
            gone.set()
            stop()

        loop.add_reader(fd, end)
        try:
            yield gone
        finally:
            loop.remove_reader(fd)

    def _refuse(self) -> None:
        """Accept no more connections."""
        for server in getattr(self._uvicorn, "servers", ()):
            server.close()
        self._listening.close()

    async def _end(self, stop: StopRequest, timeout: float, http: asyncio.Task[None]) -> None:
        draining = asyncio.create_task(self._pool.drain(timeout))
        if not await _unless(draining, stop.wait(2)):
            _LOG.warning("asked to stop again: running calls are cut")
            draining.cancel()
            await asyncio.wait([draining])
            await self._pool.drain(0.0)
        self._uvicorn.should_exit = True
        await http


async def _unless(work: Awaitable[Any], *others: Awaitable[Any]) -> bool:
    """Wait for ``work``, or for one of ``others``; return whether it was ``work``. The rest is cancelled.

    Tasks among ``others`` are left running unless they have failed, which is raised here.
    """
    kept = {item for item in (work, *others) if isinstance(item, asyncio.Task)}
    tasks = [asyncio.ensure_future(item) for item in (work, *others)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            if task not in kept and not task.done():
                task.cancel()
        await asyncio.wait([task for task in tasks if task not in kept or task.done()])
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
    return tasks[0].done() and not tasks[0].cancelled()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` on a new event loop: uvloop's where it is installed."""
    factory = uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)
