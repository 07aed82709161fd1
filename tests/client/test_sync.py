from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.client import flows
from openenv_gym.client.connect import connect
from openenv_gym.client.endpoint import parse_endpoint
from openenv_gym.client.flows import Conversation
from openenv_gym.client.sync import Connection
from openenv_gym.errors import (
    DeadlineExceededError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    ServerConnectionError,
    ServerDrainingError,
    SessionLostError,
    WorkerCrashedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.transport.channel import Channel

from .scripted import POINTS, Life, ScriptedServer, count_steps, interrupt_when


@pytest.fixture(autouse=True, scope="module")
def _short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows, "_FIRST_PAUSE", 0.0005)
        yield


@contextmanager
def connected(
    server: ScriptedServer,
    *,
    keepalive: tuple[float, float] | None = None,
    connect_timeout: float = 30.0,
    request_timeout: float | None = None,
) -> Iterator[Connection]:
    endpoint = parse_endpoint(server.base_url)
    hello = m.Hello(session="", token=b"")

    def dial(deadline: float | None) -> Channel:
        return connect(endpoint, deadline)

    talk = Conversation(hello, keepalive, connect_timeout, server.base_url)
    connection = Connection(talk, dial, request_timeout=request_timeout)
    try:
        yield connection
    finally:
        connection.drop()


def reward(reply: m.Transition) -> float:
    return float(struct.unpack("<d", reply.rewards)[0])


def test_requests_are_answered_in_order() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        assert isinstance(connection.request(m.Reset), m.Observation)
        assert [reward(connection.request(m.Step, None)) for _ in range(3)] == [1.0, 2.0, 3.0]
        connection.close()
        assert connection.over
        assert server.seen == ["hello", "reset", "step", "step", "step", "close"]


@pytest.mark.parametrize("point", POINTS)
def test_a_cut_at_any_point_executes_each_request_once(point: str) -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.script.append(point)
        if point in ("accepted", "upgraded", "opener", "answered"):
            server.cut_now()
        rewards = [reward(connection.request(m.Step, None)) for _ in range(3)]
        assert rewards == [1.0, 2.0, 3.0]
        assert not server.script
        assert set(server.executed.values()) == {1}


def test_a_connection_that_is_refused_from_the_start_is_not_tried_again() -> None:
    with ScriptedServer(["accepted"]) as server:
        with (
            pytest.raises(ServerConnectionError, match=r"reset by peer|during the handshake"),
            connected(server),
        ):
            pass
        assert server.paths == []


@pytest.mark.parametrize("point", ["upgraded", "opener", "answered"])
def test_a_cut_while_the_session_opens_opens_it_once(point: str) -> None:
    with ScriptedServer([point]) as server:
        with connected(server) as connection:
            assert reward(connection.request(m.Step, None)) == 1.0
        assert list(server.executed.values()) == [1]
        assert len(server.sessions) == 1


@given(st.lists(st.sampled_from(POINTS), max_size=8), st.integers(1, 4))
def test_any_sequence_of_cuts_executes_each_request_once(script: list[str], steps: int) -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.script.extend(script)
        assert [reward(connection.request(m.Step, None)) for _ in range(steps)] == [
            float(step) for step in range(1, steps + 1)
        ]
        assert set(server.executed.values()) == {1}


def test_a_server_that_forgot_the_session_says_so_and_nothing_is_executed_again() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.script.extend(["executed", "kill"])
        with pytest.raises(SessionLostError, match="does not know this session") as caught:
            connection.request(m.Step, None)
        assert type(caught.value) is SessionLostError
        assert caught.value.server == server.base_url
        assert connection.over
        assert set(server.executed.values()) == {1}
        with pytest.raises(SessionLostError, match=r"reset\(\) starts a new one"):
            connection.request(m.Step, None)


def test_the_last_words_of_a_server_that_closed_between_two_requests_are_heard() -> None:
    ours, theirs = socket.socketpair()  # where sending fails at once after the peer closed
    server, channels = Channel(theirs, client=False), iter([Channel(ours, client=True)])
    server.send(encode(m.Welcome(session="", token=b"")))
    talk = Conversation(m.Hello(session="", token=b""), None, 5.0, "unix:/s")
    connection = Connection(talk, lambda deadline: next(channels), request_timeout=None)
    server.recv()
    server.send(encode(m.Error("server_draining", "the server is shutting down")))
    server.close(1001, timeout=0.0)
    with pytest.raises(ServerDrainingError, match="the server is shutting down"):
        connection.request(m.Step, None)
    assert connection.over


def test_a_server_that_is_gone_is_a_connection_error_within_the_connect_timeout() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        connection._talk.connect_timeout = 0.2
        server.__exit__()
        with pytest.raises(ServerConnectionError, match="there is no new one") as caught:
            connection.request(m.Step, None)
        assert isinstance(caught.value.__cause__, ServerConnectionError)
        assert connection.over


def test_an_error_reply_is_raised_and_the_session_goes_on() -> None:
    def answer(request: Any, life: Life) -> Any:
        if isinstance(request, m.Get):
            details = {"type": "KeyError", "traceback": "Traceback: there\n"}
            return m.Error("environment", "KeyError: 'x'", request.id, True, details)
        return count_steps(request, life)

    with ScriptedServer(answer=answer) as server, connected(server) as connection:
        with pytest.raises(RemoteEnvironmentError) as caught:
            connection.request(m.Get, "x")
        assert str(caught.value) == "KeyError: 'x'\n\nIn the environment:\nTraceback: there"
        assert not connection.over
        assert reward(connection.request(m.Step, None)) == 1.0


def test_an_error_that_ends_the_session_is_raised_and_the_connection_is_over() -> None:
    def answer(request: Any, life: Life) -> Any:
        return m.Error(
            "worker_crashed", "it died", request.id, False, {"exit_code": -11, "signal": "SIGSEGV"}
        )

    with ScriptedServer(answer=answer) as server, connected(server) as connection:
        with pytest.raises(WorkerCrashedError) as caught:
            connection.request(m.Step, None)
        assert caught.value.details == {"exit_code": -11, "signal": "SIGSEGV"}
        assert connection.over


def test_a_reply_of_the_wrong_kind_ends_the_connection() -> None:
    def answer(request: Any, life: Life) -> Any:
        life.wire.pending = m.Render(request.id)  # so that this side lets it pass
        return m.Frames(request.id, [])

    with ScriptedServer(answer=answer) as server, connected(server) as connection:
        with pytest.raises(RemoteProtocolError, match="'frames' does not answer 'step'"):
            connection.request(m.Step, None)
        assert connection.over


def test_an_interrupted_request_leaves_its_reply_to_nobody() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.hold.clear()
        with interrupt_when(lambda: server.seen[-1:] == ["step"]), pytest.raises(KeyboardInterrupt):
            connection.request(m.Step, None)
        assert not connection.over
        server.hold.set()
        assert isinstance(connection.request(m.Reset), m.Observation)
        assert reward(connection.request(m.Step, None)) == 1.0
        assert set(server.executed.values()) == {1}
        assert server.seen == ["hello", "reset", "step", "reset", "step"]


def test_a_request_has_its_whole_time_after_one_that_was_given_up() -> None:
    with ScriptedServer() as server, connected(server, request_timeout=3.0) as connection:
        connection.request(m.Reset)
        server.hold.clear()
        with interrupt_when(lambda: server.seen[-1:] == ["step"]), pytest.raises(KeyboardInterrupt):
            connection.request(m.Step, None)
        threading.Timer(4.0, server.hold.set).start()
        assert isinstance(connection.request(m.Reset), m.Observation)


def test_an_interrupt_while_connecting_again_leaves_the_session_to_be_resumed() -> None:
    with ScriptedServer() as server, connected(server, connect_timeout=30) as connection:
        connection.request(m.Reset)
        dial, connection._dial = connection._dial, _stuck
        server.script.append("executed")
        with interrupt_when(lambda: _stuck_now.is_set()), pytest.raises(KeyboardInterrupt):
            connection.request(m.Step, None)
        connection._dial = dial
        assert not connection.over
        assert isinstance(connection.request(m.Reset), m.Observation)
        assert server.seen == ["hello", "reset", "step", "resume", "reset"]
        assert set(server.executed.values()) == {1}


_stuck_now = threading.Event()


def _stuck(deadline: float | None) -> Channel:
    _stuck_now.set()
    time.sleep(30)
    raise AssertionError("was not interrupted")


def test_a_request_over_its_deadline_ends_the_session() -> None:
    with ScriptedServer() as server, connected(server, request_timeout=0.05) as connection:
        server.hold.clear()
        with pytest.raises(
            DeadlineExceededError, match=r"step took longer than step_timeout=0.05 s"
        ) as caught:
            connection.request(m.Step, None)
        assert caught.value.details == {"operation": "step", "deadline": 0.05}
        assert connection.over


def test_a_timeout_error_of_a_signal_handler_is_not_taken_for_ours() -> None:
    def handler(signum: int, frame: object) -> None:
        raise TimeoutError("mine")

    with ScriptedServer() as server, connected(server) as connection:
        server.hold.clear()
        with (
            interrupt_when(lambda: server.seen[-1:] == ["step"], handler),
            pytest.raises(TimeoutError, match="mine"),
        ):
            connection.request(m.Step, None)
        server.hold.set()
        assert not connection.over
        assert isinstance(connection.request(m.Reset), m.Observation)


def test_a_silent_but_living_server_is_waited_for() -> None:
    with ScriptedServer() as server, connected(server, keepalive=(0.02, 30.0)) as connection:
        server.hold.clear()
        waiting = threading.Timer(0.2, server.hold.set)
        waiting.start()
        # The scripted server answers no ping while it executes; the reply comes in time all the same.
        assert reward(connection.request(m.Step, None)) == 1.0
        waiting.join()
        assert server.seen == ["hello", "step"]


def test_a_server_that_stays_silent_is_asked_again_on_a_new_connection() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection._talk.keepalive, connection._talk.connect_timeout = (0.05, 0.05), 0.2
        connection._silence = 0.05
        server.hold.clear()
        with pytest.raises(ServerConnectionError, match=r"keepalive|there is no new one"):
            connection.request(m.Step, None)
        assert connection.over


def test_a_signal_handler_may_close_the_connection_that_waits() -> None:
    def handler(signum: int, frame: object) -> None:
        connection.close()

    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.hold.clear()
        with (
            interrupt_when(lambda: server.seen[-1:] == ["step"], handler),
            pytest.raises(ServerConnectionError),
        ):
            connection.request(m.Step, None)
        assert connection.over
        assert "resume" not in server.seen


def test_threads_take_turns() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        rewards: list[float] = []

        def work() -> None:
            for _ in range(20):
                rewards.append(reward(connection.request(m.Step, None)))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(rewards) == [float(step) for step in range(1, 161)]


def test_check_resumes_what_was_cut_while_idle() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.cut_now()
        _wait(lambda: connection._channel is not None and connection._channel.attend() < 0)
        connection.check()
        assert server.seen == ["hello", "reset", "resume"]
        assert reward(connection.request(m.Step, None)) == 1.0


def test_check_finds_a_lost_session_without_executing_anything() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        server.sessions.clear()
        server.cut_now()
        _wait(lambda: connection._channel is not None and connection._channel.attend() < 0)
        with pytest.raises(SessionLostError):
            connection.check()
        assert connection.over
        assert len(server.executed) == 1


def _wait(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


def test_discard_ends_the_session_without_waiting() -> None:
    with ScriptedServer() as server:
        with connected(server) as connection:
            connection.request(m.Reset)
            server.hold.clear()
            connection.discard()
            assert connection.over
            server.hold.set()
        _wait(lambda: "close" in server.seen)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_leaves_the_connection_to_its_parent() -> None:
    with ScriptedServer() as server, connected(server) as connection:
        connection.request(m.Reset)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                connection.request(m.Step, None)
            except SessionLostError:
                connection.drop()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert reward(connection.request(m.Step, None)) == 1.0
        assert server.seen == ["hello", "reset", "step"]


def test_a_large_message_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Any, life: Life) -> Any:
        return m.Frames(request.id, [bytes(5 << 20)])

    welcome = {"target": "Big-v0"}
    with ScriptedServer(answer=answer, welcome=welcome) as server, connected(server) as connection:
        connection.request(m.Render)
        connection.request(m.Render)
    notes = [record for record in caplog.records if "sends messages of" in record.message]
    assert len(notes) == 1
    assert "Big-v0" in notes[0].message
    assert str((5 << 20) + 20)[:4] in notes[0].message
