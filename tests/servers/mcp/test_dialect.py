from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .scene import PIXEL, Scene, Toolless, call


def _answer(scene: Scene, *requests: Any) -> list[Any]:
    async def ask() -> list[Any]:
        return [await scene.endpoint.dialect.answer(request) for request in requests]

    return asyncio.run(ask())


def test_tools_are_listed_with_every_key_that_clients_know(monkeypatch: pytest.MonkeyPatch) -> None:
    (answer,) = _answer(Scene(monkeypatch), call("tools/list"))
    add = answer["result"]["tools"][0]
    assert add["name"] == "add" and add["description"] == "Add two numbers."
    assert add["input_schema"]["required"] == ["a", "b"]
    assert add["output_schema"]["properties"] == {"result": {"type": "integer"}}
    assert {key for key, value in add.items() if value is None} == {
        "title",
        "execution",
        "icons",
        "annotations",
        "meta",
    }


def test_content_that_is_no_text_arrives_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (answer,) = _answer(Scene(monkeypatch), call("tools/call", name="picture"))
    assert answer["result"]["content"] == [{**PIXEL, "annotations": None, "meta": None}]
    assert answer["result"]["data"] == "png" and answer["result"]["meta"] == {"size": 1}


def test_an_environment_without_tools_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, Toolless)
    for answer in _answer(scene, call("tools/list"), call("tools/call", name="x")):
        assert answer["error"] == {
            "code": -32603,
            "message": "Environment does not support MCP",
            "data": None,
        }


def test_a_failure_has_the_words_of_openenv(monkeypatch: pytest.MonkeyPatch) -> None:
    failed, unknown = _answer(
        Scene(monkeypatch),
        call("tools/call", name="fail", arguments={"why": "tool failed"}),
        call("tools/call", name="nope"),
    )
    assert failed["error"]["message"].startswith("Error calling tool 'fail': ")
    assert failed["error"]["message"].endswith("tool failed")
    assert unknown["error"]["message"] == "Unknown tool: 'nope'"
    assert "there are: add, " in unknown["error"]["data"]


def test_a_session_that_was_made_yields_its_slot_until_somebody_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    dialect = scene.endpoint.dialect

    async def create() -> None:
        session_id = (await dialect.answer(call("openenv/session/create")))["result"]["session_id"]
        offered = [scene.peers.opened[0].offered]
        await dialect.answer(call("tools/list", session_id=session_id))
        offered.append(scene.peers.opened[0].offered)
        assert offered == [True, False]
        await dialect.answer(call("openenv/session/close", session_id=session_id))

    asyncio.run(create())


def test_closing_an_attached_session_waits_for_its_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    dialect = scene.endpoint.dialect

    async def close() -> None:
        session_id = (await dialect.answer(call("openenv/session/create")))["result"]["session_id"]
        held = scene.sessions.find(session_id)
        held.attached = True
        answer = await dialect.answer(call("openenv/session/close", session_id=session_id))
        assert answer["result"] == {"session_id": session_id, "closed": False, "closing": True}
        await asyncio.sleep(0.1)
        assert scene.sessions.find(session_id) is held
        held.attached = False
        async with asyncio.timeout(20.0):
            await held.peer.ended

    asyncio.run(close())
    assert scene.peers.active == 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_METHODS = st.sampled_from(["tools/list", "tools/call", "openenv/session/close", "initialize"])
_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _JSON,
        "id": _JSON,
        "method": _METHODS | _JSON,
        "params": st.fixed_dictionaries(
            {}, optional={"name": st.just("add") | _JSON, "arguments": _JSON, "session_id": _JSON}
        )
        | _JSON,
        "other": _JSON,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(_REQUESTS | _JSON)
def test_every_value_gets_one_response(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    scene = Scene(monkeypatch)
    (answer,) = _answer(scene, request)
    assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer)
    if isinstance(request, dict) and isinstance(request.get("id"), str):
        assert answer["id"] == request["id"]
    assert scene.peers.active == 0
