"""Who can reach a server that was started without a thought: this machine alone, and no page of a browser."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import AuthenticationError
from openenv_gym.protocol.messages import SUBPROTOCOL
from tests.support.serverproc import ROOT, ServerProcess, eventually, serving

_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": SUBPROTOCOL,
}
_LISTENS = "0A"
_LOOPBACK = "0100007F"


@pytest.fixture(scope="module", params=["on", "off"], ids=["handover", "pumped"])
def local(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Return a server with no option that says who may use it."""
    log = tmp_path_factory.mktemp("s") / "log"
    with serving("echo", "--workers", "1", "--handover", request.param, log=log) as server:
        yield server


def _answer(server: ServerProcess, path: str = "/ws", **headers: str) -> tuple[int, bytes]:
    """Return status and body of the answer to a handshake, or to a plain request elsewhere."""
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = server.dial()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("GET", path, headers=(_UPGRADE if path == "/ws" else {}) | named)
        response = connection.getresponse()
        return response.status, b"" if response.status == 101 else response.read()
    finally:
        connection.close()


def _open_files(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to, without those that are closed meanwhile."""
    found = []
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(file))
    return found


def _listeners(server: ServerProcess) -> list[str]:
    """Return the addresses, as the kernel writes them, on which any process of the server listens."""
    inodes = set()
    for pid in server.family():
        for name in _open_files(pid):
            inodes.update(re.findall(r"socket:\[(\d+)\]", name))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1].partition(":")[0] for row in rows if row[3] == _LISTENS and row[9] in inodes]


def test_f084_a_server_listens_on_loopback_unless_told_otherwise(local: ServerProcess) -> None:
    assert _listeners(local) == [_LOOPBACK]
    assert _answer(local)[0] == 101


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost.evil.example", "null"])
@pytest.mark.parametrize("path", ["/ws", "/metadata"])
def test_f084_a_page_gets_nothing(origin: str, path: str, local: ServerProcess) -> None:
    status, body = _answer(local, path, Origin=origin)
    assert status == 403
    assert b"--allowed-origins" in body


def test_f084_a_page_whose_name_was_pointed_here_gets_no_session(local: ServerProcess) -> None:
    status, body = _answer(local, Host="evil.example:8000", Origin="http://evil.example:8000")
    assert status == 403
    assert b"http://evil.example:8000" in body


def test_f084_a_page_that_is_listed_gets_in(tmp_path: Path) -> None:
    options = ("--workers", "0", "--allowed-origins", "https://lab.example")
    with serving("echo", *options, log=tmp_path / "log") as server:
        assert _answer(server, Origin="https://lab.example")[0] == 101
        assert _answer(server, Origin="https://evil.example")[0] == 403


def test_f084_a_reachable_address_needs_a_decision() -> None:
    command = [sys.executable, "-m", "openenv_gym.serve", "echo", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--token" in done.stderr
    assert "--insecure" in done.stderr


@pytest.mark.parametrize("handover", ["on", "off"])
def test_f084_with_a_token_only_who_has_it_gets_in(handover: str, tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--token", "s3cret", "--workers", "0", "--handover", handover)
    with serving("echo", *options, log=tmp_path / "log") as server:
        for headers in ({}, {"Authorization": "Bearer s3cre"}):
            for path in ("/ws", "/metadata"):
                status, body = _answer(server, path, **headers)
                assert status == 401
                assert b"s3cret" not in body
        assert _answer(server, Authorization="Bearer s3cret")[0] == 101
        with pytest.raises(AuthenticationError):
            RemoteEnv(base_url=server.url)
        env = RemoteEnv(base_url=server.url, token="s3cret")
        env.reset()
        assert env.step("hello")[0] == "hello"
        env.close()
        assert "s3cret" not in server.log()


def test_f084_without_one_the_server_says_what_that_means(tmp_path: Path) -> None:
    with serving("echo", "--host", "0.0.0.0", "--insecure", "--workers", "0", log=tmp_path / "log") as server:
        assert eventually(lambda: "anyone who reaches 0.0.0.0 may use this server" in server.log())
        assert _answer(server)[0] == 101
