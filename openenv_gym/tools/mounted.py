"""The tools of MCP servers that an environment mounts.

The sessions with them live on an event loop in a thread of their own, which begins with the first use: a tool
may be called from the environment's thread, with or without a loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from ..errors import ToolNotFoundError, ToolTimeoutError
from ..models import Tool
from .links import Link
from .mounting import as_mount

__all__ = ["MountedServers"]

_CLOSE = 15.0


class MountedServers:
    """Sessions with several servers, and which of their tools is where.

    Args:
        servers: What :func:`mount` returns, or takes.
        timeout: How long listing, and a call, may take unless something else is said, in seconds.

    Raises:
        ConfigError: One of them is no server.
    """

    def __init__(self, servers: Sequence[Any], timeout: float | None) -> None:
        self._links = [Link(as_mount(server)) for server in servers]
        self._timeout = timeout
        self._places: dict[str, Link] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def tools(self) -> list[Tool]:
        """Return their tools as they are now.

        Raises:
            ServerConnectionError: A server cannot be reached.
            ToolTimeoutError: One did not answer in time.
        """
        tools: list[Tool] = self._submit(self._list(self._timeout)).result()
        return tools

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        """Call a tool and return its result; see :meth:`ToolTable.start`."""
        return await asyncio.wrap_future(self._submit(self._call(name, dict(arguments), timeout)))

    def close(self) -> None:
        """End every session, and the loop."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close(), loop).result(_CLOSE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE)
        loop.close()

    # -- on the loop

    async def _list(self, timeout: float | None) -> list[Tool]:
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                lists = [await link.tools() for link in self._links]
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolTimeoutError(
                f"the mounted MCP servers did not list their tools within {timeout:g} s",
                timeout=timeout,
            ) from None
        self._places = {
            tool.name: link for link, tools in zip(self._links, lists, strict=True) for tool in tools
        }
        return [tool for tools in lists for tool in tools]

    async def _find(self, name: str, timeout: float | None) -> Link | None:
        if name not in self._places:
            await self._list(self._timeout if timeout is None else timeout)
        return self._places.get(name)

    async def _call(self, name: str, arguments: dict[str, Any], timeout: float | None) -> Any:
        link = await self._find(name, timeout)
        if link is None:
            names = sorted(self._places)
            raise ToolNotFoundError(
                f"there is no tool {name!r}; mounted servers have: {', '.join(names) or 'none'}",
                tool=name,
                tools=names,
            )
        for limit in (timeout, link.mount.timeout, self._timeout):
            if limit is not None:
                break
        return await link.call(name.removeprefix(link.mount.prefix), arguments, limit)

    async def _close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links), return_exceptions=True)

    # -- the thread

    def _submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="openenv-mounted", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)
