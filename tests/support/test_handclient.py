"""What docs/protocol.md says, asked of a real server by a client that was written from that page alone."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym.servers.run import serve_in_thread
from openenv_gym.servers.settings import ServerSettings

from .handclient import PING, PONG, HandClient
from .handspaces import read_column, write_column
from .handwritten import message, write

TOKEN = b"0123456789abcdef"
BEARER = {"Authorization": "Bearer secret"}
LIMIT = 20_000
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=[True, False], ids=["handover", "asgi"])
def handover(request: pytest.FixtureRequest) -> bool:
    """Return whether workers read their sockets themselves."""
    return bool(request.param)


@pytest.fixture(scope="module")
def url(handover: bool) -> Iterator[str]:
    """Return the address of a server with a token."""
    settings = ServerSettings(
        port=0, workers=0, token="secret", handover=handover, max_sessions=50, max_message_size=LIMIT
    )
    server = serve_in_thread(settings, "CartPole-v1")
    yield str(server.base_url)
    server.stop()


@pytest.fixture
def connect(url: str) -> Iterator[Any]:
    """Return what makes connections to the server."""
    made: list[HandClient] = []

    def new() -> HandClient:
        made.append(HandClient(url, headers=BEARER))
        return made[-1]

    yield new
    for client in made:
        client.__exit__()


def _hello(**fields: Any) -> dict[str, Any]:
    return {"session": f"{next(_numbers):032x}", "token": TOKEN, **fields}


def _key(hello: dict[str, Any]) -> dict[str, Any]:
    return {"session": hello["session"], "token": TOKEN}


def _opened(client: HandClient) -> dict[str, Any]:
    """Open a session, and return what resumes it."""
    hello = _hello()
    assert client.ask("hello", **hello)["type"] == "welcome"
    return _key(hello)


def _refused(client: HandClient) -> tuple[str, bool, int]:
    """Return code and ``alive`` of the error that comes, and the close code after it."""
    error = client.receive()
    assert (error["type"], error.get("id", 0)) == ("error", 0)
    return error["code"], error.get("alive", False), client.closing()[0]


def _ending(connect: Any, key: dict[str, Any]) -> tuple[str, bool, int]:
    """Return how a session ended; while it ends, connections end too."""
    for _ in range(100):
        client = connect()
        client.send(message("resume", key))
        try:
            return _refused(client)
        except (EOFError, AssertionError):
            time.sleep(0.01)
    raise AssertionError("the session does not end")


def test_a_session_gives_what_the_environment_gives(connect: Any) -> None:
    client = connect()
    hello = _hello(expect="CartPole-v1", limits={"message": 1 << 20}, client="by hand")
    welcome = client.ask("hello", **hello)
    assert {name: welcome[name] for name in ("session", "token", "target")} == {
        **_key(hello),
        "target": "CartPole-v1",
    }
    assert welcome["limits"]["message"] == LIMIT
    seen, acts = welcome["observation_space"], welcome["action_space"]
    local = gym.make("CartPole-v1")
    observation, _ = local.reset(seed=5)
    reply = client.ask("reset", id=1, seeds=[5])
    assert read_column(seen, reply["observations"], 1)[0].tobytes() == observation.tobytes()
    for at, action in enumerate((1, 0, 1, 1), 2):
        column = write_column(acts, [np.int64(action) if at % 2 else action])
        reply = client.ask("step", id=at, actions=column)
        observation, reward, terminated, truncated, _ = local.step(action)
        assert (reply["type"], reply["id"]) == ("transition", at)
        assert read_column(seen, reply["observations"], 1)[0].tobytes() == observation.tobytes()
        assert struct.unpack("<d", reply["rewards"]) == (reward,)
        assert reply["flags"] == bytes([terminated + 2 * truncated])
    local.close()
    assert client.ask("get", id=6, name="gravity") == {"type": "value", "id": 6, "values": [9.8]}
    assert client.ask("set", id=7, name="gravity", values=[9.0])["values"] == [None]
    assert client.ask("get", id=8, name="gravity")["values"] == [9.0]
    assert client.ask("get", id=9, name="reset") == {
        "type": "value",
        "id": 9,
        "values": [None],
        "callable": True,
    }
    assert client.ask("close", id=10) == {"type": "closed", "id": 10}
    assert client.closing()[0] == 1000


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "authentication"),
        ({"Authorization": "Bearer guess"}, 401, "authentication"),
        ({"Authorization": "Basic c2VjcmV0"}, 401, "authentication"),
        ({**BEARER, "Origin": "https://evil.example"}, 403, "forbidden"),
        ({**BEARER, "Origin": "null"}, 403, "forbidden"),
    ],
    ids=str,
)
def test_handshakes_are_refused_in_words(url: str, headers: dict[str, str], status: int, code: str) -> None:
    with HandClient(url, headers=headers, offer="openenv.msgpack.v1") as client:
        assert client.status == status
        assert client.told is not None
        assert client.told["code"] == code
        assert {*client.told} == {"code", "message", "details"}


def test_without_the_subprotocol_the_answer_names_none(url: str) -> None:
    with HandClient(url, headers=BEARER, offer="other") as client:
        assert client.status == 101
        assert "sec-websocket-protocol" not in client.headers


def test_the_subprotocol_may_be_one_of_several(url: str) -> None:
    with HandClient(url, headers=BEARER, offer="other, openenv.msgpack.v1") as client:
        assert (client.status, client.headers["sec-websocket-protocol"]) == (101, "openenv.msgpack.v1")


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"", "protocol"),
        (b"\x93\x01", "protocol"),
        (message("reset", {"id": 1}), "protocol"),
        (message("closed", {"id": 1}), "protocol"),
        (message("hello", _hello(version=2)), "version"),
        (message("hello", _hello(expect="Acrobot-v1")), "environment_mismatch"),
        (message("hello", {"session": "x", "token": TOKEN}), "protocol"),
        (message("hello", _hello(slot_timeout=float("nan"))), "protocol"),
        (message("hello", _hello(lanes=3000)), "capacity"),
        (message("hello", _hello(lanes=0)), "protocol"),
        (message("hello", _hello(autoreset="sometimes")), "protocol"),
        (message("resume", _hello()), "session_lost"),
    ],
    ids=lambda item: item if isinstance(item, str) else item[6:20].decode("latin-1"),
)
def test_what_cannot_begin_a_session_is_refused(connect: Any, first: bytes, code: str) -> None:
    client = connect()
    client.send(first)
    assert _refused(client) == (code, False, 1013)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"env_kwargs": {"colour": 1}}, "argument"),
        ({"render_mode": "smell"}, "argument"),
        ({"limits": {"message": 100}}, "message_too_large"),
    ],
)
def test_an_environment_that_cannot_be_built_ends_the_session(connect: Any, fields: Any, code: str) -> None:
    client = connect()
    client.send(message("hello", _hello(**fields)))
    assert _refused(client) == (code, False, 1001)


def test_what_is_wrong_with_a_message_is_said_and_the_session_goes_on(connect: Any) -> None:
    client = connect()
    _opened(client)
    assert client.ask("reset", id=1)["type"] == "observation"
    close = message("close", {"id": 2})
    for wrong in (
        b"\xc1",
        close[:-1],
        close + b"\x00",
        message("hello", _hello()),
        message("close", {"id": 0}),
    ):
        client.send(wrong)
        error = client.receive()
        assert (error["code"], error["alive"], error.get("id", 0)) == ("protocol", True, 0)
    client.send(write({"type": "reset", "id": 2, "sede": 1}))
    assert "`sede`" in client.receive()["message"]
    error = client.ask("step", id=2, actions=b"\x01")
    assert (error["code"], error["alive"], error["id"]) == ("protocol", True, 2)
    error = client.ask("get", id=3, name="_secret")
    assert (error["code"], error["alive"], error["id"]) == ("forbidden", True, 3)
    error = client.ask("get", id=4, name="nothing")
    assert (error["code"], error["details"]["type"]) == ("environment", "AttributeError")
    assert client.ask("close", id=5)["type"] == "closed"


def test_a_message_that_is_too_large_costs_no_session(connect: Any, handover: bool) -> None:
    client = connect()
    key = _opened(client)
    client.ask("reset", id=1)
    client.send(bytes(LIMIT + 1))
    if handover:
        error = client.receive()
        assert (error["code"], error["alive"], error["details"]["limit"]) == (
            "message_too_large",
            True,
            LIMIT,
        )
    else:
        assert client.closing()[0] == 1009
        client = connect()
        assert client.ask("resume", **key)["last"] == 1
    assert client.ask("close", id=2)["type"] == "closed"


def test_a_repeat_gets_the_first_reply_and_later_ids_may_be_skipped(connect: Any) -> None:
    client = connect()
    _opened(client)
    client.ask("reset", id=1, seeds=[3])
    step = {"id": 2, "actions": bytes(8)}
    first = client.ask("step", **step)
    assert client.ask("step", **step) == first
    assert client.ask("step", **{**step, "id": 3}) != {**first, "id": 3}
    assert client.ask("get", id=9, name="gravity")["id"] == 9
    assert client.ask("get", id=8, name="gravity")["code"] == "protocol"


def test_requests_are_answered_in_turn_though_one_was_given_up(connect: Any) -> None:
    client = connect()
    _opened(client)
    for at in (1, 2, 3):
        client.send(message("reset", {"id": at, "seeds": [at]}))
    assert [client.receive()["id"] for _ in range(3)] == [1, 2, 3]


def test_a_lost_session_goes_on_where_it_was(connect: Any) -> None:
    first, second, third = connect(), connect(), connect()
    key = _opened(first)
    first.ask("reset", id=1, seeds=[3])
    transition = first.ask("step", id=2, actions=bytes(8))
    assert second.ask("resume", **key) == {"type": "resumed", "session": key["session"], "last": 2}
    assert second.ask("step", id=2, actions=bytes(8)) == transition
    assert second.ask("step", id=3, actions=bytes(8))["observations"] != transition["observations"]
    with pytest.raises((EOFError, AssertionError)):
        first.receive()
    assert third.ask("resume", **key)["last"] == 3
    third.send(message("close", {"id": 4}))
    assert third.receive() == {"type": "closed", "id": 4}


def test_a_session_without_requests_is_welcomed_again(connect: Any) -> None:
    key = _opened(connect())
    assert connect().ask("resume", **key)["type"] == "welcome"


def test_only_the_token_resumes_a_session_and_only_while_there_is_one(connect: Any) -> None:
    client, thief = connect(), connect()
    key = _opened(client)
    thief.send(message("resume", {**key, "token": bytes(16)}))
    assert _refused(thief) == ("authentication", False, 1013)
    second = connect()
    second.send(message("hello", {**key}))
    assert _refused(second) == ("protocol", False, 1013)
    assert client.ask("close", id=1)["type"] == "closed"
    assert client.closing()[0] == 1000
    assert _ending(connect, key) == ("session_lost", False, 1013)


def test_messages_in_fragments_with_pings_between_them(connect: Any) -> None:
    client = connect()
    _opened(client)
    request = message("reset", {"id": 1, "options": {"a": list(range(100))}})
    client.send(request[:7], fin=False)
    client.send(b"alive?", PING)
    client.send(request[7:90], 0, fin=False)
    client.send(request[90:], 0)
    assert client.frame() == (PONG, b"alive?")
    assert client.receive()["id"] == 1


def test_a_text_message_costs_the_connection_and_not_the_session(connect: Any) -> None:
    client = connect()
    key = _opened(client)
    client.ask("reset", id=1)
    client.send(b"hello", 1)
    assert client.closing()[0] == 1003
    again = connect()
    assert again.ask("resume", **key)["last"] == 1
    assert again.ask("close", id=2)["type"] == "closed"


def _numbers_of(lanes: Any, count: int) -> list[int]:
    return list(range(count)) if lanes is None else list(struct.unpack(f"<{len(lanes) // 4}I", lanes))


def test_lanes_step_together_in_parts_and_past_one_that_raises(connect: Any) -> None:
    client = connect()
    welcome = client.ask("hello", **_hello(lanes=3, capabilities=["lanes", "timing"]))
    seen, acts = welcome["observation_space"], welcome["action_space"]
    assert welcome["lanes"] == 3 <= welcome["limits"]["lanes"]
    local = [gym.make("CartPole-v1") for _ in range(3)]
    expected = [env.reset(seed=seed)[0] for env, seed in zip(local, (1, 2, 3), strict=True)]
    reply = client.ask("reset", id=1, seeds=[1, 2, 3])
    assert _same(read_column(seen, reply["observations"], 3), expected)
    at = 2
    for lanes, bad in (((0, 1, 2), ()), ((2, 0), ()), ((0, 1, 2), (1,))):
        named = struct.pack(f"<{len(lanes)}I", *lanes)
        actions = write_column(acts, [np.int64(7 if lane in bad else lane % 2) for lane in lanes])
        reply = client.ask("step", id=at, actions=actions, **({} if lanes == (0, 1, 2) else {"lanes": named}))
        failed = reply.get("failed", [])
        assert [(part["lane"], part["code"]) for part in failed] == [(lane, "environment") for lane in bad]
        done = _numbers_of(reply.get("lanes"), 3)
        assert done == sorted({*lanes} - {*bad})
        steps = [local[lane].step(lane % 2) for lane in done]
        assert _same(read_column(seen, reply["observations"], len(done)), [step[0] for step in steps])
        assert reply["rewards"] == struct.pack(f"<{len(done)}d", *(float(step[1]) for step in steps))
        assert reply["flags"] == bytes(len(done))
        assert len(reply["timing"]) == 1 + 2 * len(done)
        at += 1
    expected = [local[1].reset(seed=9)[0]]
    reply = client.ask("reset", id=at, seeds=[None, 9, None], mask=b"\x00\x01\x00")
    assert _numbers_of(reply["lanes"], 3) == [1]
    assert _same(read_column(seen, reply["observations"], 1), expected)
    assert client.ask("get", id=at + 1, name="gravity")["values"] == [9.8] * 3
    assert client.ask("close", id=at + 2)["type"] == "closed"
    for env in local:
        env.close()


def _same(values: list[Any], expected: list[Any]) -> bool:
    return [value.tobytes() for value in values] == [value.tobytes() for value in expected]
