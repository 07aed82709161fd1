"""A session with one MCP server, by the official client, on the loop of :mod:`.mounted`.

A session that is gone is begun anew by the next call. A call that the server refused because it does not know
the session (HTTP 404) was not executed, so it is repeated once in a new one; every other call that broke off
may have been executed, and is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from ..errors import ConfigError, OpenEnvError, ServerConnectionError, ToolFailedError, ToolTimeoutError
from ..models import Tool
from .mounting import Mount
from .results import ToolResult

__all__ = ["Link"]

_LOG = logging.getLogger("openenv_gym.tools")
_MAX_PAGES = 1000
_CONNECT = 30.0
_CLOSE = 5.0


class Link:
    """A session with one server.

    Args:
        mount: The server.
    """

    def __init__(self, mount: Mount) -> None:
        self.mount = mount
        self._client: Any = None
        self._tools: list[Tool] | None = None
        self._changes = 0
        self._holder: asyncio.Task[None] | None = None
        self._holders: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._sessions = 0

    async def tools(self) -> list[Tool]:
        """Return the server's tools, under the names they have here.

        A server that promises to tell when they change is asked again only then.
        """
        if self._tools is not None and self._holder is not None and not self._holder.done():
            return self._tools
        self._tools, changes = None, self._changes
        listed: list[Any] = await self._asking(self._list)
        tools = [_tool(self.mount.prefix, tool.model_dump(by_alias=True, mode="json")) for tool in listed]
        if self._tells() and changes == self._changes:
            self._tools = tools
        return tools

    async def call(self, name: str, arguments: dict[str, Any], timeout: float | None) -> Any:
        """Call a tool of the server by the name it has there, and return its result.

        Raises:
            ToolFailedError: The server says that it failed.
            ToolTimeoutError: It did not answer in time; the server was told.
            ServerConnectionError: The server is gone; whether the call was executed is unknown.
        """
        here = self.mount.prefix + name
        limit = asyncio.timeout(timeout)
        before = self._sessions
        try:
            async with limit:
                result = await self._asking(lambda client: _call(client, name, arguments))
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolTimeoutError(
                f"tool {here!r} of {self.mount.shown} did not return within {timeout:g} s; give it more with "
                "mount(..., timeout=...) or the call's timeout",
                tool=here,
                timeout=timeout,
            ) from None
        shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if shown.get("isError"):
            text = " ".join(part.get("text", "") for part in shown["content"]).strip()
            raise ToolFailedError(f"tool {here!r} failed: {text}", tool=here)
        return _value(shown, renewed=before > 0 and self._sessions > before)

    async def close(self) -> None:
        """End the session."""
        self._forget()
        if self._holders:
            _, late = await asyncio.wait(self._holders, timeout=_CLOSE)
            for holder in late:
                holder.cancel()
            if late:
                await asyncio.wait(late, timeout=_CLOSE)

    # -- inside

    async def _asking(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        client = await self._connected()
        try:
            return await self._once(ask, client)
        except _UnknownSessionError:
            _LOG.warning("%s does not know the session any more; a new one begins", self.mount.shown)
        self._forget()
        try:
            return await self._once(ask, await self._connected())
        except _UnknownSessionError as exc:
            self._forget()
            raise self._lost(exc) from exc

    async def _once(self, ask: Callable[[Any], Awaitable[Any]], client: Any) -> Any:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        refusal = _Refusal()
        _REFUSAL.set(refusal)
        try:
            return await ask(client)
        except MCPError as exc:
            if refusal.came:
                raise _UnknownSessionError(exc.message) from exc
            if exc.code == CONNECTION_CLOSED:
                self._forget()
                raise self._lost(exc) from exc
            raise ToolFailedError(f"{self.mount.shown} answered: {exc.message}") from exc
        except (RuntimeError, ValueError) as exc:  # what came does not fit its schema
            raise ToolFailedError(f"{self.mount.shown} answered what MCP does not allow: {exc}") from exc
        except TimeoutError:
            raise
        except Exception as exc:
            self._forget()
            raise self._lost(exc) from exc

    async def _list(self, client: Any) -> list[Any]:
        if _is_fastmcp(client):
            return list(await client.list_tools())
        tools: list[Any] = []
        cursor = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return tools

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._holder is not None and self._holder.done():
                self._client = self._holder = None
            if self._client is None:
                ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._stop = asyncio.Event()
                self._holder = asyncio.create_task(self._hold(ready, self._stop))
                self._holders.add(self._holder)
                self._holder.add_done_callback(self._holders.discard)
                try:
                    self._client = await ready
                except asyncio.CancelledError:
                    self._holder.cancel()
                    raise
                self._sessions += 1
            return self._client

    def _forget(self) -> None:
        self._client = self._tools = None
        self._stop.set()

    def _tells(self) -> bool:
        """Return whether the server says when its tools change; revisions without sessions cannot."""
        if self._client is None or _is_fastmcp(self._client) or self.mount.mode != "legacy":
            return False
        tools = self._client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    async def _notice(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._tools = None
            self._changes += 1

    async def _hold(self, ready: asyncio.Future[Any], stop: asyncio.Event) -> None:
        """Keep the client open. One task enters and leaves it, as its cancel scopes want."""
        try:
            async with self._session() as client:
                if not ready.cancelled():
                    ready.set_result(client)
                    await stop.wait()
        except Exception as exc:
            if ready.done():
                _LOG.info("%s: the session ended: %r", self.mount.shown, exc)
            else:
                ready.set_exception(exc if isinstance(exc, OpenEnvError) else self._lost(exc))

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        _need_mcp()
        async with contextlib.AsyncExitStack() as stack:
            yield await stack.enter_async_context(await self._opened(stack))

    async def _opened(self, stack: contextlib.AsyncExitStack) -> Any:
        from mcp import Client, StdioServerParameters, stdio_client

        mount, server = self.mount, self.mount.server
        if type(server).__module__.partition(".")[0] == "fastmcp":
            from fastmcp import Client as FastClient

            return FastClient(server)
        if isinstance(server, str):
            server = await self._transport(stack)
        elif isinstance(server, list | tuple):
            env = dict(mount.env) if mount.env else None
            command, *args = server
            server = stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=mount.cwd))
        return Client(server, mode=mount.mode, cache=None, message_handler=self._notice)

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async def look(response: Any) -> None:
            refusal = _REFUSAL.get()
            if refusal is not None and response.request.method == "POST":
                refusal.came |= response.status_code == 404

        http = httpx2.AsyncClient(
            headers=dict(self.mount.headers),
            timeout=httpx2.Timeout(_CONNECT, read=None),  # calls have deadlines of their own
            event_hooks={"response": [look]},
        )
        await stack.enter_async_context(http)
        return streamable_http_client(self.mount.server, http_client=http)

    def _lost(self, exc: BaseException) -> ServerConnectionError:
        return ServerConnectionError(
            f"the MCP server {self.mount.shown} cannot be reached ({_reason(exc)}); the next call tries again"
        )


class _Refusal:
    """Whether the server answered a request with 404; only then is it repeated."""

    came = False


#: Of the request that is being sent: the client sends each in the context of who asked.
_REFUSAL: ContextVar[_Refusal | None] = ContextVar("refusal", default=None)


class _UnknownSessionError(Exception):
    """The server does not know the session, so it executed nothing."""


def _need_mcp() -> None:
    try:
        import mcp

        mcp.Client  # noqa: B018
    except (ImportError, AttributeError):
        raise ConfigError(
            "mounted MCP servers need the mcp package, version 2 or newer: pip install 'openenv-gym[mcp]'"
        ) from None


def _is_fastmcp(client: Any) -> bool:
    return type(client).__module__.partition(".")[0] == "fastmcp"


async def _call(client: Any, name: str, arguments: dict[str, Any]) -> Any:
    if _is_fastmcp(client):
        return await client.call_tool_mcp(name, arguments)
    return await client.call_tool(name, arguments)


def _tool(prefix: str, shown: dict[str, Any]) -> Tool:
    return Tool(
        name=prefix + shown["name"],
        description=shown.get("description") or "",
        input_schema=shown.get("inputSchema") or {"type": "object"},
        output_schema=shown.get("outputSchema"),
    )


def _value(shown: dict[str, Any], *, renewed: bool) -> Any:
    """Return a result as a value; with the rest of it where there is more than text."""
    content, structured = shown.get("content", []), shown.get("structuredContent")
    texts = [block["text"] for block in content if block.keys() == {"type", "text"}]
    if structured is None:
        data = "\n".join(texts) if texts else None
    else:
        data = structured["result"] if structured.keys() == {"result"} else structured
    if len(texts) == len(content) and (structured is not None or len(texts) < 2) and not renewed:
        return data
    meta = {"openenv": {"session_renewed": True}} if renewed else shown.get("_meta")
    return ToolResult(content=content, structured_content=structured, data=data, meta=meta)


def _reason(exc: BaseException) -> str:
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
