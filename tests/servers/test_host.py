"""A host opens, attaches, ends and drains sessions as its parent says, over real sockets."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openenv_gym.errors import ServerConnectionError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.frames import masked_message
from openenv_gym.servers import attendant
from openenv_gym.servers import control as c
from openenv_gym.servers import host as module
from openenv_gym.servers.board import Board, Operation
from openenv_gym.servers.host import Host
from openenv_gym.servers.stages import Desk, Plan
from openenv_gym.transport.channel import Channel

pytestmark = pytest.mark.usefixtures("no_leaks")
_PATIENCE = 20.0


class _Stage:
    """Answers ``get`` with its name; ``gate`` waits for the test."""

    def __init__(self) -> None:
        self.gate, self.entered, self.closed = threading.Event(), threading.Event(), threading.Event()

    def answer(self, request: Any) -> m.Reply:
        if request.name == "gate":
            self.entered.set()
            assert self.gate.wait(_PATIENCE)
        return m.Value(request.id, [request.name])

    def close(self) -> None:
        self.closed.set()


class _Scene:
    """A host, what it reported, and its stages in the order in which they were built."""

    def __init__(self, **limits: Any) -> None:
        self.stages: list[_Stage] = []
        self.reports: list[c.Message] = []
        self.news = threading.Condition()
        self.board = Board(8)
        self.describe: Callable[[], dict[str, Any]] = lambda: {"target": "fake"}
        self.build: Callable[[], _Stage] = _Stage
        limits = {"message": 1000, **limits}
        plan = Plan(self._build, lambda: self.describe(), _PATIENCE, m.Limits(**limits), "test")
        self.host = Host(plan, self.board, self._report, keepalive=None)
        self.numbers = itertools.count(1)

    def _build(self, hello: m.Hello, desk: Desk) -> tuple[_Stage, dict[str, Any]]:
        stage = self.build()
        self.stages.append(stage)
        return stage, {"target": "local" if desk.local else "fake"}

    def _report(self, message: c.Message) -> None:
        with self.news:
            self.reports.append(message)
            self.news.notify_all()

    def wait_for(self, kind: type, session: str = "") -> Any:
        def found() -> list[Any]:
            return [r for r in self.reports if type(r) is kind and getattr(r, "session", "") == session]

        with self.news:
            assert self.news.wait_for(found, _PATIENCE), f"no {kind.__name__} in {self.reports}"
            return found()[-1]

    def open(self, *, unread: bytes = b"", local: bool = True, place: int = 0) -> tuple[str, Channel]:
        session = f"{next(self.numbers):032x}"
        hello = encode(m.Hello(session=session, token=b"t" * 16))
        ours, theirs = socket.socketpair()
        self.host.handle(c.Open(session, place, hello, unread, local), [theirs.detach()])
        return session, Channel(ours, client=True)

    def attach(self, session: str, unread: bytes = b"") -> Channel:
        ours, theirs = socket.socketpair()
        self.host.handle(c.Attach(session, unread), [theirs.detach()])
        return Channel(ours, client=True)


def _receive(channel: Channel) -> Any:
    return decode_reply(channel.recv(time.monotonic() + _PATIENCE))


def _ask(channel: Channel, request: Any) -> Any:
    channel.send(encode(request))
    return _receive(channel)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Scene]:
    monkeypatch.setattr(attendant, "_ROUND", 0.01)
    scene = _Scene()
    yield scene
    for stage in scene.stages:
        stage.gate.set()
    scene.host.drain("server_draining", "the test is over")
    assert scene.host.wait_empty(_PATIENCE)


def test_a_session_is_opened_used_and_closed(scene: _Scene) -> None:
    session, client = scene.open(place=3)
    welcome = _receive(client)
    assert (welcome.session, welcome.target, welcome.server) == (session, "local", "test")
    assert welcome.limits.message == 1000
    assert scene.wait_for(c.Opened, session) == c.Opened(session, None)
    assert [seat.session for seat in scene.host.seats()] == [session]
    assert not scene.host.wait_empty(0.0)
    assert _ask(client, m.Get(1, "x")) == m.Value(1, ["x"])
    assert _ask(client, m.Close(2)) == m.Closed(2)
    assert scene.wait_for(c.Ended, session) == c.Ended(session, None)
    assert scene.host.wait_empty(_PATIENCE)
    assert scene.host.seats() == []
    assert scene.board.cells[3] == Operation.VACANT
    client.abort()


def test_what_came_with_the_first_message_is_served(scene: _Scene) -> None:
    _, client = scene.open(unread=bytes(masked_message(encode(m.Get(1, "early")))), local=False)
    assert _receive(client).target == "fake"
    assert _receive(client) == m.Value(1, ["early"])
    client.abort()


def test_sessions_do_not_wait_for_each_other(scene: _Scene) -> None:
    _, slow = scene.open(place=0)
    _receive(slow)
    _, quick = scene.open(place=1)
    _receive(quick)
    slow.send(encode(m.Get(1, "gate")))
    assert scene.stages[0].entered.wait(_PATIENCE)
    for number in range(1, 4):
        assert _ask(quick, m.Get(number, "x")) == m.Value(number, ["x"])
    assert scene.board.cells[0] & 15 == Operation.OTHER
    scene.stages[0].gate.set()
    assert _receive(slow) == m.Value(1, ["gate"])
    slow.abort(), quick.abort()


def test_a_session_that_cannot_be_built_is_over(scene: _Scene) -> None:
    def fail() -> _Stage:
        raise RuntimeError("no display")

    scene.build = fail
    session, client = scene.open()
    error = _receive(client)
    assert (error.code, error.message, error.alive) == ("construction", "RuntimeError: no display", False)
    assert scene.wait_for(c.Ended, session).error.code == "construction"
    assert scene.host.wait_empty(_PATIENCE)
    client.abort()


def test_a_lost_session_is_attached_to_its_new_connection(scene: _Scene) -> None:
    session, client = scene.open()
    _receive(client)
    assert _ask(client, m.Get(1, "x")) == m.Value(1, ["x"])
    client.abort()
    assert scene.wait_for(c.Detached, session) == c.Detached(session)
    early = bytes(masked_message(encode(m.Get(2, "y"))))
    client = scene.attach(session, early)
    assert _receive(client) == m.Resumed(session, 1)
    assert _receive(client) == m.Value(2, ["y"])
    assert scene.wait_for(c.Attached, session) == c.Attached(session)
    client.abort()


def test_a_connection_for_a_session_that_is_gone_is_ended(scene: _Scene) -> None:
    client = scene.attach("f" * 32)
    with pytest.raises(ServerConnectionError):
        _receive(client)
    assert scene.reports == []


def test_a_session_is_ended_with_the_reason_it_is_given(scene: _Scene) -> None:
    session, client = scene.open()
    _receive(client)
    scene.host.handle(c.End(session, "session_lost", "idle", {"seconds": 3}), [])
    error = _receive(client)
    assert (error.code, error.message, error.details) == ("session_lost", "idle", {"seconds": 3})
    assert scene.wait_for(c.Ended, session).error == error
    assert scene.stages[0].closed.is_set()
    client.abort()


def test_an_end_lets_the_running_call_finish_unless_it_is_to_be_now(scene: _Scene) -> None:
    kind, client = scene.open(place=0)
    _receive(client)
    now, other = scene.open(place=1)
    _receive(other)
    for channel in (client, other):
        channel.send(encode(m.Get(1, "gate")))
    for stage in scene.stages:
        assert stage.entered.wait(_PATIENCE)
    scene.host.handle(c.End(now, "deadline_exceeded", "too long", {}, now=True), [])
    assert _receive(other).code == "deadline_exceeded"
    scene.host.handle(c.End(kind, "session_lost", "idle"), [])
    for stage in scene.stages:
        assert not stage.closed.is_set()
        stage.gate.set()
    assert _receive(client) == m.Value(1, ["gate"])
    assert _receive(client).code == "session_lost"
    client.abort(), other.abort()


def test_the_end_of_a_session_that_is_gone_is_no_matter(scene: _Scene) -> None:
    scene.host.handle(c.End("f" * 32, "session_lost", "idle"), [])
    assert scene.reports == []


def test_draining_ends_every_session_after_its_running_call(scene: _Scene) -> None:
    _, idle = scene.open(place=0)
    _receive(idle)
    _, busy = scene.open(place=1)
    _receive(busy)
    busy.send(encode(m.Get(1, "gate")))
    assert scene.stages[1].entered.wait(_PATIENCE)
    scene.host.drain("server_draining", "shutting down")
    assert _receive(idle).code == "server_draining"
    assert not scene.host.wait_empty(0.0)
    scene.stages[1].gate.set()
    assert _receive(busy) == m.Value(1, ["gate"])
    assert _receive(busy).message == "shutting down"
    assert scene.host.wait_empty(_PATIENCE)
    assert all(stage.closed.is_set() for stage in scene.stages)
    idle.abort(), busy.abort()


def test_clients_of_calls_that_cannot_be_waited_for_are_told(scene: _Scene) -> None:
    _, client = scene.open()
    _receive(client)
    client.send(encode(m.Get(1, "gate")))
    assert scene.stages[0].entered.wait(_PATIENCE)
    scene.host.cut("server_draining", "shutting down")
    assert _receive(client).code == "server_draining"
    client.abort()


def test_the_environment_is_described_on_a_thread_of_its_own(scene: _Scene) -> None:
    threads: list[str] = []

    def describe() -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        assert scene.board.cells[5] & 15 == Operation.CONSTRUCTION
        return {"target": "seen"}

    scene.describe = describe
    scene.host.handle(c.Describe(5), [])
    assert scene.wait_for(c.Described) == c.Described(5, {"target": "seen"})
    assert threads == ["describe"]
    assert scene.board.cells[5] == Operation.VACANT


@pytest.mark.parametrize("exc", [ValueError("no display"), SystemExit("no display")])
def test_an_environment_that_cannot_be_described_says_why(scene: _Scene, exc: BaseException) -> None:
    def describe() -> dict[str, Any]:
        raise exc

    scene.describe = describe
    scene.host.handle(c.Describe(5), [])
    assert scene.wait_for(c.Described) == c.Described(5, None, f"{type(exc).__name__}: no display")


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_without_a_thread_nothing_is_described(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module.threading.Thread, "start", _refuse)
        scene.host.handle(c.Describe(5), [])
    found = scene.wait_for(c.Described)
    assert (found.place, found.facts) == (5, None)
    assert "no thread to build the environment on (can't start new thread)" in found.error


def test_a_session_for_which_there_is_no_thread_is_refused_and_no_other_suffers(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = scene.open(place=0)
    _receive(first)
    with monkeypatch.context() as patch:
        patch.setattr(module.threading.Thread, "start", _refuse)
        session, client = scene.open(place=1)
    error = _receive(client)
    assert (error.code, error.alive) == ("capacity", False)
    assert "thread" in error.message
    assert scene.wait_for(c.Ended, session).error == error
    assert scene.board.cells[1] == Operation.VACANT
    assert _ask(first, m.Get(1, "x")) == m.Value(1, ["x"])
    assert len(scene.host.seats()) == 1
    first.abort(), client.abort()


def test_a_message_that_is_none_of_a_hosts_is_logged(scene: _Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.host.handle(c.Fork(1), [])
    assert "Fork" in caplog.text


def test_a_connection_that_was_lost_on_its_way_ends_the_session_it_was_to_open(scene: _Scene) -> None:
    hello = encode(m.Hello(session="a" * 32, token=b"t" * 16))
    scene.host.handle(c.Open("a" * 32, 0, hello, b"", True), [c.LOST])
    ended = scene.wait_for(c.Ended, "a" * 32)
    assert ended.error.code == "capacity"
    assert "ulimit -n" in ended.error.message
    assert scene.stages == []


def test_a_connection_that_was_lost_on_its_way_leaves_its_session_detached(scene: _Scene) -> None:
    session, client = scene.open()
    _receive(client)
    scene.host.handle(c.Attach(session, b""), [c.LOST])
    scene.wait_for(c.Detached, session)
    assert _ask(client, m.Get(1, "x")) == m.Value(1, ["x"])
    assert _ask(client, m.Close(2)) == m.Closed(2)
    client.abort()
    scene.wait_for(c.Ended, session)
