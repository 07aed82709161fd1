"""Both languages of ``/mcp``, side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from openenv_gym.errors import ConstructionError, WorkerCrashedError

from .scene import Scene, call

JSON = {"content-type": "application/json"}
BOTH = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def http(scene: Scene) -> Iterator[TestClient]:
    with scene.client() as client:
        yield client


@pytest.fixture
def session(http: TestClient) -> dict[str, str]:
    """Headers of a session of standard MCP."""
    answer = http.post("/mcp", json=call("initialize", protocolVersion="2025-06-18"))
    assert answer.status_code == 200
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}


ADDED = {"type": "text", "text": "3"}
#: What is sent; status, and result or error code, in OpenEnv's dialect; the same in standard MCP.
TABLE: list[tuple[str, Any, tuple[int, Any], tuple[int, Any]]] = [
    (
        "a call",
        call("tools/call", name="add", arguments={"a": 1, "b": 2}),
        (
            200,
            {
                "content": [{**ADDED, "annotations": None, "meta": None}],
                "structured_content": {"result": 3},
                "data": 3,
                "is_error": False,
                "meta": None,
            },
        ),
        (200, {"content": [ADDED], "structuredContent": {"result": 3}, "isError": False}),
    ),
    (
        "a call that fails",
        call("tools/call", name="fail", arguments={"why": "w"}),
        (200, -32603),
        (
            200,
            {"content": [{"type": "text", "text": "tool 'fail' raised ValueError: w"}], "isError": True},
        ),
    ),
    ("an unknown tool", call("tools/call", name="nope"), (200, -32603), (200, -32602)),
    (
        "wrong arguments",
        call("tools/call", name="add", arguments={"a": "x", "b": 2}),
        (200, -32602),
        (
            200,
            {
                "content": [
                    {
                        "type": "text",
                        "text": "tool 'add': $.arguments.a: expected int, got str: 'x'",
                    }
                ],
                "isError": True,
            },
        ),
    ),
    ("a call without a name", call("tools/call", arguments={}), (200, -32602), (200, -32602)),
    ("arguments that are none", call("tools/call", name="add", arguments=[1]), (200, -32602), (200, -32602)),
    ("ping", call("ping"), (200, -32601), (200, {})),
    ("an unknown method", call("resources/list"), (200, -32601), (200, -32601)),
    ("reset", call("reset"), (200, -32601), (200, -32601)),
    ("step", call("step", action={}), (200, -32601), (200, -32601)),
    (
        "a notification",
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        (200, -32601),
        (202, None),
    ),
    ("a response", {"jsonrpc": "2.0", "id": 1, "result": {}}, (200, -32600), (202, None)),
    ("an empty object", {}, (200, -32600), (400, -32600)),
    ("a batch", [call("ping")], (200, -32700), (400, -32600)),
    ("no JSON", b"{bad", (200, -32700), (400, -32700)),
    ("params that are no object", {**call("tools/list"), "params": [1]}, (200, -32600), (200, -32602)),
    ("a wrong version", {**call("tools/list"), "jsonrpc": "1.0"}, (200, -32600), (400, -32600)),
    ("an unknown field", {**call("tools/list"), "extra": 1}, (200, -32600), (200, "tools")),
    ("an id that is none", {**call("tools/list"), "id": [1]}, (200, -32600), (400, -32600)),
]


def _check(answer: Any, expected: tuple[int, Any]) -> None:
    status, what = expected
    assert answer.status_code == status
    if what is None:
        assert answer.content == b""
    elif isinstance(what, int):
        body = answer.json()
        assert body["error"]["code"] == what and "result" not in body
        assert {"code", "message", "data"} == body["error"].keys()
    elif isinstance(what, str):
        assert what in answer.json()["result"]
    else:
        assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": what}


def _body(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


@pytest.mark.parametrize(("sent", "dialect"), [row[1:3] for row in TABLE], ids=[row[0] for row in TABLE])
def test_openenvs_dialect(http: TestClient, sent: Any, dialect: tuple[int, Any]) -> None:
    _check(http.post("/mcp", content=_body(sent), headers=JSON), dialect)


@pytest.mark.parametrize(("sent", "standard"), [row[1::2] for row in TABLE], ids=[row[0] for row in TABLE])
def test_standard_mcp(
    http: TestClient, session: dict[str, str], sent: Any, standard: tuple[int, Any]
) -> None:
    _check(http.post("/mcp", content=_body(sent), headers=JSON | session), standard)


def test_a_header_or_initialize_makes_it_standard(http: TestClient) -> None:
    assert "id" in http.post("/mcp", json={}).json()
    assert http.post("/mcp", json={}).status_code == 200
    assert http.post("/mcp", json={}, headers={"mcp-protocol-version": "2025-06-18"}).status_code == 400
    assert http.post("/mcp", json={}, headers={"mcp-session-id": "x"}).status_code == 404
    assert http.post("/mcp", json=call("initialize")).status_code == 400


def test_get_and_delete_want_a_session(http: TestClient, session: dict[str, str]) -> None:
    for method in ("GET", "DELETE"):
        assert http.request(method, "/mcp").status_code == 405
        answer = http.request(method, "/mcp", headers={"mcp-session-id": "gone"})
        assert answer.status_code == 404 and answer.json()["error"]["code"] == -32001
    assert http.get("/mcp", headers=session | {"accept": "text/html"}).status_code == 406
    assert http.delete("/mcp", headers=session).status_code == 204
    assert http.post("/mcp", json=call("ping"), headers=session).status_code == 404
    assert http.put("/mcp").status_code == 405


def test_sessions_of_the_dialect_keep_their_episode(http: TestClient, scene: Scene) -> None:
    created = http.post("/mcp", json=call("openenv/session/create")).json()
    session_id = created["result"]["session_id"]
    for expected in (1, 2):
        answer = http.post("/mcp", json=call("tools/call", name="count", session_id=session_id)).json()
        assert answer["result"]["data"] == expected
    for _ in range(2):  # without a session each call has its own environment
        assert http.post("/mcp", json=call("tools/call", name="count")).json()["result"]["data"] == 1
    assert scene.peers.active == 1
    closed = http.post("/mcp", json=call("openenv/session/close", session_id=session_id)).json()
    assert closed["result"] == {"session_id": session_id, "closed": True}
    assert scene.peers.active == 0
    for method in ("openenv/session/close", "tools/list"):
        again = http.post("/mcp", json=call(method, session_id=session_id)).json()["error"]
        assert again["code"] == -32602 and again["message"] == f"Unknown session_id: {session_id}"
    missing = http.post("/mcp", json=call("openenv/session/close")).json()["error"]
    assert missing == {"code": -32602, "message": "Invalid params - 'session_id' is required", "data": None}


def test_a_call_of_the_dialect_whose_client_left_before_its_turn_is_not_carried_out(scene: Scene) -> None:
    async def work() -> None:
        dialect = scene.endpoint.dialect
        made = await dialect.answer(call("openenv/session/create"))
        session = made["result"]["session_id"]
        (peer,) = scene.peers.opened
        peer.hold(scene.enough)
        body = json.dumps(call("tools/call", name="learn", session_id=session)).encode()
        parts: asyncio.Queue[Any] = asyncio.Queue()
        parts.put_nowait({"type": "http.request", "body": body})
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": []}
        sent: list[Any] = []

        async def send(event: Any) -> None:
            sent.append(event)

        asking = asyncio.ensure_future(scene.app(scope, parts.get, send))
        while "tools/call" not in peer.asked:
            await asyncio.sleep(0)
        parts.put_nowait({"type": "http.disconnect"})
        await asking
        assert sent[0]["status"] == 499
        scene.enough.set()
        listed = await dialect.answer(call("tools/list", session_id=session))
        assert "learned" not in json.dumps(listed)
        await dialect.answer(call("openenv/session/close", session_id=session))

    asyncio.run(work())


def test_a_full_server_says_so_in_both_languages(http: TestClient, scene: Scene) -> None:
    scene.peers.limit = 0
    error = http.post("/mcp", json=call("openenv/session/create")).json()["error"]
    assert error["code"] == -32000
    assert error["data"]["active_sessions"] == 0 and error["data"]["max_sessions"] == 0
    standard = http.post("/mcp", json=call("initialize", protocolVersion="2025-06-18"))
    assert standard.status_code == 503 and standard.json()["error"]["code"] == -32000
    with http.websocket_connect("/mcp") as socket:
        assert socket.receive_json() == {"jsonrpc": "2.0", "id": None, "error": error}
        assert socket.receive()["code"] == 1000


def test_an_environment_that_cannot_be_built_is_named(http: TestClient, scene: Scene) -> None:
    scene.peers.broken = ConstructionError("no", type="ValueError")
    error = http.post("/mcp", json=call("tools/list")).json()["error"]
    assert error["code"] == -32000 and error["data"]["factory_name"] == "bench:Bench"
    assert http.post("/mcp", json=call("initialize", protocolVersion="2025-06-18")).status_code == 500


def test_a_websocket_hears_at_once_that_its_session_ended(http: TestClient, scene: Scene) -> None:
    with http.websocket_connect("/mcp") as socket:
        socket.send_json(call("tools/list"))
        assert "result" in socket.receive_json()
        assert http.portal is not None
        http.portal.call(scene.peers.opened[0].die, WorkerCrashedError("it died", exit_code=3))
        told = socket.receive_json()
        assert (told["id"], told["error"]["code"], told["error"]["message"]) == (None, -32000, "it died")
        assert told["error"]["data"]["error"] == "worker_crashed"
        assert socket.receive()["code"] == 1000
    assert scene.peers.active == 0


def test_a_websocket_is_one_session_of_the_dialect(http: TestClient, scene: Scene) -> None:
    with http.websocket_connect("/mcp") as socket:

        def ask(message: Any) -> Any:
            socket.send_text(message if isinstance(message, str) else json.dumps(message))
            return socket.receive_json()

        own = ask(call("openenv/session/create"))["result"]["session_id"]
        for expected in (1, 2):
            assert ask(call("tools/call", "x", name="count"))["result"]["data"] == expected
        refused = ask(call("openenv/session/close", session_id=own))["error"]
        assert refused["code"] == -32600
        assert refused["message"] == "Cannot close active WebSocket-managed session via MCP method"
        broken = ask("{bad")
        assert broken["error"]["code"] == -32700 and broken["error"]["message"].startswith("Parse error: ")
        assert ask([1])["error"]["code"] == -32700
        assert ask(call("initialize"))["error"]["code"] == -32601
        socket.send_bytes(b"\x00")
        assert socket.receive_json()["error"]["code"] == -32700
        assert ask(call("tools/call", name="count"))["result"]["data"] == 3
        assert len(scene.peers.opened) == 1
    http.get("/mcp")
    assert scene.peers.active == 0
