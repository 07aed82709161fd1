"""A session over OpenEnv's JSON, against a server that does what a script says."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client.connect import connect
from openenv_gym.client.deadline import deadline_in
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.client.jsonlink import JsonLink, error_from_json, number
from openenv_gym.client.links import Request
from openenv_gym.transport.texts import TextChannel
from tests.client.jsonserver import JsonServer, observation, serving_json
from tests.support.serverproc import eventually


def link_to(server: JsonServer, **options: Any) -> JsonLink:
    channel = connect(parse_endpoint(server.url), deadline_in(30), json=True, max_message=100_000)
    assert isinstance(channel, TextChannel)
    return JsonLink(channel, server.url, **{"timeout": 30.0, "keepalive": None, **options})


def ask(link: JsonLink, kind: Any, data: Any = None) -> Any:
    link.post(Request(kind, data))
    return link.collect()


def test_messages_have_exactly_the_fields_that_openenv_allows() -> None:
    def answer(message: dict[str, Any], number: int) -> Any:
        return {"type": "state", "data": {"x": 1}} if message["type"] == "state" else observation({"a": 1})

    with serving_json(answer) as server:
        link = link_to(server)
        ask(link, "reset", {"seed": 3, "where": np.arange(2)})
        ask(link, "step", {"message": "hi", "blob": b"\0\xff", "nan": math.nan})
        assert ask(link, "state") == {"x": 1}
        link.close()
    assert server.seen == [
        {"type": "reset", "data": {"seed": 3, "where": [0, 1]}},
        {"type": "step", "data": {"message": "hi", "blob": "AP8=", "nan": "NaN"}},
        {"type": "state"},
        {"type": "close"},
    ]


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ({}, {"reward": None, "done": False, "terminated": False, "truncated": False, "metadata": {}}),
        ({"reward": True, "done": True}, {"reward": True, "done": True, "terminated": True}),
        ({"reward": "NaN"}, {}),
        (
            {"done": True, "terminated": False, "truncated": True},
            {"terminated": False, "truncated": True, "done": True},
        ),
        ({"done": True, "truncated": True}, {"terminated": False, "truncated": True}),
        ({"done": None, "metadata": {"a": [1]}}, {"done": False, "metadata": {"a": [1]}}),
    ],
)
def test_what_a_server_leaves_out_is_filled_in(beside: dict[str, Any], expected: dict[str, Any]) -> None:
    with serving_json(lambda message, number: observation({"echoed": "x"}, **beside)) as server:
        link = link_to(server)
        payload = ask(link, "reset", {})
        link.close()
    assert payload["observation"] == {"echoed": "x"}
    assert {name: payload[name] for name in expected} == expected
    if beside.get("reward") == "NaN":
        assert math.isnan(payload["reward"])


def test_f034_metadata_are_taken_from_wherever_they_are() -> None:
    fields = {"echoed": "x", "metadata": {"step": 1, "nested": {"a": [1, 2]}, "task": None}}
    with serving_json(lambda message, number: observation(fields)) as server:
        link = link_to(server)
        payload = ask(link, "reset", {})
        link.close()
    assert payload["observation"] == {"echoed": "x"}
    assert payload["metadata"] == fields["metadata"]


def test_numbers_that_json_lacks_are_spelled() -> None:
    assert math.isnan(number("NaN"))
    assert [number("Infinity"), number("-Infinity"), number("x"), number(True), number(None)] == [
        math.inf,
        -math.inf,
        "x",
        True,
        None,
    ]


PYDANTIC = [{"type": "string_too_short", "loc": ["items", 0, "name"], "msg": "too short", "input": ""}]


@pytest.mark.parametrize(
    ("data", "kind", "says", "over"),
    [
        ({"code": "EXECUTION_ERROR", "message": "kaboom"}, errors.RemoteEnvironmentError, "kaboom", False),
        (
            {"code": "VALIDATION_ERROR", "message": "Invalid", "errors": PYDANTIC},
            errors.ValidationError,
            r"Invalid: \$\.items\[0\]\.name: too short",
            False,
        ),
        ({"code": "VALIDATION_ERROR", "message": "Invalid"}, errors.ValidationError, "Invalid", False),
        ({"code": "UNKNOWN_TYPE", "message": "Unknown"}, errors.UnsupportedError, "Unknown", False),
        ({"code": "INVALID_JSON", "message": "bad"}, errors.ProtocolError, "bad .INVALID_JSON", False),
        (
            {"code": "CAPACITY_REACHED", "message": "full", "active_sessions": 2, "max_sessions": 2},
            errors.CapacityError,
            "full",
            True,
        ),
        (
            {"code": "FACTORY_ERROR", "message": "no", "factory_name": "X"},
            errors.ConstructionError,
            "no",
            True,
        ),
        ({"code": "SESSION_ERROR", "message": "gone"}, errors.SessionLostError, "gone; reset", True),
        (
            {"code": "EXECUTION_ERROR", "message": "late", "error": "reset_needed", "details": {}},
            errors.ResetNeededError,
            "late",
            False,
        ),
        (None, errors.ProtocolError, "gave no reason", False),
    ],
)
def test_error_messages_are_typed_errors(
    data: Any, kind: type[errors.OpenEnvError], says: str, over: bool
) -> None:
    with serving_json(lambda message, number: {"type": "error", "data": data}) as server:
        link = link_to(server)
        with pytest.raises(kind, match=says) as caught:
            ask(link, "step", {"message": ""})
        assert type(caught.value) is kind
        assert caught.value.server == server.url
        assert link.over is over
        link.close()


def test_details_of_errors_are_kept() -> None:
    error, ended = error_from_json({"code": "CAPACITY_REACHED", "active_sessions": 2, "max_sessions": 3}, "s")
    assert (error.details, ended) == ({"active": 2, "max": 3}, True)
    error, _ = error_from_json({"code": "VALIDATION_ERROR", "message": "m", "errors": PYDANTIC}, "s")
    assert error.details["path"] == "$.items[0].name"


def test_an_error_that_comes_unasked_answers_the_first_request() -> None:
    full = {"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "Server at capacity"}}
    with serving_json(greeting=full) as server:
        link = link_to(server)
        with pytest.raises(errors.CapacityError, match="Server at capacity"):
            ask(link, "reset", {})
        assert link.over


def test_f009_a_reply_that_comes_late_is_never_taken_for_the_next_one() -> None:
    release = threading.Event()

    def answer(message: dict[str, Any], connection: int) -> Any:
        release.wait(60)
        return observation({"echoed": message["data"]["say"]})

    with serving_json(answer) as server:
        link = link_to(server, timeout=0.05)
        with pytest.raises(errors.DeadlineExceededError, match="message_timeout_s"):
            ask(link, "step", {"say": "first"})
        assert link.over
        assert not link.ready()
        with pytest.raises(errors.SessionLostError):
            ask(link, "step", {"say": "second"})
        release.set()


def test_patience_ends_a_wait_and_not_the_request() -> None:
    release = threading.Event()

    def answer(message: dict[str, Any], connection: int) -> Any:
        release.wait(60)
        return observation({"echoed": "at last"})

    with serving_json(answer) as server:
        link = link_to(server)
        link.post(Request("reset", {}))
        with pytest.raises(TimeoutError):
            link.collect(time.monotonic() + 0.01)
        assert not link.poll()
        release.set()
        assert link.collect()["observation"] == {"echoed": "at last"}
        link.close()


def test_giving_a_request_up_ends_the_session() -> None:
    with serving_json() as server:
        link = link_to(server)
        link.give_up()
        assert not link.over
        link.post(Request("reset", {}))
        link.give_up()
        assert link.over


def test_a_lost_connection_is_a_lost_session() -> None:
    def cut(message: dict[str, Any], connection: int) -> Any:
        raise ConnectionAbortedError

    with serving_json(cut) as server:
        link = link_to(server)
        with pytest.raises(errors.SessionLostError, match="the connection was lost .*reset.. starts"):
            ask(link, "reset", {})
        assert link.over
        with pytest.raises(errors.SessionLostError, match="with it the session"):
            link.restore()


@pytest.mark.parametrize(
    "reply",
    [
        "{",
        "[]",
        '"x"',
        '{"type": "state", "data": {}}',
        '{"type": "observation"}',
        '{"type": "observation", "data": {"observation": [], "done": false}}',
        '{"type": "observation", "data": {"observation": {}, "done": "no"}}',
        b"x",
    ],
)
def test_a_reply_that_is_none_ends_the_session(reply: Any) -> None:
    with serving_json(lambda message, number: reply) as server:
        link = link_to(server)
        with pytest.raises(errors.RemoteProtocolError):
            ask(link, "reset", {})
        assert link.over


def test_a_reply_over_the_limit_is_dropped_and_the_session_goes_on() -> None:
    def answer(message: dict[str, Any], connection: int) -> Any:
        return observation({"echoed": "x" * message["data"]["size"]})

    with serving_json(answer) as server:
        link = link_to(server)
        with pytest.raises(errors.MessageTooLargeError):
            ask(link, "step", {"size": 200_000})
        assert ask(link, "step", {"size": 1})["observation"] == {"echoed": "x"}
        link.close()


def test_what_json_cannot_hold_is_refused_before_anything_is_sent() -> None:
    with serving_json() as server:
        link = link_to(server)
        with pytest.raises(errors.ValueNotCarriedError, match=r"\$\.it"):
            link.post(Request("step", {"it": object()}))
        ask(link, "step", {"lone": "\ud800"})
        link.close()
    assert [message["data"] for message in server.seen[:1]] == [{"lone": "\ud800"}]


def test_a_server_that_gives_no_sign_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def answer(message: dict[str, Any], connection: int) -> Any:
        release.wait(60)
        return None

    with serving_json(answer, ping_interval=None) as server:
        link = link_to(server, keepalive=(0.05, 0.05))
        monkeypatch.setattr(TextChannel, "ping", lambda channel, payload=b"": True)  # a proxy swallows it
        with pytest.raises(errors.SessionLostError, match="websocket_ping_interval_s=None"):
            ask(link, "reset", {})
        release.set()


def test_a_silent_server_that_answers_pings_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pings: list[bytes] = []
    ping = TextChannel.ping

    def counted(channel: TextChannel, payload: bytes = b"") -> bool:
        pings.append(payload)
        return ping(channel, payload)

    def answer(message: dict[str, Any], connection: int) -> Any:
        return observation({"asked": eventually(lambda: len(pings) > 2)})  # each after an answer to the last

    monkeypatch.setattr(TextChannel, "ping", counted)
    with serving_json(answer) as server:
        link = link_to(server, keepalive=(0.05, 30.0))
        assert ask(link, "reset", {})["observation"] == {"asked": True}
        link.close()


def test_collecting_without_a_request_is_our_own_fault() -> None:
    with serving_json() as server:
        link = link_to(server)
        with pytest.raises(errors.LocalProtocolError, match="post.. one first"):
            link.collect()
        link.forget()
        assert link.over
