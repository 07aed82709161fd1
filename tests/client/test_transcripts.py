"""Our clients say what the openenv package's clients said, and understand what its server answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from openenv_gym.client import GenericEnvClient, MCPToolClient
from openenv_gym.errors import (
    CapacityError,
    ConstructionError,
    OpenEnvError,
    RemoteEnvironmentError,
    ToolFailedError,
    ToolNotFoundError,
    ValidationError,
)
from tests.client.jsonserver import serving_json
from tests.interop.transcripts import CLIENTS, SERVERS

ERRORS: dict[str, type[OpenEnvError]] = {
    "VALIDATION_ERROR": ValidationError,
    "EXECUTION_ERROR": RemoteEnvironmentError,
    "CAPACITY_REACHED": CapacityError,
    "FACTORY_ERROR": ConstructionError,
}
"""What a code of an error frame is raised as."""


def _calls(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps over one WebSocket that a client of ours can take."""
    first = next((step["to"] for step in steps if step["to"].startswith("ws /ws")), "")
    return [
        step
        for step in steps
        if step["to"] == first and _callable(step["send"]) and "frame" in step["receive"]
    ]


def _callable(send: Any) -> bool:
    known = isinstance(send, dict) and send.get("type") in ("reset", "step", "state")
    if not known or set(send) - {"type", "data"}:
        return False
    return "data" not in send if send["type"] == "state" else isinstance(send.get("data", {}), dict)


PLAYED = [each for each in (*SERVERS, *CLIENTS) if _calls(each["steps"])]


@pytest.mark.parametrize("recorded", PLAYED, ids=lambda recorded: recorded["name"])
def test_requests_and_answers(recorded: dict[str, Any]) -> None:
    steps = _calls(recorded["steps"])
    steps = [step for step in steps if step["send"]["type"] != "step" or "data" in step["send"]]
    answers = iter([step["receive"]["frame"] for step in steps])
    with serving_json(lambda message, number: next(answers)) as server:
        with GenericEnvClient(base_url=server.url).sync() as client:
            for step in steps:
                _check(client, step["send"], step["receive"]["frame"])
        said = [message for message in server.seen if message["type"] != "close"]
    assert said == [_whole(step["send"]) for step in steps]


def _whole(send: dict[str, Any]) -> dict[str, Any]:
    return {"data": {}, **send} if send["type"] == "reset" else send


def _check(client: Any, send: dict[str, Any], frame: dict[str, Any]) -> None:
    calls = {"reset": lambda: client.reset(**send.get("data", {})), "state": client.state}
    call = calls.get(send["type"], lambda: client.step(send["data"]))
    data = frame["data"]
    if frame["type"] == "error":
        with pytest.raises(ERRORS[data["code"]]):
            call()
        return
    result = call()
    if frame["type"] == "state":
        assert result == data
        return
    fields = {name: value for name, value in data["observation"].items() if name != "metadata"}
    if isinstance(fields.get("result"), dict):
        fields["result"] = fields["result"]["data"]
    assert result.observation == fields
    assert (result.reward, type(result.reward)) == (data["reward"], type(data["reward"]))
    assert (result.done, result.metadata) == (data["done"], data.get("metadata", {}))


@pytest.mark.parametrize(("name", "at"), [("no slot is free", 1), ("the environment cannot be built", 0)])
def test_what_a_server_says_unasked(name: str, at: int) -> None:
    (recorded,) = (each for each in SERVERS if each["name"] == name)
    frame = recorded["steps"][at]["receive"]["frame"]
    with serving_json(greeting=frame) as server:
        client = GenericEnvClient(base_url=server.url)
        with pytest.raises(ERRORS[frame["data"]["code"]]) as info:
            client.reset()
        assert frame["data"]["message"] in info.value.message
        client.close()


# -- tools over HTTP


class _Answers(BaseHTTPRequestHandler):
    """Answers requests to ``/mcp`` from :attr:`recorded`, by method and parameters."""

    recorded: list[dict[str, Any]]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        wanted = (request["method"], request["params"])
        found = next(
            step["receive"]["body"]
            for step in self.recorded
            if step["to"] == "POST /mcp" and (step["send"]["method"], step["send"]["params"]) == wanted
        )
        body = json.dumps({**found, "id": request["id"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Be silent."""


@contextmanager
def _answering(recorded: list[dict[str, Any]]) -> Iterator[str]:
    handler = type("Answers", (_Answers,), {"recorded": recorded})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_tools_in_production_mode() -> None:
    (play,) = (each["steps"] for each in CLIENTS if each["name"] == "tools")
    (more,) = (each["steps"] for each in SERVERS if each["name"] == "tools over HTTP")
    in_session = [{**step, "send": _in_session(step["send"])} for step in more if _is_call(step["send"])]
    with (
        _answering([*play, *in_session]) as url,
        MCPToolClient(base_url=url, mode="production").sync() as client,
    ):
        assert [tool.name for tool in client.list_tools()] == ["add", "describe", "fail"]
        assert client.call_tool("add", a=1) == 3
        assert client.call_tool("describe", word="hi") == {"word": "hi", "letters": ["h", "i"]}
        with pytest.raises(ToolFailedError, match="tool failed: q"):
            client.call_tool("fail", why="q")
        with pytest.raises(ToolNotFoundError):
            client.call_tool("nope")


def _is_call(send: Any) -> bool:
    return isinstance(send, dict) and send.get("method") == "tools/call" and "name" in send["params"]


def _in_session(send: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded request as a client with a session sends it."""
    return {**send, "params": {**send["params"], "session_id": "$session"}}
