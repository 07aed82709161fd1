"""A session's thread: at most once, resumed, ended, condemned; over a real socket pair, with a fake stage."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym.errors import DeadlineExceededError, ServerConnectionError, ServerDrainingError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.servers.board import Operation
from openenv_gym.servers.seat import Seat
from openenv_gym.servers.stages import Plan
from openenv_gym.transport.channel import Channel

_PATIENCE = 10.0


class _Stage:
    """Counts what it executes; a request named ``gate`` waits for the test."""

    def __init__(self) -> None:
        self.executed: list[Any] = []
        self.spent: Any = None
        self.closed = 0
        self.gate = threading.Event()
        self.entered = threading.Event()

    def answer(self, request: Any) -> m.Reply:
        self.executed.append(request)
        if isinstance(request, m.Get):
            if request.name == "gate":
                self.entered.set()
                assert self.gate.wait(_PATIENCE)
            if request.name == "spent":
                self.spent = "what is left"
            if request.name == "bad":
                raise ValueError("no such thing")
            return m.Value(request.id, [len(self.executed)])
        raise AssertionError(request)

    def close(self) -> None:
        self.closed += 1


class _Scene:
    def __init__(self, grace: float = _PATIENCE, hello: bytes | None = None) -> None:
        self.stage = _Stage()
        self.reports: list[tuple[str, Any]] = []
        self.cells: list[int] = []
        plan = Plan(
            lambda hello, local: (self.stage, {"target": "fake"}), dict, grace, m.Limits(message=1000), "test"
        )
        self.client, server = self.connect()
        self.seat = Seat(
            "a" * 32,
            encode(m.Hello(session="a" * 32, token=b"t" * 16)) if hello is None else hello,
            True,
            server,
            cell=self.cells.append,
            report=lambda what, facts=None: self.reports.append((what, facts)),
            plan=plan,
        )
        self.thread = threading.Thread(target=self.seat.run)
        self.thread.start()

    @staticmethod
    def connect() -> tuple[Channel, Channel]:
        ours, theirs = socket.socketpair()
        return Channel(ours, client=True), Channel(theirs, client=False, max_message=1000)

    def receive(self) -> Any:
        import time

        return decode_reply(self.client.recv(time.monotonic() + _PATIENCE))

    def ask(self, request: Any) -> Any:
        self.client.send(encode(request))
        return self.receive()

    def reconnect(self) -> None:
        self.client.abort()
        self.client, server = self.connect()
        self.seat.attach(server)

    def finish(self) -> None:
        self.thread.join(_PATIENCE)
        assert not self.thread.is_alive()

    @property
    def events(self) -> list[str]:
        return [what for what, _ in self.reports]


@pytest.fixture
def scene() -> Iterator[_Scene]:
    scene = _Scene()
    assert isinstance(scene.receive(), m.Welcome)
    yield scene
    scene.stage.gate.set()
    scene.seat.end(ServerDrainingError("the test is over"))
    scene.finish()
    scene.client.abort()


@pytest.mark.parametrize("lanes", [1, 2])
def test_what_an_answer_of_many_lanes_left_over_is_let_go_when_it_is_out(lanes: int) -> None:
    scene = _Scene(hello=encode(m.Hello(session="a" * 32, token=b"t" * 16, lanes=lanes)))
    assert isinstance(scene.receive(), m.Welcome)
    server = scene.seat.channel
    assert scene.ask(m.Get(1, "spent")) == m.Value(1, [1])
    assert scene.ask(m.Get(2, "x")) == m.Value(2, [2])  # so the first is over
    assert (scene.stage.spent is None) is (lanes == 2)
    assert server is not None and server._poller is not None
    assert server._poller.patient is (lanes == 2)
    scene.seat.end(ServerDrainingError("the test is over"))
    scene.finish()
    scene.client.abort()


def test_requests_are_answered_in_order_and_the_board_shows_them(scene: _Scene) -> None:
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])
    assert scene.ask(m.Get(2, "x")) == m.Value(2, [2])
    other = Operation.OTHER
    assert scene.cells == [16 + Operation.CONSTRUCTION, 32, 48 + other, 64, 80 + other, 96]
    assert scene.events == ["opened"]


def test_a_first_message_that_cannot_be_read_ends_the_session_as_its_construction_would() -> None:
    scene = _Scene(hello=b"\xc1")
    error = scene.receive()
    assert (error.code, error.alive) == ("protocol", False)
    scene.finish()
    scene.client.abort()
    assert scene.events == ["ended", "left"]
    assert scene.cells[:2] == [16 + Operation.CONSTRUCTION, 32]


def test_close_closes_the_environment_before_it_is_confirmed(scene: _Scene) -> None:
    assert scene.ask(m.Close(1)) == m.Closed(1)
    assert scene.stage.closed == 1
    scene.finish()
    assert scene.events == ["opened", "ended", "left"]
    assert scene.stage.closed == 1


def test_the_slot_is_free_before_the_close_is_confirmed(scene: _Scene) -> None:
    report: Any = scene.seat._report
    gate = threading.Event()

    def hold(what: str, facts: Any = None) -> None:
        assert what != "ended" or gate.wait(_PATIENCE)
        report(what, facts)

    scene.seat._report = hold
    scene.client.send(encode(m.Close(1)))
    with pytest.raises(TimeoutError):
        scene.client.recv(time.monotonic() + 0.05)
    gate.set()
    assert scene.receive() == m.Closed(1)
    assert "ended" in scene.events


def test_a_close_that_is_repeated_on_a_new_connection_is_confirmed_there(scene: _Scene) -> None:
    scene.stage.close = lambda: scene.reconnect()  # type: ignore[method-assign]
    scene.client.send(encode(m.Close(1)))
    while not scene.seat._vacated:
        time.sleep(0.001)
    assert scene.receive() == m.Resumed("a" * 32, 1)
    assert scene.ask(m.Close(1)) == m.Closed(1)
    scene.finish()
    assert scene.events.count("ended") == 1


def test_what_is_asked_after_the_close_leaves_the_cell_alone_which_may_be_anothers(scene: _Scene) -> None:
    scene.stage.close = lambda: scene.reconnect()  # type: ignore[method-assign]
    scene.client.send(encode(m.Close(1)))
    while "ended" not in scene.events:
        time.sleep(0.001)
    assert scene.receive() == m.Resumed("a" * 32, 1)
    written = len(scene.cells)
    error = scene.ask(m.Get(2, "x"))
    assert (error.code, error.id) == ("protocol", 2)
    scene.finish()
    assert (len(scene.cells), scene.cells[-1]) == (written, Operation.VACANT)
    assert scene.stage.executed == []


def test_a_close_that_raises_ends_the_session_all_the_same(scene: _Scene) -> None:
    scene.stage.close = _broken  # type: ignore[method-assign]
    error = scene.ask(m.Close(1))
    assert (error.code, error.id, error.alive) == ("environment", 1, False)
    assert error.message == "ValueError: it does not close"
    scene.finish()
    assert scene.events == ["opened", "ended", "left"]


def test_what_fails_in_the_seat_itself_ends_the_session_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seat, "_answer", _broken)
    scene = _Scene()
    assert isinstance(scene.receive(), m.Welcome)
    scene.client.send(encode(m.Get(1, "x")))
    scene.finish()
    scene.client.abort()
    assert scene.stage.closed == 1
    assert scene.events[-2:] == ["ended", "left"]
    assert "failed at the server (ValueError('it does not close'))" in scene.reports[-2][1].message


def _broken(*_: object) -> Any:
    raise ValueError("it does not close")


def test_what_the_environment_raises_is_reported_and_the_session_lives(scene: _Scene) -> None:
    error = scene.ask(m.Get(1, "bad"))
    assert (error.code, error.message, error.alive, error.id) == (
        "environment",
        "ValueError: no such thing",
        True,
        1,
    )
    assert "test_seat.py" in error.details["traceback"]
    assert scene.ask(m.Get(2, "x")) == m.Value(2, [2])


def test_bytes_that_are_no_message_cost_an_error_and_not_the_session(scene: _Scene) -> None:
    scene.client.send(b"\xc1")
    error = scene.receive()
    assert (error.code, error.alive, error.id) == ("protocol", True, 0)
    scene.client.send(encode({"type": "get", "id": 1, "name": "x", "shape": 3}))  # type: ignore[arg-type]
    assert "shape" in scene.receive().message
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])


def test_a_message_over_the_limit_costs_an_error_and_not_the_session(scene: _Scene) -> None:
    scene.client.send(bytes(1001))
    error = scene.receive()
    assert (error.code, error.alive, error.details["limit"]) == ("message_too_large", True, 1000)
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])


def test_a_repeated_request_gets_the_kept_reply_and_is_not_executed_again(scene: _Scene) -> None:
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])
    scene.reconnect()
    assert scene.receive() == m.Resumed("a" * 32, 1)
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])
    assert len(scene.stage.executed) == 1
    assert scene.ask(m.Get(2, "x")) == m.Value(2, [2])


def test_a_request_that_never_arrived_is_executed_after_the_resume(scene: _Scene) -> None:
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])
    scene.reconnect()
    assert scene.receive().last == 1
    assert scene.ask(m.Get(2, "x")) == m.Value(2, [2])


def test_a_lost_welcome_is_said_again(scene: _Scene) -> None:
    scene.reconnect()
    assert isinstance(scene.receive(), m.Welcome)
    assert scene.ask(m.Get(1, "x")) == m.Value(1, [1])


def test_a_connection_lost_while_the_environment_runs_gets_the_reply_after_the_resume(scene: _Scene) -> None:
    scene.client.send(encode(m.Get(1, "gate")))
    assert scene.stage.entered.wait(_PATIENCE)
    scene.reconnect()
    scene.stage.gate.set()
    assert scene.receive() == m.Resumed("a" * 32, 1)
    assert scene.ask(m.Get(1, "gate")) == m.Value(1, [1])
    assert len(scene.stage.executed) == 1


def test_while_the_environment_runs_pings_are_answered_by_another_thread(scene: _Scene) -> None:
    scene.client.send(encode(m.Get(1, "gate")))
    assert scene.stage.entered.wait(_PATIENCE)
    before = scene.client.last_received
    scene.client.ping(b"there?")
    scene.seat.attend()
    with pytest.raises(TimeoutError):
        scene.client.recv(0.0)
    while scene.client.last_received == before:
        scene.client.attend()
    scene.seat.beat()
    scene.stage.gate.set()
    assert scene.receive() == m.Value(1, [1])


def test_the_end_lets_the_running_request_finish_and_tells_the_client(scene: _Scene) -> None:
    scene.client.send(encode(m.Get(1, "gate")))
    assert scene.stage.entered.wait(_PATIENCE)
    scene.seat.end(ServerDrainingError("the server is shutting down"))
    assert scene.stage.closed == 0
    scene.stage.gate.set()
    assert scene.receive() == m.Value(1, [1])
    assert scene.receive().code == "server_draining"
    with pytest.raises(ServerConnectionError) as caught:
        scene.receive()
    assert caught.value.details["close_code"] == 1001
    scene.finish()
    assert scene.stage.closed == 1


def test_an_idle_session_is_woken_by_its_end(scene: _Scene) -> None:
    scene.seat.end(ServerDrainingError("the server is shutting down"))
    assert scene.receive().code == "server_draining"
    scene.finish()
    assert (scene.stage.closed, scene.events) == (1, ["opened", "ended", "left"])


def test_the_condemned_session_is_over_for_the_client_while_its_call_still_runs(scene: _Scene) -> None:
    scene.client.send(encode(m.Get(1, "gate")))
    assert scene.stage.entered.wait(_PATIENCE)
    scene.seat.condemn(DeadlineExceededError("too long", operation="other", deadline=1.0))
    error = scene.receive()
    assert (error.code, error.alive, error.details["deadline"]) == ("deadline_exceeded", False, 1.0)
    assert scene.stage.closed == 0
    scene.stage.gate.set()
    scene.finish()
    assert scene.stage.closed == 1


def test_a_lost_session_ends_after_the_grace_time() -> None:
    scene = _Scene(grace=0.05)
    assert isinstance(scene.receive(), m.Welcome)
    scene.client.abort()
    scene.finish()
    assert scene.events == ["opened", "detached", "ended", "left"]
    assert scene.reports[-2][1].code == "session_lost"
    assert scene.stage.closed == 1
