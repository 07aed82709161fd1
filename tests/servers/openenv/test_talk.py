"""The JSON WebSocket: every message type and every error, and what ends a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import CapacityError, ConstructionError, WorkerCrashedError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import pack
from openenv_gym.servers.openenv.sessions import Held, Sessions
from openenv_gym.servers.openenv.talk import Talk

from ..wire import run
from .fakeworker import FakePool, Wire, instead


class _House:
    """A pool, its table, and the application."""

    def __init__(self, pool: FakePool) -> None:
        self.pool = pool
        self.sessions = Sessions(pool)  # type: ignore[arg-type]
        self.app = Talk(self.sessions, pool.settings, "Game", self._rpc)

    async def _rpc(self, held: Held, request: Any) -> Any:
        return {"jsonrpc": "2.0", "id": request.get("id"), "result": held.id}

    def wire(self, query: str = "", **headers: str) -> Wire:
        return Wire(self.app, query, headers)

    async def connected(self, query: str = "") -> Wire:
        wire = self.wire(query)
        assert (await wire.next())["type"] == "websocket.accept"
        return wire


def _story(tell: Callable[[_House], Awaitable[None]], answer: Any = None, **settings: Any) -> FakePool:
    pools = []

    async def main() -> None:
        pool = FakePool(**({"answer": answer} if answer else {}), **settings)
        pools.append(pool)
        await tell(_House(pool))
        await pool.settle()

    run(main)
    return pools[0]


_OUTCOME = {"terminated": False, "truncated": False}


def test_an_episode() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        start = {"start": True}
        assert await wire.ask({"type": "reset"}) == {
            "type": "observation",
            "data": {
                "observation": {"seed": None, "metadata": start},
                "reward": None,
                "done": False,
                **_OUTCOME,
                "metadata": start,
            },
        }
        told = await wire.ask({"type": "reset", "data": {"seed": 42, "episode_id": "ep1", "foo": 1}})
        assert told["data"]["observation"] == {"seed": 42, "episode_id": "ep1", "foo": 1, "metadata": start}
        step = await wire.ask({"type": "step", "data": {"message": "hi"}})
        assert step["data"]["observation"]["message"] == "hi"
        assert (step["data"]["reward"], step["data"]["done"], step["data"]["terminated"]) == (0.5, True, True)
        state = await wire.ask({"type": "state"})
        assert state == {"type": "state", "data": {"episode_id": "e", "step_count": 4}}
        wire.send({"type": "close"})
        (close,) = await wire.end()
        assert (close["type"], close["code"]) == ("websocket.close", 1000)

    pool = _story(tell)
    assert isinstance(pool.asked[-1], m.Close)


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ("{", "INVALID_JSON", "Invalid JSON: "),
        ("", "INVALID_JSON", "Invalid JSON: "),
        (b"\x00\x01", "INVALID_JSON", "binary frame"),
        ("[1]", "VALIDATION_ERROR", "a message is an object, not a list"),
        ("null", "VALIDATION_ERROR", "a message is an object, not null"),
        ("3", "VALIDATION_ERROR", "a message is an object, not a number"),
        ({"type": "zzz"}, "UNKNOWN_TYPE", "Unknown message type: zzz"),
        ({}, "UNKNOWN_TYPE", "Unknown message type: "),
        ({"type": 3}, "UNKNOWN_TYPE", "Unknown message type: 3"),
        ({"type": ["reset"]}, "UNKNOWN_TYPE", "Unknown message type: ['reset']"),
        ({"type": "step"}, "VALIDATION_ERROR", "'step' needs the field 'data'"),
        ({"type": "step", "data": None}, "VALIDATION_ERROR", "the data of 'step' is an object, not null"),
        ({"type": "reset", "data": [1]}, "VALIDATION_ERROR", "the data of 'reset' is an object, not a list"),
        ({"type": "state", "data": {}}, "VALIDATION_ERROR", "unknown field 'data'"),
        ({"type": "reset", "data": {}, "sede": 1}, "VALIDATION_ERROR", "unknown field 'sede'"),
        ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR", "a seed is a whole number"),
    ],
)
def test_f070_an_odd_message_costs_one_error_and_not_the_session(message: Any, code: str, said: str) -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        answer = await wire.ask(message)
        assert answer["type"] == "error"
        assert answer["data"]["code"] == code
        assert said in answer["data"]["message"]
        assert ("errors" in answer["data"]) is (code == "VALIDATION_ERROR")
        assert (await wire.ask({"type": "state"}))["type"] == "state"
        wire.leave()
        assert await wire.end() == []

    _story(tell)


def test_messages_sent_ahead_are_answered_in_order() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        for number in range(20):
            wire.send({"type": "step", "data": {"n": number}})
        answers = [await wire.next() for _ in range(20)]
        assert [answer["data"]["observation"]["n"] for answer in answers] == list(range(20))
        wire.leave()
        await wire.end()

    _story(tell)


def test_an_environment_that_raises_costs_one_error() -> None:
    def fail(request: m.Step) -> m.Error:
        return m.Error("environment", "RuntimeError: kaboom", request.id, True, {"type": "RuntimeError"})

    async def tell(house: _House) -> None:
        wire = await house.connected()
        answer = await wire.ask({"type": "step", "data": {}})
        assert answer == {
            "type": "error",
            "data": {
                "message": "RuntimeError: kaboom",
                "code": "EXECUTION_ERROR",
                "error": "environment",
                "details": {"type": "RuntimeError"},
            },
        }
        assert (await wire.ask({"type": "state"}))["type"] == "state"
        wire.leave()
        await wire.end()

    _story(tell, instead(m.Step, fail))


def test_f035_numbers_that_json_lacks_are_spelled_and_arrays_are_lists() -> None:
    def answer(request: m.Step) -> m.Transition:
        fields = {
            "x": pack(np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)),
            "image": pack(np.array([[1, 2], [3, 4]], np.uint8)),
            "raw": b"\xff\x00",
        }
        return m.Transition(request.id, fields, [float("nan")], b"\0", [{"loss": float("-inf")}])

    async def tell(house: _House) -> None:
        wire = await house.connected()
        data = (await wire.ask({"type": "step", "data": {}}))["data"]
        assert data["observation"]["x"] == ["NaN", "Infinity", "-Infinity", -0.0]
        assert data["observation"]["image"] == [[1, 2], [3, 4]]
        assert data["observation"]["raw"] == "/wA="
        assert (data["reward"], data["metadata"]) == ("NaN", {"loss": "-Infinity"})
        wire.leave()
        await wire.end()

    _story(tell, instead(m.Step, answer))


@pytest.mark.parametrize(
    ("error", "code", "more"),
    [
        (
            CapacityError("full", active=2, max=2),
            "CAPACITY_REACHED",
            {"active_sessions": 2, "max_sessions": 2},
        ),
        (ConstructionError("no level"), "FACTORY_ERROR", {"factory_name": "Game"}),
        (WorkerCrashedError("it died"), "SESSION_ERROR", {}),
    ],
)
def test_a_refusal_comes_after_the_connection_was_accepted(error: Any, code: str, more: Any) -> None:
    async def tell(house: _House) -> None:
        house.pool.refusal = error
        wire = await house.connected()
        said, close = await wire.end()
        assert said["type"] == "error"
        assert said["data"].items() >= {"message": error.message, "code": code, **more}.items()
        assert (close["type"], close["code"]) == ("websocket.close", 1000)

    _story(tell)


def test_a_session_that_ends_under_a_request_is_told_and_closed() -> None:
    def end(request: m.Step) -> m.Error:
        return m.Error("deadline_exceeded", "too slow", request.id, False, {"deadline": 1.0})

    async def tell(house: _House) -> None:
        wire = await house.connected()
        wire.send({"type": "step", "data": {}})
        said, close = await wire.end()
        assert said["data"] == {
            "message": "too slow",
            "code": "SESSION_ERROR",
            "error": "deadline_exceeded",
            "details": {"deadline": 1.0},
        }
        assert close["code"] == 1000

    _story(tell, instead(m.Step, end))


def test_a_session_that_ends_while_its_client_is_silent_is_told_at_once() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        await wire.ask({"type": "reset"})
        (held,) = house.sessions._held.values()
        held.peer.drop()
        said, close = await wire.end()
        assert (said["data"]["code"], close["code"]) == ("SESSION_ERROR", 1000)

    _story(tell)


def test_a_client_that_leaves_takes_its_session_along() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        await wire.ask({"type": "reset"})
        wire.leave()
        await wire.end()
        assert house.sessions._held == {}

    assert isinstance(_story(tell).asked[-1], m.Close)


def test_mcp_messages_are_answered_in_the_session() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        answer = await wire.ask({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 4, "method": "tools/list"}})
        (held,) = house.sessions._held.values()
        assert answer == {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 4, "result": held.id}}
        wire.leave()
        await wire.end()

    _story(tell)


def test_nobody_attaches_to_the_session_of_another_socket() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        await wire.ask({"type": "reset"})
        (session_id,) = house.sessions._held
        other = await house.connected(f"session_id={session_id}")
        said, _close = await other.end()
        assert "attached already" in said["data"]["message"]
        assert (await wire.ask({"type": "state"}))["type"] == "state"
        wire.leave()
        await wire.end()

    _story(tell)


def test_a_socket_may_attach_to_a_session_and_leaves_it_as_it_was() -> None:
    async def tell(house: _House) -> None:
        held = await house.sessions.open(ttl=60.0)
        await held.peer.reset(5)
        wire = await house.connected(f"session_id={held.id}")
        assert held.timer is None
        assert (await wire.ask({"type": "state"}))["data"]["step_count"] == 2
        second = await house.connected(f"session_id={held.id}")
        said, close = await second.end()
        assert said["data"]["code"] == "SESSION_ERROR"
        assert "attached already" in said["data"]["message"]
        assert close["code"] == 1000
        wire.send({"type": "close"})
        await wire.end()
        assert house.sessions.find(held.id) is held
        again = await house.connected(f"session_id={held.id}")
        again.leave()
        await again.end()
        await house.sessions.close(held)

    _story(tell)


def test_an_unknown_session_is_told_so() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected("session_id=nobody")
        said, close = await wire.end()
        assert (said["data"]["code"], said["data"]["error"]) == ("SESSION_ERROR", "session_lost")
        assert "'nobody'" in said["data"]["message"]
        assert close["code"] == 1000

    _story(tell)


@pytest.mark.parametrize("kind", ["reset", "step", "state"])
def test_f082_in_production_mode_nobody_resets_or_steps(kind: str) -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        answer = await wire.ask({"type": kind, "data": {}} if kind != "state" else {"type": kind})
        assert (answer["data"]["code"], answer["data"]["error"]) == ("EXECUTION_ERROR", "forbidden")
        assert (await wire.ask({"type": "mcp", "data": {"id": 1}}))["type"] == "mcp"
        wire.leave()
        await wire.end()

    assert [type(request) for request in _story(tell, mode="production").asked] == [m.Hello, m.Close]


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_only_those_who_train_are_shown_tracebacks(mode: str) -> None:
    broken = ConstructionError("ValueError: no", type="ValueError", traceback="File '/srv/secret.py'")

    async def tell(house: _House) -> None:
        house.pool.refusal = broken
        wire = await house.connected()
        said, _close = await wire.end()
        details = said["data"]["details"]
        assert details.pop("traceback", None) == (None if mode == "production" else "File '/srv/secret.py'")
        assert details == {"type": "ValueError"}

    _story(tell, mode=mode)


@pytest.mark.parametrize(
    ("headers", "settings", "status"),
    [
        ({}, {"token": "s3cret"}, 401),
        ({"authorization": "Bearer wrong"}, {"token": "s3cret"}, 401),
        ({"origin": "https://evil.example"}, {}, 403),
    ],
)
def test_f082_who_may_not_connect_is_refused_at_the_handshake(
    headers: dict[str, str], settings: dict[str, Any], status: int
) -> None:
    async def tell(house: _House) -> None:
        start, _body = await house.wire(**headers).end()
        assert (start["type"], start["status"]) == ("websocket.http.response.start", status)

    assert _story(tell, **settings).asked == []


def test_a_request_that_runs_ends_before_the_socket_is_told_of_the_end() -> None:
    async def tell(house: _House) -> None:
        wire = await house.connected()
        await wire.ask({"type": "reset"})
        (held,) = house.sessions._held.values()
        wire.send({"type": "step", "data": {"n": 1}})
        while len(house.pool.asked) < 3:
            await asyncio.sleep(0)
        held.peer.drop()
        said = await wire.end()
        assert [item["type"] for item in said] == ["error", "websocket.close"]

    async def never(request: m.Step) -> None:
        await asyncio.sleep(0.05)

    _story(tell, instead(m.Step, never))


def test_an_observation_that_json_cannot_hold_costs_one_error() -> None:
    def huge(request: m.Step) -> m.Transition:
        return m.Transition(request.id, pack({"n": 10**5000}, "obs"), [1.0], b"\0")

    async def tell(house: _House) -> None:
        wire = await house.connected()
        answer = await wire.ask({"type": "step", "data": {}})
        assert (answer["data"]["code"], answer["data"]["error"]) == ("EXECUTION_ERROR", "value_not_carried")
        assert (await wire.ask({"type": "state"}))["type"] == "state"
        wire.leave()
        await wire.end()

    _story(tell, instead(m.Step, huge))
