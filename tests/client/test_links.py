"""A typed session over the binary protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym.client.links import BinaryLink, Request, payload_of
from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import RemoteProtocolError, ValidationError, ValueNotCarriedError
from openenv_gym.protocol import messages as m
from tests.client.sleeper import Gate
from tests.support.serverproc import eventually


@pytest.fixture
def link(sleeper_url: str) -> Iterator[BinaryLink]:
    opener = Opener(ClientSettings(base_url=sleeper_url, step_timeout=20.0), None, face="typed", json=True)
    link = opener.open_link(patient=False)
    assert isinstance(link, BinaryLink)
    yield link
    link.close()


def ask(link: BinaryLink, kind: Any, data: Any = None) -> Any:
    link.post(Request(kind, data))
    return link.collect()


def test_replies_have_the_form_of_openenvs_json(link: BinaryLink) -> None:
    assert ask(link, "reset", {"seed": 4, "colour": "red"}) == {
        "observation": {"said": "hello", "steps": 0},
        "reward": None,
        "done": False,
        "terminated": False,
        "truncated": False,
        "metadata": {"seed": 4, "colour": "red"},
    }
    payload = ask(link, "step", {"say": "end"})
    assert (payload["reward"], payload["done"], payload["terminated"]) == (0.5, True, True)
    state = ask(link, "state")
    assert (state["step_count"], state["slept"]) == (1, 0.0)


def test_an_error_leaves_the_session(link: BinaryLink) -> None:
    ask(link, "reset")
    with pytest.raises(ValidationError):
        ask(link, "step", {"seconds": "x"})
    assert not link.over
    assert ask(link, "step", {})["observation"]["steps"] == 1


def test_what_does_not_travel_is_refused_before_anything_is_sent(link: BinaryLink) -> None:
    ask(link, "reset", {"array": np.arange(3)})
    with pytest.raises(ValueNotCarriedError, match=r"action\['say'\]"):
        link.post(Request("step", {"say": object()}))
    assert ask(link, "step", {})["observation"]["steps"] == 1


def test_a_request_that_was_given_up_is_executed_and_its_reply_dropped(link: BinaryLink) -> None:
    ask(link, "reset")
    link.post(Request("step", {"seconds": 0.05, "say": "dropped"}))
    link.give_up()
    assert ask(link, "step", {"say": "kept"})["observation"] == {"said": "kept", "steps": 2}


def test_waiting_in_pieces(link: BinaryLink, gate: Gate) -> None:
    ask(link, "reset")
    link.post(Request("step", {"say": gate.say}))
    assert (link.connected(), link.ready(), link.due is not None, link.span) == (True, True, True, 1.0)
    with pytest.raises(TimeoutError):
        link.collect(time.monotonic() + 0.001)
    assert link.fileno() >= 0
    gate.open()
    assert eventually(link.poll)
    assert link.collect(time.monotonic())["observation"]["steps"] == 1
    link.restore()


def test_discarding_and_forgetting_end_it(link: BinaryLink) -> None:
    link.discard()
    assert link.over
    link.forget()
    assert not link.ready()


@pytest.mark.parametrize(
    "reply",
    [
        m.Observation(1, b"column"),
        m.Transition(1, {}, b"\0" * 8, b"\0"),
        m.Transition(1, {}, [1.0], b"\0\0"),
    ],
)
def test_a_reply_of_another_face_is_the_servers_fault(reply: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="not one of a typed session"):
        payload_of(reply)


def test_flags_say_how_an_episode_ended() -> None:
    payload = payload_of(m.Transition(1, {"a": 1}, [None], b"\2", [{"x": 1}]))
    assert (payload["terminated"], payload["truncated"], payload["done"]) == (False, True, True)
    assert (payload["reward"], payload["metadata"]) == (None, {"x": 1})
