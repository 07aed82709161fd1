"""How an MCP server is named whose tools an environment takes over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError

__all__ = ["Mount", "as_mount", "mount"]


@dataclass(frozen=True)
class Mount:
    """An MCP server and how its tools appear; made by :func:`mount`."""

    server: Any
    prefix: str = ""
    timeout: float | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mode: str = "legacy"

    @property
    def shown(self) -> str:
        """What messages call it."""
        server = self.server
        if isinstance(server, str):
            return server.partition("?")[0]
        if isinstance(server, list | tuple):
            return str(server[0])
        return f"the {type(server).__name__}"


def mount(
    server: Any,
    prefix: str = "",
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    mode: str = "legacy",
) -> Mount:
    """Name an MCP server whose tools an environment takes over: ``tools = (mount(server, "files_"),)``.

    It needs the ``mcp`` package (``pip install 'openenv-gym[mcp]'``). Each environment object has a session
    of its own with the server, begun when its tools are first listed or called, and ended by ``close()``.

    Args:
        server: A server object of the ``mcp`` package (``MCPServer``, ``Server``) or of ``fastmcp``
            (``FastMCP``), run in this process; a command as a list of str, spoken to over stdin and stdout;
            the URL of a server that speaks streamable HTTP.
        prefix: What its tools' names begin with here, so that several servers go together.
        timeout: How long a call may take, in seconds; default: the environment's ``tool_timeout``.
        env: More environment variables of the command.
        cwd: The folder it runs in.
        headers: HTTP headers for the URL, such as ``{"Authorization": "Bearer ..."}``.
        mode: How the ``mcp`` package negotiates: ``"legacy"`` is the handshake that begins a session, which
            servers with state need; ``"auto"`` tries revisions without sessions first.

    Raises:
        ConfigError: This is no server.
    """
    found = as_mount(server)
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"mount: timeout={timeout} must be positive seconds")
    if headers and not isinstance(server, str):
        raise ConfigError("mount: headers go with a URL")
    if (env or cwd) and not isinstance(server, list | tuple):
        raise ConfigError("mount: env and cwd go with a command")
    return Mount(found.server, prefix, timeout, env, cwd, dict(headers or {}), mode)


def as_mount(server: Any) -> Mount:
    """Return ``server`` as a mount, if it can be one."""
    if isinstance(server, Mount):
        return server
    if isinstance(server, str):
        if not server.startswith(("http://", "https://")):
            raise ConfigError(
                f"{server!r} is no MCP server: a remote one is a URL with http:// or https://, a command a "
                "list such as ['python', 'server.py']"
            )
    elif isinstance(server, Sequence):
        if not server or not all(isinstance(part, str) for part in server):
            raise ConfigError(f"{server!r} is no command: give a list of str, the program first")
    elif type(server).__module__.partition(".")[0] not in ("mcp", "fastmcp"):
        raise ConfigError(
            f"{type(server).__name__} is no MCP server: give a server object of mcp or fastmcp, a command as "
            "a list, or a URL"
        )
    return Mount(server)
