from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from openenv_gym.errors import ServerConnectionError
from openenv_gym.tools import ToolTable, mount
from openenv_gym.tools.links import Link
from openenv_gym.tools.mounting import Mount
from openenv_gym.tools.results import ToolResult

from .servers import build

_TOKEN = "Bearer letmein"


@contextmanager
def _serving(sock: socket.socket) -> Iterator[None]:
    """Serve MCP on a listening socket, which stays the caller's."""
    app = _guarded(build().streamable_http_app())
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
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


def test_a_link_does_nothing_before_it_is_asked() -> None:
    assert Link(Mount(["/nonexistent/program"])).mount.shown == "/nonexistent/program"
