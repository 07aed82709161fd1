"""The last moments of a session."""

from __future__ import annotations

import time
from typing import Any

import pytest

from openenv_gym.errors import ServerConnectionError
from openenv_gym.protocol import messages as m
from openenv_gym.transport.channel import Channel

from .test_seat import _Scene

_PATIENCE = 10.0


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
