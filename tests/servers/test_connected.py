"""A client that is lost and comes back while its call runs, or too late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym.errors import ServerConnectionError, ServerDrainingError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.transport.channel import Channel
from openenv_gym.transport.endings import ChannelSilence

from .test_seat import _Scene

_PATIENCE = 10.0


@pytest.fixture
def scene() -> Iterator[_Scene]:
    """Return a session whose call runs until ``stage.gate`` is set."""
    scene = _Scene()
    assert isinstance(scene.receive(), m.Welcome)
    scene.client.send(encode(m.Get(1, "gate")))
    assert scene.stage.entered.wait(_PATIENCE)
    yield scene
    scene.stage.gate.set()
    scene.seat.end(ServerDrainingError("the test is over"))
    scene.finish()
    scene.client.abort()


def test_the_loss_is_reported_once_and_the_return_at_once(scene: _Scene) -> None:
    scene.seat.attend()
    assert scene.events == ["opened"]
    scene.client.abort()
    for _ in range(3):
        scene.seat.attend()
    assert scene.events == ["opened", "detached"]
    scene.reconnect()
    scene.seat.attend()
    assert scene.events == ["opened", "detached", "attached"]


def test_the_newest_connection_gets_the_signs_of_life_and_then_the_reply(scene: _Scene) -> None:
    scene.reconnect()
    before = scene.client.last_received
    scene.client.ping()
    scene.seat.attend()
    scene.seat.beat()
    with pytest.raises(ChannelSilence):  # nothing but pongs
        scene.client.recv(None, 0.05)
    assert scene.client.last_received > before
    scene.stage.gate.set()
    assert scene.receive() == m.Resumed("a" * 32, last=1)
    assert scene.ask(m.Get(1, "gate")) == m.Value(1, [1])
    assert len(scene.stage.executed) == 1


def test_a_loss_is_no_news_after_the_return(scene: _Scene) -> None:
    scene.client.abort()
    scene.reconnect()
    scene.seat.attend()
    assert scene.events == ["opened", "attached"]
    scene.stage.gate.set()
    assert scene.receive() == m.Resumed("a" * 32, last=1)
    assert scene.events == ["opened", "attached", "attached"]


def test_a_connection_that_comes_when_the_session_has_just_ended_is_closed() -> None:
    scene = _Scene()
    assert isinstance(scene.receive(), m.Welcome)
    late: list[Channel] = []
    report: Any = scene.seat._report

    def come_late(what: str, facts: Any = None) -> None:
        if what == "left":
            ours, theirs = scene.connect()
            late.append(ours)
            scene.seat.attach(theirs)
        report(what, facts)

    scene.seat._report = come_late
    assert scene.ask(m.Close(1)) == m.Closed(1)
    scene.finish()
    with pytest.raises(ServerConnectionError, match="lost"):
        late[0].recv(time.monotonic() + _PATIENCE)
    assert scene.events == ["opened", "ended", "left"]
    for channel in (scene.client, *late):
        channel.abort()
