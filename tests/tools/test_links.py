from __future__ import annotations

import ast
import re
import socket
import sys
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import Client

from openenv_gym.errors import ConfigError, ServerConnectionError, ToolFailedError
from openenv_gym.tools import ToolTable, links, mount
from openenv_gym.tools.links import Link
from openenv_gym.tools.mounting import Mount
from openenv_gym.tools.results import ToolResult

from .mcpservers import build

_TOKEN = "Bearer letmein"


@contextmanager
def _serving(sock: socket.socket) -> Iterator[None]:
    """Serve MCP on a listening socket, which stays the caller's."""
    app = _guarded(build().streamable_http_app())
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock.dup()]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()


def _guarded(app: Any) -> Any:
    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"authorization", _TOKEN.encode()) not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guard


@pytest.fixture
def address() -> Iterator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock, f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"


def test_f096_a_server_that_forgot_the_session_is_asked_once_more(address: tuple[socket.socket, str]) -> None:
    sock, url = address
    table = ToolTable(mounted=[mount(url, "far_", headers={"Authorization": _TOKEN})])
    try:
        with _serving(sock):
            assert table.call("far_tally") == {"count": 1}
            assert table.call("far_tally") == {"count": 2}
        with _serving(sock):
            again = table.call("far_tally")
            assert isinstance(again, ToolResult)
            assert again.data == {"count": 1}  # executed once, by the new server
            assert again.meta == {"openenv": {"session_renewed": True}}  # and the loss is not hidden
            assert table.call("far_tally") == {"count": 2}
            table.close()
    finally:
        table.close()


def test_a_server_that_lets_nobody_in_cannot_be_reached(address: tuple[socket.socket, str]) -> None:
    sock, url = address
    table = ToolTable(mounted=[url])
    try:
        with _serving(sock), pytest.raises(ServerConnectionError, match="cannot be reached"):
            table.list()
    finally:
        table.close()


def test_f098_of_the_clients_public_names_alone_are_used() -> None:
    tree = ast.parse(Path(links.__file__).read_text(encoding="utf-8"))
    private = [
        f"line {node.lineno}: {node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr)
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 0
        for name in [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        if name.startswith("_") and name != "__future__"
    ]
    assert private == [] and imported == []


def test_servers_of_fastmcp_are_spoken_to_by_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    class FastMCP:
        """Stands for a server of the other library, and for the client that it brings."""

        def __init__(self, server: Any = None) -> None:
            self._client = Client(build(), mode="legacy")

        async def __aenter__(self) -> Any:
            await self._client.__aenter__()
            return self

        async def __aexit__(self, *what: Any) -> None:
            await self._client.__aexit__(*what)

        async def list_tools(self) -> list[Any]:
            return list((await self._client.list_tools()).tools)

        async def call_tool_mcp(self, name: str, arguments: dict[str, Any]) -> Any:
            return await self._client.call_tool(name, arguments)

    FastMCP.__module__ = "fastmcp.server"
    module = types.ModuleType("fastmcp")
    module.Client = FastMCP  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastmcp", module)
    table = ToolTable(mounted=[mount(FastMCP(), "f_")])
    try:
        assert "f_add" in {tool.name for tool in table.list()}
        assert table.call("f_add", {"a": 1, "b": 2}) == 3
        with pytest.raises(ToolFailedError, match="broken on purpose"):
            table.call("f_fail")
    finally:
        table.close()


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    table = ToolTable(mounted=[["python"]])
    try:
        with pytest.raises(ConfigError, match=r"pip install 'openenv-gym\[mcp\]'"):
            table.list()
    finally:
        table.close()


def test_a_link_does_nothing_before_it_is_asked() -> None:
    assert Link(Mount(["/nonexistent/program"])).mount.shown == "/nonexistent/program"
