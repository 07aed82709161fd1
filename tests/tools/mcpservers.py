"""MCP servers for the tests of mounted tools; ``python mcpservers.py`` speaks over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError


def build(name: str = "bench") -> MCPServer:
    server = MCPServer(name)
    count = 0

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def tally() -> dict[str, int]:
        nonlocal count
        count += 1
        return {"count": count}

    @server.tool()
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool()
    def fail() -> None:
        raise ToolError("broken on purpose")

    @server.tool()
    def leave() -> None:
        os._exit(3)

    @server.tool()
    def grow() -> str:
        server.add_tool(_grown, name="grown")
        return "grown"

    @server.tool()
    def two_texts() -> Any:
        from mcp.types import TextContent

        return [TextContent(type="text", text="one"), TextContent(type="text", text="two")]

    return server


def _grown() -> str:
    return "new"


if __name__ == "__main__":
    build().run("stdio")
