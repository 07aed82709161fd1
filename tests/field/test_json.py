"""Field bugs of OpenEnv's JSON and of HTTP: the same call gives the same answer, and nothing is dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import ForbiddenError
from openenv_gym.servers.run import ServerThread
from openenv_gym.servers.settings import ServerSettings

Serve = Callable[..., str]
_PATIENCE = 20.0
"""Seconds after which an answer will not come; what hung did so for ever."""


@pytest.fixture(scope="module")
def served() -> Iterator[Serve]:
    """Return what serves a test environment, once for all that ask, and returns ``host:port``."""
    servers: dict[str, str] = {}
    with ExitStack() as stack:

        def serve(name: str, **settings: Any) -> str:
            key = f"{name} {settings}"
            if key not in servers:
                target = name if "-" in name else f"tests.support.{name}"
                made = ServerThread(ServerSettings(workers=0, port=0, **settings), target)
                servers[key] = stack.enter_context(made).base_url.removeprefix("ws://")
            return servers[key]

        yield serve


@pytest.fixture
def web() -> Iterator[Callable[[str], httpx.Client]]:
    """Return what makes an HTTP client, which keeps cookies, of ``host:port``."""
    with ExitStack() as stack:
        yield lambda at: stack.enter_context(httpx.Client(base_url=f"http://{at}", timeout=_PATIENCE))


class Json:
    """A WebSocket that speaks JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def ask(self, kind: str, data: Any = None, **more: Any) -> Any:
        """Return the answer to a message."""
        message = {"type": kind, **({} if data is None else {"data": data}), **more}
        self._connection.send(json.dumps(message))
        return json.loads(self._connection.recv(_PATIENCE))


@pytest.fixture
def wire() -> Iterator[Callable[[str], Json]]:
    """Return what connects a WebSocket to ``host:port``."""
    with ExitStack() as stack:
        yield lambda at: Json(stack.enter_context(connect(f"ws://{at}/ws")))


Wire = Callable[[str], Json]
Web = Callable[[str], httpx.Client]

_CALL = {"type": "call_tool", "tool_name": "later", "arguments": {"value": "hi", "delay": 0.01}}


def test_f024_a_call_of_a_tool_is_the_same_over_every_way(served: Serve, wire: Wire, web: Web) -> None:
    at = served("typedenvs:Calculator")
    socket, http = wire(at), web(at)
    rpc = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "later", "arguments": _CALL["arguments"]},
    }
    socket.ask("reset")
    http.post("/reset")
    over_socket = socket.ask("step", _CALL)["data"]
    over_http = http.post("/step", json={"action": _CALL}).json()
    assert over_socket == over_http
    assert over_socket["observation"]["error"] is None
    results = [
        over_socket["observation"]["result"],
        socket.ask("mcp", rpc)["data"]["result"],
        http.post("/mcp", json=rpc).json()["result"],
    ]
    for result in results:
        assert (result["data"], result["is_error"]) == ("hi", False)
        assert [(part["type"], part["text"]) for part in result["content"]] == [("text", "hi")]
        assert result["structured_content"] == {"result": "hi"}


def test_f034_what_goes_with_an_observation_arrives_over_every_way(
    served: Serve, wire: Wire, web: Web
) -> None:
    info = {"step": 1, "nested": {"a": [1, 2]}, "task": None}
    at = served("typedenvs:GuessNumber")
    over_socket = wire(at).ask("reset", info)["data"]
    over_http = web(at).post("/reset", json=info).json()
    assert over_socket["metadata"] == over_socket["observation"]["metadata"] == info
    assert over_http == over_socket
    env = RemoteEnv(base_url=f"ws://{at}")
    try:
        _, told = env.reset(options=info)
    finally:
        env.close()
    assert {name: told[name] for name in info} == info


def test_f035_json_spells_the_numbers_that_it_lacks(served: Serve, wire: Wire, web: Web) -> None:
    at = served("testenvs:SpecialFloatEnv")
    answers = [wire(at).ask("reset", {"seed": 1})["data"], web(at).post("/reset", json={"seed": 1}).json()]
    for answer in answers:
        observation = answer["observation"]
        assert observation["f64"] == ["NaN", "Infinity", "-Infinity", -0.0, 5e-324, 0.1]
        assert str(observation["f64"][3]) == "-0.0"
        assert observation["f32"][:3] == ["NaN", "Infinity", "-Infinity"]
        assert [len(observation["img"]), len(observation["img"][0]), len(observation["img"][0][0])] == [
            210,
            160,
            3,
        ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", ["typedenvs:GuessNumber", "CartPole-v1"])
def test_f042_only_the_environments_own_actions_are_taken(name: str, served: Serve, wire: Wire) -> None:
    socket = wire(served(name))
    socket.ask("reset", {"episode_id": "e"})
    before = socket.ask("state")["data"]
    for action in (_CALL, {"type": "list_tools"}, {"tool_name": "later"}):
        refused = socket.ask("step", action)
        assert (refused["type"], refused["data"]["code"]) == ("error", "VALIDATION_ERROR")
        assert refused["data"]["errors"][0]["loc"]
    assert socket.ask("state")["data"] == before == {"episode_id": "e", "step_count": 0}


def test_f069_a_reset_takes_whatever_the_environment_takes(served: Serve, wire: Wire, web: Web) -> None:
    options = {"game": "pong", "players": 4}
    at = served("typedenvs:GuessNumber")
    socket = wire(at)
    answers = [socket.ask("reset", {"seed": 3, **options})["data"] for _ in range(2)]
    assert answers[0]["metadata"] == options
    assert web(at).post("/reset", json={"seed": 3, **options}).json() == answers[0] == answers[1]
    strict = wire(served("typedenvs:Walk"))
    refused = strict.ask("reset", options)["data"]
    assert refused["code"] == "VALIDATION_ERROR"
    assert "'game'" in refused["message"]


def test_f070_an_unknown_field_is_refused_by_name(served: Serve, wire: Wire, web: Web) -> None:
    at = served("typedenvs:GuessNumber")
    socket, http = wire(at), web(at)
    refused = socket.ask("reset", {}, sede=1)["data"]
    assert (refused["code"], refused["errors"][0]["loc"]) == ("VALIDATION_ERROR", ["sede"])
    assert socket.ask("reset", {"sede": 1})["data"]["metadata"] == {"sede": 1}
    http.post("/reset")
    refused = http.post("/step", json={"action": {"number": 1}, "sede": 1})
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "sede"])
    refused = http.post("/step", json={"action": {"number": 1, "sede": 1}})
    assert refused.json()["detail"][0]["loc"] == ["body", "action", "sede"]


def test_f082_agents_reach_tools_and_nobody_resets_in_production(served: Serve, wire: Wire, web: Web) -> None:
    at = served("typedenvs:Calculator", mode="production")
    http, socket = web(at), wire(at)
    for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
        assert http.request(method, path).status_code == 404
    for kind, data in (("reset", None), ("step", _CALL), ("state", None)):
        assert socket.ask(kind, data)["data"]["error"] == "forbidden"
    with pytest.raises(ForbiddenError, match="production mode"):
        RemoteEnv(base_url=f"ws://{at}")
    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert http.post("/mcp", json=rpc).json()["result"]["data"] == 3
    assert socket.ask("mcp", rpc)["data"]["result"]["data"] == 3


def test_f082_without_the_token_there_is_nothing_to_be_had(served: Serve, web: Web) -> None:
    http = web(served("typedenvs:GuessNumber", token="s3cret"))
    for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state"), ("POST", "/mcp")):
        refused = http.request(method, path, json={})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert http.request(method, f"{path}?token=s3cret", json={}).status_code == 401
    answer = http.post("/reset", headers={"Authorization": "Bearer s3cret"})
    assert answer.status_code == 200


def test_f109_requests_with_the_cookie_count_on_and_others_are_refused(served: Serve, web: Web) -> None:
    at = served("testenvs:CounterEnv")
    http, stranger = web(at), web(at)
    counts = [http.post("/reset").json()["observation"]["observation"]]
    for _ in range(3):
        answer = http.post("/step", json={"action": {"action": 0}})
        assert answer.headers["openenv-session"] in answer.headers["set-cookie"]
        counts.append(answer.json()["observation"]["observation"])
    assert counts == [0, 1, 2, 3]
    refused = stranger.post("/step", json={"action": {"action": 0}})
    assert refused.status_code == 409
    assert "POST /reset" in refused.json()["message"]
