from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from openenv_gym.errors import WorkerCrashedError
from openenv_gym.servers.mcp import streamable as streamable_module
from openenv_gym.servers.mcp.streamable import Streamable
from openenv_gym.servers.settings import ServerSettings

from .scene import Scene, call

EVENTS = {"accept": "application/json, text/event-stream"}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def http(scene: Scene) -> Iterator[TestClient]:
    with scene.client() as client:
        yield client


def _begin(http: TestClient, version: str = "2025-06-18") -> dict[str, str]:
    answer = http.post("/mcp", json=call("initialize", protocolVersion=version))
    assert answer.json()["result"]["protocolVersion"] == version
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version}


def _events(text: str) -> list[Any]:
    return [
        json.loads(line.removeprefix("data: ")) for line in text.split("\r\n") if line.startswith("data: ")
    ]


def test_calls_are_answered_as_events_where_those_are_accepted(http: TestClient) -> None:
    headers = _begin(http)
    answer = http.post(
        "/mcp", json=call("tools/call", name="add", arguments={"a": 1, "b": 2}), headers=headers | EVENTS
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    (event,) = _events(answer.text)
    assert event["result"]["structuredContent"] == {"result": 3}
    listed = http.post("/mcp", json=call("tools/list"), headers=headers | EVENTS)
    assert listed.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        ("application/json", 200, "application/json"),
        ("*/*", 200, "application/json"),
        ("application/*;q=0.5", 200, "application/json"),
        ("text/event-stream", 200, "text/event-stream; charset=utf-8"),
        ("text/html", 406, "application/json"),
    ],
)
def test_the_form_of_an_answer_is_one_that_is_accepted(
    http: TestClient, accept: str, status: int, kind: str
) -> None:
    answer = http.post("/mcp", json=call("ping"), headers=_begin(http) | {"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (status, kind)
    body = answer.json() if kind == "application/json" else _events(answer.text)[0]
    assert ("result" in body) == (status == 200)


def test_only_json_is_taken(http: TestClient) -> None:
    headers = _begin(http) | {"content-type": "text/plain"}
    assert http.post("/mcp", content=json.dumps(call("ping")), headers=headers).status_code == 415


def test_an_unknown_revision_in_the_header_is_refused_with_those_there_are(http: TestClient) -> None:
    headers = _begin(http) | {"mcp-protocol-version": "2026-07-28"}
    answer = http.post("/mcp", json=call("server/discover"), headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == -32022 and error["data"]["requested"] == "2026-07-28"
    assert "2025-06-18" in error["data"]["supported"]
    del headers["mcp-protocol-version"]
    assert http.post("/mcp", json=call("ping"), headers=headers).status_code == 200


def test_a_request_without_session_is_told_to_begin_one(http: TestClient) -> None:
    answer = http.post("/mcp", json=call("tools/list"), headers={"mcp-protocol-version": "2025-06-18"})
    assert answer.status_code == 400 and "initialize" in answer.json()["error"]["message"]


def test_f096_a_session_that_is_gone_is_404_and_says_why(http: TestClient, scene: Scene) -> None:
    headers = _begin(http)
    assert http.portal is not None
    http.portal.call(scene.peers.opened[0].die, WorkerCrashedError("killed by signal 9", signal=9))
    answer = http.post("/mcp", json=call("tools/list", 7), headers=headers)
    assert answer.status_code == 404
    assert answer.json()["id"] == 7
    error = answer.json()["error"]
    assert error["code"] == -32001 and "killed by signal 9" in error["message"]
    assert error["data"] == {"error": "worker_crashed", "details": {"signal": 9}}
    assert http.post("/mcp", json=call("tools/list"), headers=headers).status_code == 404
    again = _begin(http)
    assert http.post("/mcp", json=call("tools/list"), headers=again).status_code == 200


def test_a_session_of_the_dialect_is_none_of_mcp(http: TestClient) -> None:
    session_id = http.post("/mcp", json=call("openenv/session/create")).json()["result"]["session_id"]
    answer = http.post("/mcp", json=call("ping"), headers={"mcp-session-id": session_id})
    assert answer.status_code == 404 and "it is no session of MCP" in answer.json()["error"]["message"]


def test_batches_belong_to_one_revision(http: TestClient) -> None:
    batch = [call("ping", 1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, call("nope", 2), 3]
    answer = http.post("/mcp", json=batch, headers=_begin(http, "2025-03-26"))
    assert [(part["id"], "result" in part) for part in answer.json()] == [
        (1, True),
        (2, False),
        (None, False),
    ]
    assert http.post("/mcp", json=[], headers=_begin(http, "2025-03-26")).status_code == 400
    assert http.post("/mcp", json=batch[1:2], headers=_begin(http, "2025-03-26")).status_code == 202
    assert http.post("/mcp", json=batch, headers=_begin(http)).status_code == 400


def test_a_changed_list_is_told_in_the_stream_of_the_call(http: TestClient) -> None:
    headers = _begin(http) | EVENTS
    http.post("/mcp", json=call("tools/list"), headers=headers)
    changed, answer = _events(http.post("/mcp", json=call("tools/call", name="learn"), headers=headers).text)
    assert changed == CHANGED and answer["result"]["isError"] is False
    assert len(_events(http.post("/mcp", json=call("tools/call", name="learned"), headers=headers).text)) == 1


# -- what needs several requests at a time


def _request(method: str, headers: dict[str, str]) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": "/mcp", "query_string": b"", "headers": raw})


class _Client:
    """Speaks to the transport without HTTP."""

    def __init__(self, transport: Streamable) -> None:
        self.transport = transport
        self.headers = {"content-type": "application/json", **EVENTS}

    async def post(self, message: Any, **headers: str) -> Any:
        return await self.transport.post(_request("POST", self.headers | headers), message)

    async def begin(self) -> None:
        answer = await self.post(call("initialize", protocolVersion="2025-06-18"))
        self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]

    async def listen(self) -> AsyncIterator[bytes]:
        answer: Any = await self.transport.get(_request("GET", self.headers))
        return aiter(answer.body_iterator)


def _play(scene: Scene, work: Callable[[_Client], Awaitable[None]]) -> None:
    async def run() -> None:
        client = _Client(Streamable(scene.sessions, ServerSettings()))
        await client.begin()
        async with asyncio.timeout(20.0):
            await work(client)
        for peer in scene.peers.opened:
            await peer.close()

    asyncio.run(run())


def test_a_listener_is_told_of_a_change_when_the_answer_is_json(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        stream = await client.listen()
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await client.post(call("tools/list"))
        await client.post(call("tools/call", name="learn"), accept="application/json")
        assert _events((await waiting).decode()) == [CHANGED]
        await stream.aclose()  # type: ignore[attr-defined]

    _play(scene, work)


def test_a_change_waits_for_a_listener(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        await client.post(call("tools/list"))
        await client.post(call("tools/call", name="learn"), accept="application/json")
        stream = await client.listen()
        assert _events((await anext(stream)).decode()) == [CHANGED]
        await stream.aclose()  # type: ignore[attr-defined]

    _play(scene, work)


def test_a_second_listener_takes_over_and_the_end_of_the_session_ends_it(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        first = asyncio.ensure_future(anext(await client.listen(), None))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(anext(await client.listen(), None))
        assert await first is None
        answer = await client.transport.delete(_request("DELETE", client.headers))
        assert answer.status_code == 204
        assert await second is None

    _play(scene, work)


def test_streams_have_a_heartbeat(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable_module, "_HEARTBEAT", 0.01)

    async def work(client: _Client) -> None:
        stream = await client.listen()
        assert await anext(stream) == b":\r\n\r\n"
        await stream.aclose()  # type: ignore[attr-defined]
        answer = await client.post(call("tools/call", name="wait", arguments={"seconds": 20.0}))
        stream = aiter(answer.body_iterator)
        assert await anext(stream) == b":\r\n\r\n"
        scene.enough.set()
        parts = [part async for part in stream]
        assert _events(parts[-1].decode())[0]["result"]["structuredContent"] == {"result": "waited"}

    _play(scene, work)


def test_a_cancelled_call_gets_no_response_and_is_carried_out(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        answer = await client.post(call("tools/call", "slow", name="wait", arguments={"seconds": 20.0}))
        parts = asyncio.ensure_future(_all(answer.body_iterator))
        (peer,) = scene.peers.opened
        while peer.begun < 3:  # a reset, metadata, the call
            await asyncio.sleep(0)
        assert (await client.post(_cancel("slow"))).status_code == 202
        assert await parts == []
        scene.enough.set()
        counted = await client.post(call("tools/call", name="count"), accept="application/json")
        assert json.loads(counted.body)["result"]["structuredContent"] == {"result": 2}

    _play(scene, work)


def _cancel(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


@pytest.mark.parametrize("accept", ["application/json", EVENTS["accept"]])
def test_a_call_that_is_cancelled_before_its_turn_is_not_carried_out(scene: Scene, accept: str) -> None:
    async def work(client: _Client) -> None:
        (peer,) = scene.peers.opened
        peer.hold(scene.enough)
        second = asyncio.ensure_future(client.post(call("tools/call", "second", name="learn"), accept=accept))
        while "tools/call" not in peer.asked:
            await asyncio.sleep(0)
        await client.post(_cancel("second"))
        answer = await second
        if accept == "application/json":
            assert json.loads(answer.body)["error"]["message"] == "the client cancelled this request"
        else:
            assert await _all(answer.body_iterator) == []
        scene.enough.set()
        listed = await client.post(call("tools/list"))
        assert b"learned" not in listed.body

    _play(scene, work)


@pytest.mark.parametrize("request_id", ["other", 7, None, [1], {}])
def test_who_cancels_what_does_not_run_changes_nothing(http: TestClient, request_id: Any) -> None:
    assert http.post("/mcp", json=_cancel(request_id), headers=_begin(http)).status_code == 202


async def _all(parts: AsyncIterator[bytes]) -> list[bytes]:
    return [part async for part in parts]


def test_a_call_whose_stream_nobody_reads_is_carried_out(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        await client.post(call("tools/call", name="count"))
        await asyncio.sleep(0)
        counted = await client.post(call("tools/call", name="count"), accept="application/json")
        assert json.loads(counted.body)["result"]["structuredContent"] == {"result": 2}

    _play(scene, work)


def test_a_session_lives_while_it_is_used(scene: Scene) -> None:
    async def run() -> None:
        client = _Client(Streamable(scene.sessions, ServerSettings(http_session_ttl=0.05)))
        await client.begin()
        stream = await client.listen()
        waiting = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0.2)
        assert (await client.post(call("ping"))).status_code == 200
        waiting.cancel()
        await asyncio.wait([waiting])
        await stream.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(20.0):
            await scene.peers.opened[0].ended
        answer = await client.post(call("ping"))
        assert answer.status_code == 404 and b"nobody used it" in answer.body

    asyncio.run(run())


def test_f099_after_a_call_that_failed_the_agent_does_not_wait_for_the_tools(scene: Scene) -> None:
    async def work(client: _Client) -> None:
        await client.post(call("tools/list"))
        (peer,) = scene.peers.opened
        await client.post(call("tools/call", name="fail", arguments={"why": "x"}), accept="application/json")
        assert peer.asked[-1] == "tools/call"
        await client.post(call("tools/call", name="count"), accept="application/json")
        assert peer.asked[-2:] == ["tools/call", "tools/list"]

    _play(scene, work)
