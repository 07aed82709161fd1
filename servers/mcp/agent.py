"""The conversation with one agent in standard MCP (https://modelcontextprotocol.io, revision 2025-06-18).

An agent lists and calls tools. It never resets, steps, or sees a reward. The protocol's revisions without
sessions (from 2026-07-28 on) are not offered: an environment is its episode. Clients that try them first fall
back to the handshake.
"""

from __future__ import annotations

from typing import Any

import openenv_gym
from openenv_gym.errors import OpenEnvError, ToolNotFoundError, ValidationError

from ..openenv.sessions import Held
from .rpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, from_error

__all__ = ["LATEST", "VERSIONS", "Agent"]

LATEST = "2025-11-25"
VERSIONS = (LATEST, "2025-06-18", "2025-03-26", "2024-11-05")
_PAGE = 100


class Agent:
    """One session of MCP.

    Args:
        held: The session of the environment; it belongs to the agent alone.
        version: The revision of the protocol that was agreed on.

    Attributes:
        changed: The list of tools has changed and the agent was not told yet.
    """

    def __init__(self, held: Held, version: str) -> None:
        self.held = held
        self.version = version
        self.changed = False
        self._listed: list[Any] | None = None

    @staticmethod
    def agreed(params: dict[str, Any]) -> str:
        """Return the revision to speak with a client that asks for ``params["protocolVersion"]``."""
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise RpcError(INVALID_PARAMS, "initialize: 'protocolVersion' is missing")
        return asked if asked in VERSIONS else LATEST

    async def welcome(self) -> dict[str, Any]:
        """Begin the episode, and return the result of ``initialize``."""
        await self.held.peer.reset()
        about = await self.held.peer.ask("metadata")
        info = {"name": about["name"], "version": about.get("version") or openenv_gym.__version__}
        result = {
            "protocolVersion": self.version,
            "capabilities": {"tools": {"listChanged": True}} if self.held.peer.has_tools else {},
            "serverInfo": info,
        }
        return {**result, "instructions": about["description"]} if about.get("description") else result

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            RpcError: There is none.
        """
        match method:
            case "ping":
                return {}
            case "tools/list" if self.held.peer.has_tools:
                return await self._list(params.get("cursor"))
            case "tools/call" if self.held.peer.has_tools:
                return await self._call(params)
        raise RpcError(METHOD_NOT_FOUND, f"this server has no {method!r}")

    async def _list(self, cursor: Any) -> dict[str, Any]:
        start = _position(cursor)
        try:
            tools = await self.held.peer.ask("tools/list")
        except OpenEnvError as exc:
            raise from_error(exc) from exc
        self._listed, self.changed = tools, False
        page = {"tools": [_tool(tool) for tool in tools[start : start + _PAGE]]}
        return page if start + _PAGE >= len(tools) else {**page, "nextCursor": str(start + _PAGE)}

    async def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise RpcError(INVALID_PARAMS, "tools/call: 'name' is a string and 'arguments' an object")
        try:
            form = await self.held.peer.ask("tools/call", {"name": name, "arguments": arguments or {}})
        except ToolNotFoundError as exc:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}", exc.message) from None
        except ValidationError as exc:  # for the model to mend, so it must see it
            return {"content": [{"type": "text", "text": exc.message}], "isError": True}
        except OpenEnvError as exc:
            raise from_error(exc) from exc
        return _result(form)

    async def look(self) -> None:
        """Find out whether the call that was just made changed the list of tools that the agent knows."""
        if self._listed is None or self.held.peer.ended.done():
            return
        try:
            tools = await self.held.peer.ask("tools/list")
        except OpenEnvError:  # its next list says why
            return
        if tools != self._listed:
            self._listed, self.changed = tools, True


def _position(cursor: Any) -> int:
    if cursor is None:
        return 0
    if not (isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise RpcError(INVALID_PARAMS, f"tools/list: {str(cursor)[:80]!r} is no cursor of this server")
    return int(cursor)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
    return shown if tool["output_schema"] is None else {**shown, "outputSchema": tool["output_schema"]}


def _result(form: dict[str, Any]) -> dict[str, Any]:
    result = {"content": form["content"], "isError": form["is_error"]}
    if form["structured_content"] is not None:
        result["structuredContent"] = form["structured_content"]
    if form["meta"] is not None:
        result["_meta"] = form["meta"]
    return result
