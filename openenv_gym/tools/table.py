"""The tools of an environment: listed, checked, called."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import (
    ConfigError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
    UnsupportedError,
    ValidationError,
)
from ..models import Tool
from .callables import plain_functions
from .marking import Mark, check_name, mark_of, marked
from .mounted import MountedServers
from .signature import Signature

__all__ = ["DEFAULT_TIMEOUT", "ToolTable"]

DEFAULT_TIMEOUT = 30.0
"""Seconds that a call may take when nobody says otherwise."""

_LOG = logging.getLogger("openenv_gym.tools")


class _Entry:
    """A tool that is a function of this process."""

    def __init__(self, function: Callable[..., Any], mark: Mark) -> None:
        self.function = function
        self.timeout = mark.timeout
        self.signature = Signature(function, mark)
        self.tool = Tool(
            name=mark.name,
            description=self.signature.description,
            input_schema=self.signature.input_schema,
            output_schema=self.signature.output_schema,
        )

    def checked(self, result: Any) -> Any:
        """Return a result that is what the signature promises."""
        try:
            self.signature.check(result)
        except ValidationError as exc:
            name = self.tool.name
            raise ToolFailedError(
                f"tool {name!r} returned what its annotation does not allow: {exc.message}; mend the tool, or"
                " annotate it '-> Any'",
                tool=name,
                type=type(result).__name__,
            ) from None
        return result


class ToolTable:
    """Tools by name: decorated methods of an environment or functions, and those of mounted servers.

    Tools that are functions run on the thread that calls them. Coroutine functions and mounted tools give an
    awaitable, which the caller's event loop carries out.

    Args:
        source: An object whose methods carry :func:`tool`, or functions (with or without it).
        mounted: MCP servers whose tools are added; see :func:`mount`.
        timeout: How long a call may take unless the tool or the call says otherwise, in seconds; ``None``:
            without limit.

    Raises:
        ConfigError: Two tools have the same name, or a signature has no JSON Schema.
    """

    def __init__(
        self, source: Any = (), *, mounted: Sequence[Any] = (), timeout: float | None = DEFAULT_TIMEOUT
    ) -> None:
        self.timeout = timeout
        self._entries: dict[str, _Entry] = {}
        self._mounted = MountedServers(mounted, timeout) if mounted else None
        if isinstance(source, Iterable):
            for function in source:
                self.add(function)
        else:
            for attribute, mark in marked(type(source)):
                self._enter(_Entry(getattr(source, attribute), mark))

    def __len__(self) -> int:
        """Return how many functions of this process are tools."""
        return len(self._entries)

    # -- what there is

    def list(self) -> list[Tool]:
        """Return the tools there are now, those of mounted servers last.

        Raises:
            ServerConnectionError: A mounted server cannot be reached.
            ToolTimeoutError: One did not answer in time.
            ConfigError: Two tools have the same name.
        """
        tools = [entry.tool for entry in self._entries.values()]
        if self._mounted is not None:
            tools += self._mounted.tools()
        _check_unique(tools)
        return tools

    def add(self, function: Callable[..., Any]) -> None:
        """Make a function a tool from now on. Agents that listen are told that the list changed.

        Raises:
            ConfigError: Its name is taken or reserved, or its signature has no JSON Schema.
        """
        self._enter(_Entry(function, mark_of(function) or Mark(function.__name__)))

    def remove(self, name: str) -> None:
        """Take a tool away.

        Raises:
            ToolNotFoundError: No function is called so.
        """
        if self._entries.pop(name, None) is None:
            raise self._not_found(name)

    # -- calls

    def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Call a tool. Return its result, or an awaitable of it where it is not a plain function.

        The awaitable keeps the deadline: what overran is cancelled. A plain function cannot be: whoever runs
        it on a thread of its own knows from :meth:`timeout_of` how long to wait.

        Args:
            name: The tool.
            arguments: Its arguments by name.
            timeout: How long it may take, in seconds; default: what the tool says, or the table.

        Raises:
            ToolNotFoundError: There is none of that name.
            ValidationError: The arguments do not fit; ``details["path"]`` names the field.
            ToolFailedError: It raised, or returned what its annotation does not allow.
            ToolTimeoutError: It overran (of an awaitable).
            ServerConnectionError: Its mounted server is gone (of an awaitable).
        """
        entry = self._entries.get(name)
        if entry is None:
            if self._mounted is None:
                raise self._not_found(name)
            return self._mounted.call(name, arguments or {}, timeout)
        bound = entry.signature.bind(arguments or {})
        if inspect.iscoroutinefunction(entry.function):
            return _finish(entry, lambda: entry.function(**bound), self.timeout_of(name, timeout))
        try:
            result = entry.function(**bound)
        except (Exception, SystemExit) as exc:
            raise _failed(name, exc) from exc
        if inspect.isawaitable(result):
            return _finish(entry, lambda: result, self.timeout_of(name, timeout))
        return entry.checked(result)

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> Any:
        """Call a tool and return its result; see :meth:`start`.

        An awaitable is carried out on a new event loop, so this is for threads that run none.

        Raises:
            UnsupportedError: A loop runs in this thread, and the tool is no plain function.
        """
        result = self.start(name, arguments, timeout)
        return _run(name, result) if inspect.isawaitable(result) else result

    def timeout_of(self, name: str, timeout: float | None = None) -> float | None:
        """Return how many seconds a call may take: ``timeout``, else what the tool says, else the table."""
        if timeout is not None:
            return timeout
        entry = self._entries.get(name)
        return entry.timeout if entry is not None and entry.timeout is not None else self.timeout

    def callables(self, call: Callable[[str, dict[str, Any]], Any] | None = None) -> dict[str, Any]:
        """Return the tools as plain functions by name, for code that an agent wrote.

        They take the arguments of the tools, positional or by name, have their docstrings, raise the errors
        of :meth:`start`, and return JSON types. Neither a function nor what it raises leads to the
        environment. That holds against attributes, closures and tracebacks; code in the same process can
        still find every object by the garbage collector. Code that nobody vouches for belongs into another
        process, with ``call`` passing name and arguments over.

        Args:
            call: Carries out a call, given name and arguments; default: :meth:`call`.
        """
        return plain_functions(self.list(), call or self.call)

    def close(self) -> None:
        """End the sessions with mounted servers, and the processes that were started for them."""
        if self._mounted is not None:
            self._mounted.close()

    def _enter(self, entry: _Entry) -> None:
        name = entry.tool.name
        check_name(name)
        if name in self._entries:
            raise ConfigError(f"there is a tool {name!r} already; rename one")
        self._entries[name] = entry

    def _not_found(self, name: str) -> ToolNotFoundError:
        names = sorted(self._entries)
        return ToolNotFoundError(
            f"there is no tool {name!r}; there are: {', '.join(names) or 'none'}", tool=name, tools=names
        )


def _check_unique(tools: Iterable[Tool]) -> None:
    names = set()
    for tool in tools:
        check_name(tool.name)
        if tool.name in names:
            raise ConfigError(f"two tools are called {tool.name!r}; mount one of their servers with a prefix")
        names.add(tool.name)


async def _finish(entry: _Entry, begin: Callable[[], Awaitable[Any]], timeout: float | None) -> Any:
    name, limit = entry.tool.name, asyncio.timeout(timeout)
    try:
        async with limit:
            result = await begin()
    except (Exception, SystemExit) as exc:
        if limit.expired():
            raise ToolTimeoutError(
                f"tool {name!r} did not return within {timeout:g} s; give it more with @tool(timeout=...), "
                "the environment's tool_timeout, or the call's timeout",
                tool=name,
                timeout=timeout,
            ) from None
        raise _failed(name, exc) from exc
    return entry.checked(result)


def _run(name: str, result: Awaitable[Any]) -> Any:
    async def whole() -> Any:
        return await result

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole())
    if inspect.iscoroutine(result):
        result.close()
    raise UnsupportedError(
        f"tool {name!r} is a coroutine and a loop runs in this thread: await start({name!r}, ...)"
    )


def _failed(name: str, exc: BaseException) -> ToolFailedError:
    _LOG.info("tool %r raised", name, exc_info=exc)
    text = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return ToolFailedError(f"tool {name!r} raised {text}", tool=name, type=type(exc).__name__)
