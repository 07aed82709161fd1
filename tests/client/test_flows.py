"""Flows without any I/O: the test is the driver, the network and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.client import flows
from openenv_gym.client.flows import Conversation, Unreachable, error_of
from openenv_gym.errors import (
    OpenEnvError,
    RemoteProtocolError,
    ServerConnectionError,
    SessionLostError,
    VersionMismatchError,
    WorkerCrashedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_request, encode
from openenv_gym.protocol.states import Phase
from openenv_gym.transport.endings import ChannelClosed, ChannelSilence

Happening = bytes | Exception


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Driver:
    """Runs a flow against a list of what happens to each connect and receive, and notes what it intends.

    Attributes:
        heard: Whether the peer gives signs of life.
    """

    def __init__(
        self,
        *,
        keepalive: tuple[float, float] | None = None,
        connect_timeout: float | None = 10.0,
        slot_timeout: float = 0.0,
    ) -> None:
        self.clock = Clock()
        self.intents: list[str] = []
        self.heard = -1.0
        hello = m.Hello(session="", token=b"", slot_timeout=slot_timeout)
        self.talk = Conversation(hello, keepalive, connect_timeout, "ws://test", self.clock)
        self.silences: list[float | None] = []

    def run(self, flow: Any, happenings: list[Any]) -> Any:
        happens = iter(happenings)
        try:
            intent = next(flow)
            while True:
                try:
                    result = self._do(intent, happens)
                except Exception as exc:
                    intent = flow.throw(exc)
                else:
                    intent = flow.send(result)
        except StopIteration as stop:
            return stop.value

    def _do(self, intent: Any, happens: Iterator[Any]) -> Any:
        if isinstance(intent, flows.Send):
            self.intents.append(type(decode_request(intent.frame)).__struct_config__.tag)  # type: ignore[arg-type]
            return None
        self.intents.append(type(intent).__name__.lower())
        match intent:
            case flows.Pause(seconds):
                self.clock.now += seconds
            case flows.LastHeard():
                return self.heard
            case flows.Receive(_, silence):
                self.silences.append(silence)
                return self._happen(next(happens))
            case flows.Connect():
                return self._happen(next(happens, None))
        return None

    def _happen(self, happening: Any) -> Any:
        if isinstance(happening, Callable):  # type: ignore[arg-type]
            happening = happening()
        if isinstance(happening, Exception):
            raise happening
        return happening


def lost() -> ChannelClosed:
    return ChannelClosed("the connection was lost", reason="test")


def silent() -> ChannelSilence:
    return ChannelSilence("nothing came")


def welcome(driver: Driver, **fields: Any) -> bytes:
    return encode(m.Welcome(session=driver.talk.hello.session, token=driver.talk.hello.token, **fields))


def opened(**settings: Any) -> Driver:
    driver = Driver(**settings)
    driver.run(driver.talk.open(None, patient=False), [None, lambda: welcome(driver)])
    driver.intents.clear()
    driver.silences.clear()
    return driver


def stepping(**settings: Any) -> Driver:
    """Return a driver whose step is outstanding."""
    driver = opened(**settings)
    driver.talk.wire.send(m.Step(1, None))
    return driver


RESUMED_BEFORE = encode(m.Resumed(session="x", last=0))
RESUMED_AFTER = encode(m.Resumed(session="x", last=1))
TRANSITION = encode(m.Transition(1, None, b"12345678", b"\0"))


def test_open_connects_and_says_hello() -> None:
    driver = Driver()
    reply = driver.run(driver.talk.open(None, patient=False), [None, lambda: welcome(driver, target="echo")])
    assert reply.target == "echo"
    assert driver.intents == ["connect", "hello", "receive"]
    assert driver.talk.wire.phase is Phase.IDLE


def test_each_conversation_chooses_its_session_and_token() -> None:
    first, second = Driver().talk.hello, Driver().talk.hello
    assert first.session != second.session
    assert first.token != second.token
    assert len(first.session) == 32
    assert len(first.token) == 16


def test_an_impatient_open_fails_at_the_first_refusal() -> None:
    driver = Driver()
    with pytest.raises(ServerConnectionError, match="nobody") as caught:
        driver.run(driver.talk.open(None, patient=False), [Unreachable("nobody", server="s", status=503)])
    assert type(caught.value) is ServerConnectionError  # what the error reference has
    assert (caught.value.server, caught.value.details) == ("s", {"status": 503})
    assert driver.intents == ["connect"]


def test_a_patient_open_tries_for_the_connect_timeout() -> None:
    driver = Driver(connect_timeout=1.0)
    with pytest.raises(ServerConnectionError, match="nobody"):
        driver.run(driver.talk.open(None, patient=True), [Unreachable("nobody")] * 100)
    assert 0.5 < driver.clock.now - 1000.0 <= 1.0
    assert driver.intents[:4] == ["connect", "pause", "connect", "pause"]


def test_a_refusal_that_is_final_is_not_tried_again() -> None:
    driver = Driver()
    with pytest.raises(ServerConnectionError, match="wrong port"):
        driver.run(driver.talk.open(None, patient=True), [ServerConnectionError("wrong port")])
    assert driver.intents == ["connect"]


def test_a_lost_welcome_is_asked_for_again() -> None:
    driver = Driver()
    happenings = [None, lost(), None, lambda: welcome(driver, target="echo")]
    assert driver.run(driver.talk.open(None, patient=False), happenings).target == "echo"
    assert driver.intents == ["connect", "hello", "receive", "connect", "resume", "receive"]


def test_a_hello_that_never_arrived_is_said_again_with_another_session() -> None:
    driver = Driver()
    unknown = encode(m.Error("session_lost", "unknown"))
    first = driver.talk.hello.session
    happenings = [None, lost(), None, unknown, None, lambda: welcome(driver)]
    driver.run(driver.talk.open(None, patient=False), happenings)
    assert driver.intents.count("hello") == 2
    assert driver.talk.hello.session != first


def test_hello_is_not_said_for_ever() -> None:
    driver = Driver()
    unknown = encode(m.Error("session_lost", "unknown"))
    with pytest.raises(ServerConnectionError, match="broke 3 times"):
        driver.run(driver.talk.open(None, patient=False), [None, lost(), None, unknown] * 3)
    assert driver.intents.count("hello") == 3


def test_a_worker_that_dies_in_the_constructor_is_reported() -> None:
    driver = Driver()
    crashed = encode(m.Error("worker_crashed", "it died", details={"exit_code": 3}))
    with pytest.raises(WorkerCrashedError, match="it died"):
        driver.run(driver.talk.open(None, patient=False), [None, lost(), None, crashed])


def test_another_version_is_refused() -> None:
    driver = Driver()
    with pytest.raises(VersionMismatchError, match=r"speaks version 2 of openenv.msgpack.v1, this client"):
        driver.run(driver.talk.open(None, patient=False), [None, lambda: welcome(driver, version=2)])


def test_who_waits_for_a_slot_is_not_asked_for_a_sign_of_life_meanwhile() -> None:
    driver = Driver(keepalive=(20.0, 5.0), slot_timeout=60.0)
    driver.run(driver.talk.open(None, patient=False), [None, silent(), lambda: welcome(driver)])
    assert driver.silences == [80.0, 5.0]
    assert driver.intents == ["connect", "hello", "receive", "ping", "receive"]


@pytest.mark.parametrize("resumed", [RESUMED_BEFORE, RESUMED_AFTER])
def test_recover_repeats_the_outstanding_request_under_its_id(resumed: bytes) -> None:
    driver = stepping()
    reply = driver.run(driver.talk.recover(lost(), None), [None, resumed, TRANSITION])
    assert isinstance(reply, m.Transition)
    assert driver.intents == ["connect", "resume", "receive", "step", "receive"]
    assert driver.talk.wire.last_id == 1
    assert driver.talk.wire.pending is None


def test_recover_without_an_outstanding_request_only_resumes() -> None:
    driver = opened()
    assert isinstance(driver.run(driver.talk.recover(lost(), None), [None, RESUMED_BEFORE]), m.Resumed)
    assert driver.intents == ["connect", "resume", "receive"]
    assert driver.talk.wire.phase is Phase.IDLE


def test_recover_reports_why_the_session_ended() -> None:
    driver = stepping()
    error = encode(m.Error("deadline_exceeded", "too slow", details={"operation": "step"}))
    with pytest.raises(SessionLostError, match="too slow") as caught:
        driver.run(driver.talk.recover(lost(), None), [None, error])
    assert caught.value.server == "ws://test"
    assert driver.talk.wire.phase is Phase.CLOSED


def test_recover_without_a_server_says_how_the_connection_was_lost() -> None:
    driver = stepping(connect_timeout=0.5)
    with pytest.raises(ServerConnectionError, match=r"was lost \(test\), and .* nobody") as caught:
        driver.run(driver.talk.recover(lost(), None), [Unreachable("nobody")] * 100)
    assert not isinstance(caught.value, Unreachable)


@pytest.mark.parametrize("why", [TimeoutError(), ConnectionRefusedError()])
def test_a_deadline_that_passes_while_the_server_does_not_answer_is_no_lost_server(why: OSError) -> None:
    driver = stepping()

    def late() -> Exception:
        driver.clock.now += 5.0
        error = Unreachable("no answer")
        error.__cause__ = why
        return error

    kind = TimeoutError if isinstance(why, TimeoutError) else ServerConnectionError
    with pytest.raises(kind):
        driver.run(driver.talk.recover(lost(), driver.clock.now + 5.0), [late])
    assert driver.intents == ["connect"]


def test_a_server_that_fell_silent_and_is_gone_names_the_option() -> None:
    driver = stepping(keepalive=(20.0, 5.0), connect_timeout=0.5)
    with pytest.raises(
        ServerConnectionError, match=r"no sign of life within keepalive=\(20.0, 5.0\) s.*nobody"
    ):
        driver.run(driver.talk.recover(silent(), None), [Unreachable("nobody")] * 100)


def test_recover_gives_up_on_a_connection_that_breaks_every_time() -> None:
    driver = stepping()
    with pytest.raises(ChannelClosed):
        driver.run(driver.talk.recover(lost(), None), [None, RESUMED_AFTER, lost()] * 100)
    assert driver.intents.count("connect") == 16


def test_a_server_that_claims_to_have_executed_more_than_was_sent_is_refused() -> None:
    driver = stepping()
    with pytest.raises(RemoteProtocolError, match="executed request 7, the last one sent is 1"):
        driver.run(driver.talk.recover(lost(), None), [None, encode(m.Resumed(session="x", last=7))])


def test_a_late_reply_is_dropped() -> None:
    driver = stepping()
    driver.talk.wire.abandon()
    driver.talk.wire.send(m.Reset(2))
    reply = driver.run(driver.talk.reply(None), [TRANSITION, encode(m.Observation(2))])
    assert isinstance(reply, m.Observation)


def test_a_silent_peer_is_asked_and_may_go_on_as_long_as_it_answers() -> None:
    driver = stepping(keepalive=(20.0, 5.0))
    driver.heard = 10_000.0
    happenings = [silent(), silent(), silent(), silent(), TRANSITION]
    assert isinstance(driver.run(driver.talk.reply(None), happenings), m.Transition)
    assert driver.intents == ["receive", "ping", "receive", "lastheard"] * 2 + ["receive"]
    assert driver.silences == [20.0, 5.0, 20.0, 5.0, 20.0]


def test_a_peer_that_does_not_answer_counts_as_gone() -> None:
    driver = stepping(keepalive=(20.0, 5.0))
    with pytest.raises(ChannelSilence):
        driver.run(driver.talk.after_silence(None), [silent()])
    assert driver.intents == ["ping", "receive", "lastheard"]


def test_after_silence_the_reply_is_still_taken() -> None:
    driver = stepping(keepalive=(20.0, 5.0))
    assert isinstance(driver.run(driver.talk.after_silence(None), [TRANSITION]), m.Transition)


def test_without_keepalive_nobody_is_asked() -> None:
    driver = stepping(keepalive=None)
    driver.run(driver.talk.reply(None), [TRANSITION])
    assert driver.silences == [None]


def test_a_server_that_gives_no_sign_of_life_to_resume_names_the_option() -> None:
    driver = stepping(keepalive=(20.0, 5.0), connect_timeout=3.0)
    with pytest.raises(ServerConnectionError, match=r"no sign of life for 3 s.*keepalive=None") as caught:
        driver.run(driver.talk.recover(silent(), None), [None, silent()])
    assert caught.value.details["option"] == "keepalive"
    assert driver.silences == [3.0]


@pytest.mark.parametrize(("keepalive", "asked"), [((20.0, 5.0), ["ping"]), (None, [])])
def test_who_resumes_asks_at_once_for_a_sign_of_life(
    keepalive: tuple[float, float] | None, asked: list[str]
) -> None:
    driver = opened(keepalive=keepalive)
    driver.run(driver.talk.recover(lost(), None), [None, RESUMED_BEFORE])
    assert driver.intents == ["connect", "resume", *asked, "receive"]


def test_a_busy_server_that_shows_life_is_resumed_as_often_as_it_takes() -> None:
    driver = stepping(keepalive=(20.0, 5.0))
    driver.heard = 10_000.0

    def mute() -> ChannelSilence:
        driver.heard = -1.0
        return silent()

    def alive() -> ChannelSilence:
        driver.heard = 10_000.0
        return silent()

    rounds: list[Any] = [None, alive, silent(), mute] * 40
    reply = driver.run(driver.talk.recover(silent(), None), [*rounds, None, RESUMED_AFTER, TRANSITION])
    assert isinstance(reply, m.Transition)
    assert driver.intents.count("connect") == 41


def test_a_deadline_ends_the_wait() -> None:
    driver = stepping()
    with pytest.raises(TimeoutError):
        driver.run(driver.talk.reply(5.0), [TimeoutError()])


@given(
    st.lists(st.sampled_from(["refused", "resume cut", "reply cut", "silent"]), max_size=12), st.booleans()
)
def test_recovery_sends_the_request_only_under_its_own_id(troubles: list[str], executed: bool) -> None:
    driver = stepping(connect_timeout=1000.0)
    driver.heard = 10_000.0
    resumed = RESUMED_AFTER if executed else RESUMED_BEFORE
    happenings: list[Any] = []
    for trouble in troubles:
        happenings += {
            "refused": [Unreachable("nobody")],
            "resume cut": [None, lost()],
            "reply cut": [None, resumed, lost()],
            "silent": [None, resumed, silent()],
        }[trouble]
    reply = driver.run(driver.talk.recover(lost(), None), [*happenings, None, resumed, TRANSITION])
    assert isinstance(reply, m.Transition)
    assert driver.talk.wire.last_id == 1
    assert driver.intents.count("step") == troubles.count("reply cut") + troubles.count("silent") + 1


def test_the_traceback_of_the_environment_is_in_the_text() -> None:
    error = error_of(
        m.Error("environment", "KeyError: 'x'", 1, True, {"traceback": "File there\n"}), "ws://t"
    )
    assert str(error) == "KeyError: 'x'\n\nIn the environment:\nFile there"
    assert error.details["traceback"] == "File there\n"
    plain = error_of(m.Error("new_code", "what"), "ws://t")
    assert type(plain) is OpenEnvError
    assert str(plain) == "what"
