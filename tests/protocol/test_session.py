"""One end of a conversation, and two ends with a bad network between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openenv_gym.errors import LocalProtocolError, MessageTooLargeError, RemoteProtocolError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.session import Session, Side, too_large
from openenv_gym.protocol.states import ANSWERS, TRANSITIONS, Phase

REQUESTS, REPLIES = get_args(m.Request), get_args(m.Reply)
KEY = {"session": "0123456789abcdef" * 2, "token": bytes(16)}
MAKERS: dict[type, Any] = {
    m.Hello: lambda at: m.Hello(**KEY),
    m.Resume: lambda at: m.Resume(**KEY),
    m.Welcome: lambda at: m.Welcome(**KEY),
    m.Resumed: lambda at: m.Resumed(session=KEY["session"], last=at),
    m.Step: lambda at: m.Step(at, b""),
    m.Get: lambda at: m.Get(at, "x"),
    m.Set: lambda at: m.Set(at, "x", [1]),
    m.Call: lambda at: m.Call(at, "f"),
    m.Transition: lambda at: m.Transition(at, b"", b"", b"\x00"),
    m.Frames: lambda at: m.Frames(at, [None]),
    m.Value: lambda at: m.Value(at, [at]),
    m.Ask: lambda at: m.Ask(at, "metadata"),
    m.Error: lambda at: m.Error("environment", "it raised", at, True),
}


def make(cls: type, at: int = 1) -> Any:
    """Return a message of a class, with the id ``at`` where it has one."""
    return MAKERS.get(cls, cls)(at)


@dataclass
class SessionPair:
    """Two ends; what one sends the other receives at once."""

    client: Session = field(default_factory=lambda: Session(Side.CLIENT))
    server: Session = field(default_factory=lambda: Session(Side.SERVER))

    def ask(self, request: Any) -> Any:
        """Send a request and return it as it arrived."""
        return self.server.receive(self.client.send(request))

    def answer(self, reply: Any) -> Any:
        """Send a reply and return it as it arrived; ``None`` when it was late."""
        return self.client.receive(self.server.send(reply))

    def open(self) -> SessionPair:
        self.ask(make(m.Hello))
        self.answer(make(m.Welcome))
        return self

    def lose(self) -> None:
        """Lose the connection."""
        self.client.disconnect()
        self.server.disconnect()

    def resume(self, last: int) -> None:
        self.ask(make(m.Resume))
        self.answer(m.Resumed(session=KEY["session"], last=last))


def _state(session: Session) -> tuple[Any, ...]:
    return session.phase, session.last_id, session.pending, session.peer_max_message


# -- every phase x every message x every outstanding request


def _situations(side: Side) -> Iterator[Session]:
    """Yield an end in every phase, and in BUSY with every request outstanding."""
    for phase in Phase:
        for pending in (
            [cls for cls in REQUESTS if TRANSITIONS[Phase.IDLE].get(cls)] if phase is Phase.BUSY else [None]
        ):
            session = Session(side)
            session.phase = phase
            session.last_id = 3
            session.pending = None if pending is None else make(pending, 3)
            yield session


def _after(session: Session, message: Any) -> Phase | None:
    """Return the phase that the rules of the document lead to, ``None`` when they forbid the message."""
    cls, phase = type(message), session.phase
    following = TRANSITIONS[phase].get(cls)
    if following is None:
        return None
    if phase is Phase.IDLE and cls in REQUESTS and message.id != 4:
        later = session.side is Side.SERVER and message.id in (3, 5)
        return following if later else None
    if phase is Phase.BUSY:
        answers = cls is m.Error or cls is ANSWERS[type(session.pending)]
        if not answers or message.id not in ((0, 3) if cls is m.Error else (3,)):
            return None
    return Phase.CLOSED if cls is m.Error and not message.alive else following


def _messages(classes: tuple[type, ...]) -> list[Any]:
    plain = [
        make(cls, at)
        for cls in classes
        for at in ((0, 1, 2, 3, 4, 5) if "id" in cls.__annotations__ else (0,))
    ]
    return (
        [*plain, m.Error("internal", "over"), m.Error("internal", "over", 3)] if m.Error in classes else plain
    )


@pytest.mark.parametrize("side", Side)
def test_what_may_be_sent_in_which_situation(side: Side) -> None:
    ours = REQUESTS if side is Side.CLIENT else REPLIES
    sent = 0
    for session in _situations(side):
        for message in _messages(ours):
            end, following = _copy(session), _after(session, message)
            if following is None:
                with pytest.raises(LocalProtocolError):
                    end.send(message)
                assert _state(end) == _state(session)
            else:
                assert end.send(message) == encode(message)
                assert end.phase is following
                sent += 1
    assert sent == 11 if side is Side.CLIENT else sent > 50


@pytest.mark.parametrize("side", Side)
def test_what_may_arrive_in_which_situation(side: Side) -> None:
    theirs = REPLIES if side is Side.CLIENT else REQUESTS
    late = 0
    for session in _situations(side):
        for message in _messages(theirs):
            end, following = _copy(session), _after(session, message)
            if side is Side.CLIENT and _is_late(session, message):
                assert end.receive(encode(message)) is None
                assert _state(end) == _state(session)
                late += 1
            elif following is None:
                with pytest.raises(RemoteProtocolError):
                    end.receive(encode(message))
                assert _state(end) == _state(session)
            else:
                assert end.receive(encode(message)) == message
                assert end.phase is following
    assert (late > 100) is (side is Side.CLIENT)


def _is_late(session: Session, message: Any) -> bool:
    at = getattr(message, "id", 0)
    return 0 < at < 3 or (at == 3 and session.pending is None)


def _copy(session: Session) -> Session:
    copy = Session(session.side)
    copy.phase, copy.last_id, copy.pending = session.phase, session.last_id, session.pending
    return copy


@pytest.mark.parametrize("side", Side)
def test_nobody_sends_what_belongs_to_the_other_side(side: Side) -> None:
    for session in _situations(side):
        for cls in REPLIES if side is Side.CLIENT else REQUESTS:
            with pytest.raises(LocalProtocolError, match=f"a {side.value} does not send"):
                session.send(make(cls, 4))


# -- single rules


def test_a_session_from_hello_to_closed() -> None:
    pair = SessionPair().open()
    for at, cls in enumerate((m.Reset, m.Step, m.Render, m.Get, m.Set, m.Call, m.State, m.Ask, m.Close), 1):
        assert pair.client.next_id() == at
        assert pair.ask(make(cls, at)) == make(cls, at)
        assert pair.client.pending == make(cls, at)
        assert pair.answer(make(ANSWERS[cls], at)) == make(ANSWERS[cls], at)
        assert pair.client.pending is None
    assert pair.client.phase is pair.server.phase is Phase.CLOSED
    with pytest.raises(LocalProtocolError, match="closed"):
        pair.ask(m.Reset(9))


@pytest.mark.parametrize("at", [0, 2, -1, 7])
def test_a_client_counts_its_requests_up_from_one(at: int) -> None:
    pair = SessionPair().open()
    with pytest.raises(LocalProtocolError, match=f"has id {at}; 1 was due"):
        pair.ask(m.Reset(at))
    pair.ask(m.Reset(1))


def test_a_reply_to_a_request_that_was_given_up_is_dropped() -> None:
    pair = SessionPair().open()
    pair.ask(m.Step(1, b"slow"))
    pair.client.abandon()
    frame = pair.client.send(m.Step(2, b"next"))
    assert pair.answer(m.Transition(1, b"late", b"", b"")) is None
    assert pair.client.pending == m.Step(2, b"next")
    pair.server.receive(frame)
    assert pair.answer(m.Transition(2, b"due", b"", b"")) == m.Transition(2, b"due", b"", b"")


def test_a_late_reply_is_dropped_while_nothing_is_asked() -> None:
    pair = SessionPair().open()
    pair.ask(m.Get(1, "x"))
    pair.client.abandon()
    assert pair.answer(m.Error("environment", "late", 1, False)) is None
    assert pair.client.phase is Phase.IDLE


def test_a_reply_to_a_request_not_made_yet_is_an_error_of_the_server() -> None:
    client = SessionPair().open().client
    with pytest.raises(RemoteProtocolError):
        client.receive(encode(m.Value(1, [None])))
    client.send(m.Get(1, "x"))
    with pytest.raises(RemoteProtocolError, match="answers request 2; 1 is outstanding"):
        client.receive(encode(m.Value(2, [None])))
    with pytest.raises(RemoteProtocolError, match="'frames' does not answer 'get'"):
        client.receive(encode(m.Frames(1, [None])))
    assert client.receive(encode(m.Value(1, [None]))) == m.Value(1, [None])


def test_an_error_that_names_no_request_answers_the_outstanding_one() -> None:
    pair = SessionPair().open()
    pair.ask(m.Get(1, "x"))
    error = m.Error("protocol", "could not be read", 0, True)
    assert pair.answer(error) == error
    assert (pair.client.pending, pair.client.phase) == (None, Phase.IDLE)


@pytest.mark.parametrize("busy", [False, True])
def test_an_error_that_ends_the_session_may_come_at_any_time(busy: bool) -> None:
    pair = SessionPair().open()
    if busy:
        pair.ask(m.Get(1, "x"))
    assert pair.answer(m.Error("server_draining", "bye")) == m.Error("server_draining", "bye")
    assert pair.client.phase is pair.server.phase is Phase.CLOSED


def test_a_request_that_was_never_executed_is_executed_after_a_resume() -> None:
    pair = SessionPair().open()
    pair.client.send(m.Step(1, b"a"))
    pair.lose()
    pair.resume(last=0)
    frame = pair.client.repeat()
    assert frame is not None
    assert pair.server.receive(frame) == m.Step(1, b"a")
    assert pair.answer(make(m.Transition)) == make(m.Transition)


def test_a_request_keeps_its_id_however_often_it_is_repeated() -> None:
    pair = SessionPair().open()
    pair.ask(m.Step(1, b"a"))
    for _ in range(3):
        pair.lose()
        pair.resume(last=1)
        frame = pair.client.repeat()
        assert frame == encode(m.Step(1, b"a"))
        assert pair.server.receive(frame) == m.Step(1, b"a")
        assert pair.client.repeat() is None
    assert pair.answer(make(m.Transition)) == make(m.Transition)
    assert pair.client.repeat() is None


def test_what_was_given_up_is_not_repeated() -> None:
    pair = SessionPair().open()
    pair.client.send(m.Step(1, b"lost on its way"))
    pair.client.abandon()
    pair.lose()
    pair.resume(last=0)
    assert pair.client.repeat() is None
    assert pair.ask(m.Reset(2)) == m.Reset(2)


def test_a_lost_welcome_comes_in_answer_to_resume() -> None:
    pair = SessionPair()
    pair.ask(make(m.Hello))
    pair.server.send(make(m.Welcome))
    pair.lose()
    pair.ask(make(m.Resume))
    welcome = m.Welcome(**KEY, limits=m.Limits(message=99))
    assert pair.answer(welcome) == welcome
    assert pair.client.peer_max_message == 99
    assert pair.ask(m.Reset(1)) == m.Reset(1)


def test_a_server_takes_no_request_older_than_the_newest() -> None:
    pair = SessionPair().open()
    for at in (1, 2):
        pair.ask(m.Get(at, "x"))
        pair.answer(m.Value(at, [at]))
    with pytest.raises(RemoteProtocolError, match="has id 1; 3 was due"):
        pair.server.receive(encode(m.Get(1, "x")))
    assert pair.server.receive(encode(m.Get(2, "x"))) == m.Get(2, "x")


@pytest.mark.parametrize("frame", [b"", b"\xc1", encode(m.Closed(1))], ids=["empty", "junk", "reply"])
def test_a_frame_that_holds_no_request_changes_nothing(frame: bytes) -> None:
    pair = SessionPair().open()
    before = _state(pair.server)
    with pytest.raises(RemoteProtocolError):
        pair.server.receive(frame)
    assert _state(pair.server) == before
    assert pair.ask(m.Reset(1)) == m.Reset(1)


def test_what_cannot_be_encoded_changes_nothing() -> None:
    pair = SessionPair().open()
    with pytest.raises(LocalProtocolError):
        pair.client.send(m.Step(1, object()))
    assert pair.ask(m.Reset(1)) == m.Reset(1)


# -- limits


def test_each_side_learns_the_limit_of_the_other_and_keeps_to_it() -> None:
    pair = SessionPair()
    pair.ask(m.Hello(**KEY, limits=m.Limits(message=200)))
    pair.answer(m.Welcome(**KEY, limits=m.Limits(message=70)))
    assert (pair.server.peer_max_message, pair.client.peer_max_message) == (200, 70)
    with pytest.raises(MessageTooLargeError, match="exceeds the limit of 70 bytes") as caught:
        pair.client.send(m.Step(1, bytes(70)))
    assert caught.value.details == {"size": 95, "limit": 70, "option": "max_message_size"}
    assert pair.ask(m.Step(1, bytes(20))) == m.Step(1, bytes(20))
    with pytest.raises(MessageTooLargeError):
        pair.server.send(m.Transition(1, bytes(300), b"", b""))
    small = m.Transition(1, b"", b"", b"")
    assert pair.answer(small) == small


@pytest.mark.parametrize("size", [5, 50_000])
def test_an_answer_is_what_would_be_sent(size: int) -> None:
    reply = m.Transition(1, bytes(size), b"", b"")
    pairs = [SessionPair().open() for _ in range(2)]
    for pair in pairs:
        pair.ask(m.Step(1, None))
    data = pairs[0].server.answer(reply)
    assert isinstance(data, tuple) is (size > 5)
    assert b"".join(data if isinstance(data, tuple) else [data]) == pairs[1].server.send(reply)
    assert pairs[0].server.phase is pairs[1].server.phase
    assert pairs[0].client.receive(b"".join(data) if isinstance(data, tuple) else data) == reply
    with pytest.raises(LocalProtocolError, match="may not come"):
        pairs[0].server.answer(reply)


def test_the_limit_holds_for_answers_in_pieces() -> None:
    pair = SessionPair()
    pair.ask(m.Hello(**KEY, limits=m.Limits(message=50_000)))
    pair.answer(m.Welcome(**KEY))
    pair.ask(m.Step(1, None))
    with pytest.raises(MessageTooLargeError, match="exceeds the limit of 50000 bytes"):
        pair.server.answer(m.Transition(1, bytes(50_000), b"", b""))
    assert isinstance(pair.server.answer(m.Transition(1, bytes(49_000), b"", b"")), tuple)


def test_a_message_of_just_the_limit_is_sent() -> None:
    frame = encode(m.Close(1))
    for limit in (len(frame), 0):
        client = SessionPair().open().client
        client.peer_max_message = limit
        assert client.send(m.Close(1)) == frame
    assert "--max-message-size" in too_large(2, 1).message


# -- ends and beginnings


def test_the_end_is_the_end() -> None:
    pair = SessionPair().open()
    pair.ask(m.Get(1, "x"))
    pair.client.close()
    pair.client.disconnect()
    pair.client.abandon()
    assert (pair.client.phase, pair.client.pending) == (Phase.CLOSED, None)
    assert pair.client.repeat() is None
    with pytest.raises(LocalProtocolError):
        pair.client.send(make(m.Resume))


# -- a bad network


class BadNetwork(RuleBasedStateMachine):
    """A client and a server that keeps its last reply, on connections that break anywhere.

    The environment counts: executing ``step`` number n twice, or taking a reply for another, would show.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pair = SessionPair()
        self.upward: list[bytes] = []
        self.downward: list[bytes] = []
        self.executed: list[int] = []
        self.kept: Any = None
        self.results: dict[int, Any] = {}
        self.given_up: set[int] = set()
        self.connected = True

    @initialize()
    def open(self) -> None:
        self.pair.open()

    # the client

    def _may_ask(self) -> bool:
        return self.connected and self.pair.client.phase is Phase.IDLE and self.pair.client.pending is None

    @precondition(_may_ask)
    @rule(payload=st.binary(max_size=2))
    def ask(self, payload: bytes) -> None:
        self.upward.append(self.pair.client.send(m.Step(self.pair.client.next_id(), payload)))

    @precondition(lambda self: self.pair.client.pending is not None)
    @rule()
    def give_up(self) -> None:
        self.given_up.add(self.pair.client.last_id)
        self.pair.client.abandon()

    @precondition(lambda self: self.downward)
    @rule()
    def client_reads(self) -> None:
        reply = self.pair.client.receive(self.downward.pop(0))
        if type(reply) is m.Resumed:
            assert reply.last <= self.pair.client.last_id
            frame = self.pair.client.repeat()
            if frame is not None:
                self.upward.append(frame)
        elif reply is not None:
            assert reply.id == self.pair.client.last_id
            assert reply.id not in self.results
            assert reply.observations == reply.id
            self.results[reply.id] = reply

    # the server

    @precondition(lambda self: self.upward)
    @rule(answers=st.booleans())
    def server_works(self, answers: bool) -> None:
        request = self.pair.server.receive(self.upward.pop(0))
        if type(request) is m.Resume:
            self.downward.append(
                self.pair.server.send(
                    m.Resumed(session=KEY["session"], last=self.kept.id if self.kept else 0)
                )
            )
            return
        if self.kept is None or self.kept.id != request.id:
            self.executed.append(request.id)
            self.kept = m.Transition(request.id, request.id, b"", b"\x00")
        frame = self.pair.server.send(self.kept)
        if answers:
            self.downward.append(frame)
        else:
            self.lose()

    # the network

    @rule()
    def lose(self) -> None:
        self.pair.lose()
        self.upward, self.downward, self.connected = [], [], False

    @precondition(lambda self: not self.connected)
    @rule()
    def connect(self) -> None:
        self.connected = True
        self.upward.append(self.pair.client.send(make(m.Resume)))

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert self.executed == sorted({*self.executed})

    @invariant()
    def every_result_was_executed_and_asked_for(self) -> None:
        assert {*self.results} <= {*self.executed}
        assert not self.results.keys() & self.given_up

    def teardown(self) -> None:
        """Let the network be good at last: whoever still waits gets the answer."""
        if self.pair.client.pending is None or not self.connected:
            self.lose()
            self.connect()
        while self.upward or self.downward:
            if self.upward:
                self.server_works(answers=True)
            if self.downward:
                self.client_reads()
        assert self.pair.client.phase is self.pair.server.phase is Phase.IDLE
        asked = {*range(1, self.pair.client.last_id + 1)}
        assert asked - self.given_up == {*self.results}


TestBadNetwork = BadNetwork.TestCase
