"""An agent on the official client; runs where only the ``mcp`` package is installed.

``mcp_agent.py URL MODE`` prints what it saw as JSON. Between two halves it waits for a line of its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from mcp import Client, MCPError


async def main(url: str, mode: str) -> dict[str, Any]:
    told: asyncio.Queue[str] = asyncio.Queue()
    seen: dict[str, Any] = {}

    async def notice(message: Any) -> None:
        told.put_nowait(getattr(message, "method", type(message).__name__))

    client = Client(url, mode=mode, message_handler=notice)
    await client.__aenter__()
    seen["version"] = client.protocol_version
    seen["capabilities"] = client.server_capabilities.model_dump(exclude_none=True)
    seen["tools"] = await names(client)
    seen["add"] = shown(await client.call_tool("add", {"a": 1, "b": 2}))
    seen["calls"] = [shown(await client.call_tool("count", {})) for _ in range(2)]
    seen["picture"] = shown(await client.call_tool("picture", {}))
    seen["failed"] = shown(await client.call_tool("fail", {"why": "on purpose"}))
    seen["invalid"] = shown(await client.call_tool("add", {"a": "x"}))
    seen["unknown"] = await error(client.call_tool("reset", {}))
    seen["late"] = await error(client.call_tool("wait", {"seconds": 5.0}, read_timeout_seconds=0.3))
    begun = time.monotonic()
    seen["patient"] = shown(await client.call_tool("wait", {"seconds": 1.0}, read_timeout_seconds=30.0))
    seen["patience"] = time.monotonic() - begun
    await client.call_tool("learn", {})
    seen["told"] = await asyncio.wait_for(told.get(), 60.0)
    seen["new_tools"] = sorted(set(await names(client)) - set(seen["tools"]))
    seen["learned"] = shown(await client.call_tool("learned", {"word": "ab"}))
    print("restart", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    seen["lost"] = await error(client.call_tool("add", {"a": 1}))
    await client.__aexit__(None, None, None)
    async with Client(url, mode=mode) as again:
        seen["again"] = shown(await again.call_tool("count", {}))
    return seen


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


def shown(result: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: dumped.get(key) for key in ("content", "structuredContent", "isError")}


async def error(call: Any) -> list[Any]:
    try:
        return ["no error", shown(await call)]
    except MCPError as exc:
        return [exc.code, exc.message]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
