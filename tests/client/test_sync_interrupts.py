from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openenv_gym.client import sync
from openenv_gym.errors import LocalProtocolError
from openenv_gym.protocol import messages as m

from .scripted import ScriptedServer
from .test_sync import connected, reward


def _interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def test_an_interrupt_before_sending_leaves_nothing_outstanding(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server, connected(server, request_timeout=5.0) as connection:
        connection.request(m.Reset)
        with monkeypatch.context() as patch:
            patch.setattr(sync, "monotonic", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                connection.request(m.Step, None)
        assert reward(connection.request(m.Step, None)) == 1.0
        assert server.seen == ["hello", "reset", "step"]


def test_an_interrupt_while_one_is_dealt_with_leaves_its_reply_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        with monkeypatch.context() as patch:
            channel: Any = connection._channel
            receive = type(channel).recv
            # The server's end is of the same class, and in this process.
            patch.setattr(
                type(channel),
                "recv",
                lambda end, *args: (_interrupted if end is channel else receive)(end, *args),
            )
            patch.setattr(connection, "_exceptional", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                connection.request(m.Step, None)
        assert reward(connection.request(m.Step, None)) == 2.0
        assert server.seen == ["hello", "reset", "step", "step"]
        assert set(server.executed.values()) == {1}


def test_an_interrupt_that_cuts_a_resume_short_is_got_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.script.append("executed")
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_disconnect", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                connection.request(m.Step, None)
        assert not connection.over
        assert isinstance(connection.request(m.Reset), m.Observation)
        assert set(server.executed.values()) == {1}


def test_a_call_from_within_a_call_is_refused_and_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        receive = connection.wire.receive
        refused: list[BaseException] = []

        def nested(frame: bytes) -> Any:
            with pytest.raises(LocalProtocolError, match="a call is under way") as caught:
                connection.request(m.Render)
            refused.append(caught.value)
            return receive(frame)

        with monkeypatch.context() as patch:
            patch.setattr(connection, "wire", _Wire(connection.wire, nested))
            assert reward(connection.request(m.Step, None)) == 1.0
        assert len(refused) == 1
        assert reward(connection.request(m.Step, None)) == 2.0


class _Wire:
    """A protocol session whose ``receive`` is another one."""

    def __init__(self, wire: Any, receive: Callable[[bytes], Any]) -> None:
        self._wire = wire
        self.receive = receive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)
