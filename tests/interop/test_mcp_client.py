"""The official client of MCP against a server of ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.serverproc import ServerProcess, serving

from .venvs import interpreter

AGENT = Path(__file__).with_name("mcp_agent.py")
#: The newest with which this was tried.
PACKAGES = ("mcp==2.3.0",)

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter("MCP_VENV", PACKAGES, tmp_path_factory.mktemp("mcp") / "venv")


def _play(python: Path, server: ServerProcess, mode: str) -> dict[str, Any]:
    """Run the agent; in its middle the server is killed and started again at the same address."""
    url = server.url.replace("ws://", "http://") + "/mcp"
    with subprocess.Popen(
        [str(python), str(AGENT), url, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdin is not None and agent.stdout is not None and agent.stderr is not None
        try:
            line = agent.stdout.readline()
            assert line == "restart\n", line + agent.stderr.read()
            server.stop()
            server.start()
            out, err = agent.communicate("go\n", 120.0)
        finally:
            agent.kill()
    assert agent.returncode == 0, err
    seen: dict[str, Any] = json.loads(out.splitlines()[-1])
    return seen


def _text(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_it_lists_calls_hears_and_recovers(python: Path, mode: str) -> None:
    with serving("tests.interop.bench:Bench", "--workers", "1") as server:
        seen = _play(python, server, mode)
    assert seen["version"] == "2025-11-25"
    assert seen["capabilities"] == {"tools": {"list_changed": True}}
    assert seen["tools"] == ["add", "count", "wait", "fail", "picture", "learn"]
    assert seen["add"] == {"content": _text("3"), "structuredContent": {"result": 3}, "isError": False}
    assert [call["structuredContent"] for call in seen["calls"]] == [{"calls": 2}, {"calls": 3}]
    assert seen["picture"]["content"] == [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    assert seen["failed"]["isError"] is True
    assert seen["failed"]["content"] == _text("tool 'fail' raised ValueError: on purpose")
    assert seen["invalid"]["isError"] is True
    assert "$.arguments.a" in seen["invalid"]["content"][0]["text"]
    assert seen["unknown"] == [-32602, "Unknown tool: reset"]
    assert seen["late"] == [-32001, "Request 'tools/call' timed out"]
    assert seen["patient"]["structuredContent"] == {"result": "waited"} and seen["patience"] < 20.0
    assert seen["told"] == "notifications/tools/list_changed"
    assert seen["new_tools"] == ["learned"]
    assert seen["learned"]["structuredContent"] == {"result": "abab"}
    code, message = seen["lost"]
    assert code == -32001 and message.startswith("Session not found: ") and "initialize" in message
    assert seen["again"]["structuredContent"] == {"calls": 1}
