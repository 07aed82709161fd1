from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from openenv_gym.client import flows
from openenv_gym.client.connect import connect
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.client.flows import Conversation
from openenv_gym.client.pulse import Pulse
from openenv_gym.client.split import SplitConnection
from openenv_gym.errors import (
    DeadlineExceededError,
    LocalProtocolError,
    ServerConnectionError,
    SessionLostError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.transport.channel import Channel
from tests.support.serverproc import eventually

from .scripted import POINTS, ScriptedServer, interrupt_when


@pytest.fixture(autouse=True, scope="module")
def _short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows, "_FIRST_PAUSE", 0.0005)
        yield


@contextmanager
def asked(
    server: ScriptedServer,
    *,
    keepalive: tuple[float, float] | None = None,
    request_timeout: float | None = None,
) -> Iterator[SplitConnection]:
    endpoint = parse_endpoint(server.base_url)

    def dial(deadline: float | None) -> Channel:
        return connect(endpoint, deadline)

    talk = Conversation(m.Hello(session="", token=b""), keepalive, 30.0, server.base_url)
    connection = SplitConnection(talk, dial, request_timeout=request_timeout)
    try:
        yield connection
    finally:
        connection.drop()


@contextmanager
def opened(server: ScriptedServer, **options: object) -> Iterator[SplitConnection]:
    with asked(server, **options) as connection:  # type: ignore[arg-type]
        connection.complete()
        yield connection


def reward(reply: m.Transition) -> float:
    return float(struct.unpack("<d", reply.rewards)[0])


def test_hello_is_sent_before_anybody_waits_for_the_session() -> None:
    with ScriptedServer() as server, asked(server) as connection:
        assert eventually(lambda: server.seen == ["hello"])
        assert not connection.outstanding
        connection.complete()
        connection.complete()
        assert connection.welcome.session in server.sessions


@pytest.mark.parametrize("point", ["upgraded", "opener", "answered"])
def test_a_cut_while_the_session_opens_opens_it_once(point: str) -> None:
    with ScriptedServer([point]) as server, opened(server) as connection:
        connection.post(m.Step, None)
        assert reward(connection.collect()) == 1.0
        assert len(server.sessions) == 1


def test_a_request_runs_while_its_client_does_something_else() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        connection.post(m.Reset)
        assert connection.outstanding
        assert isinstance(connection.collect(), m.Observation)
        assert not connection.outstanding
        with pytest.raises(LocalProtocolError, match=r"post\(\) one first"):
            connection.collect()
        connection.post(m.Step, None)
        with pytest.raises(LocalProtocolError, match="may not come in phase busy"):
            connection.post(m.Step, None)
        assert reward(connection.collect()) == 1.0


@pytest.mark.parametrize("crowded", [True, False])
def test_who_needs_the_core_for_others_sleeps_at_once(crowded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    receive = Channel.recv

    def recv(self: Channel, *args: Any) -> bytes | bytearray:
        asked.extend(args[2:])  # the server's own calls have none
        return receive(self, *args)

    with ScriptedServer() as server, opened(server) as connection:
        monkeypatch.setattr(Channel, "recv", recv)
        connection.crowded = crowded
        connection.post(m.Step, None)
        assert reward(connection.collect()) == 1.0
        monkeypatch.undo()
    assert asked == [not crowded]


@pytest.mark.parametrize("patience", [None, 30.0])
@pytest.mark.parametrize("point", POINTS)
def test_a_cut_at_any_point_executes_each_request_once(point: str, patience: float | None) -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.script.append(point)
        if point in ("accepted", "upgraded", "opener", "answered"):
            server.cut_now()
        rewards = []
        for _ in range(3):
            connection.post(m.Step, None)
            until = None if patience is None else time.monotonic() + patience
            rewards.append(reward(connection.collect(until)))
        assert rewards == [1.0, 2.0, 3.0]
        assert not server.script
        assert set(server.executed.values()) == {1}


def test_who_stops_waiting_may_wait_again() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.hold.clear()
        connection.post(m.Step, None)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                connection.collect(time.monotonic() + 0.01)
        assert connection.outstanding
        assert not connection.poll()
        server.hold.set()
        assert reward(connection.collect(time.monotonic() + 30)) == 1.0
        assert set(server.executed.values()) == {1}


def test_a_connection_that_broke_is_restored_while_there_is_patience() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.hold.clear()
        connection.post(m.Step, None)
        server.script.append("executed")
        server.hold.set()
        while server.script:
            time.sleep(0.001)
        assert eventually(connection.poll)
        assert reward(connection.collect(time.monotonic() + 30)) == 1.0


def test_a_lost_session_is_lost_with_patience_too() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.script.extend(["executed", "kill"])
        connection.post(m.Step, None)
        with pytest.raises(SessionLostError, match="does not know this session"):
            connection.collect(time.monotonic() + 30)
        assert connection.over
        assert not connection.outstanding


def test_a_deadline_ends_the_session_however_much_patience_there_is() -> None:
    with ScriptedServer() as server, opened(server, request_timeout=0.01) as connection:
        server.hold.clear()
        connection.post(m.Step, None)
        assert connection.due is not None
        with pytest.raises(DeadlineExceededError, match=r"step_timeout=0.01 s"):
            connection.collect(time.monotonic() + 30)
        assert connection.over


def test_a_selector_sees_the_reply_and_poll_agrees() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        connection.post(m.Step, None)
        readable, _, _ = select.select([connection.fileno()], [], [], 30)
        assert readable == [connection.fileno()]
        assert connection.poll()
        assert connection.poll()
        assert reward(connection.collect()) == 1.0
        assert not connection.poll()


def test_a_peer_that_gives_no_sign_of_life_is_asked_and_given_up() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        connection.pulse = Pulse((0.01, 0.02))
        server.hold.clear()
        connection.post(m.Step, None)
        assert eventually(connection.poll)
        server.hold.set()
        assert reward(connection.collect()) == 1.0
        assert set(server.executed.values()) == {1}


def test_an_interrupt_leaves_the_session_and_the_late_reply_to_nobody() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.hold.clear()
        connection.post(m.Step, None)
        with interrupt_when(lambda: len(server.executed) == 1), pytest.raises(KeyboardInterrupt):
            connection.collect()
        assert not connection.outstanding
        server.hold.set()
        connection.post(m.Step, None)
        assert reward(connection.collect()) == 2.0


def test_close_asks_first_and_waits_later() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        connection.begin_close()
        connection.close()
        connection.close()
        assert connection.over
        assert server.seen == ["hello", "close"]


def test_close_does_not_wait_for_a_reply_that_nobody_wants() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        server.hold.clear()
        connection.post(m.Step, None)
        connection.begin_close(0.05)
        connection.close()
        assert connection.over


def test_close_of_a_session_that_opens_yet_closes_it_in_order() -> None:
    with ScriptedServer() as server, asked(server) as connection:
        connection.close()
        assert connection.over
        assert server.seen == ["hello", "close"]


def test_a_session_that_opens_yet_can_be_given_up() -> None:
    with ScriptedServer() as server, asked(server) as connection:
        connection.discard()
        assert connection.over
        with pytest.raises(SessionLostError):
            connection.post(m.Step, None)


def test_a_server_that_is_gone_ends_the_wait() -> None:
    with ScriptedServer() as server, opened(server) as connection:
        connection._talk.connect_timeout = 0.1
        server.__exit__()
        with pytest.raises(ServerConnectionError):
            connection.post(m.Step, None)
            connection.collect()
        connection.close()
        assert connection.over
