"""What an env does when its session is lost, replaced or not to be had."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
from gymnasium import spaces

from openenv_gym.errors import (
    EnvironmentMismatchError,
    RemoteProtocolError,
    ResetNeededError,
    ServerConnectionError,
    SessionLostError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.specs import to_spec
from tests.client.scripted import Life
from tests.support.counting import WELCOME, count, counting, scripted


def test_a_lost_session_is_reported_once_and_reset_opens_another() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        server.script.extend(["executed", "kill"])
        with pytest.raises(SessionLostError):
            env.step(0)
        with pytest.raises(ResetNeededError, match=r"call reset\(\) to start a new session"):
            env.step(0)
        assert env.reset()[0] == 0
        assert env.step(0)[0] == 1
        assert set(server.executed.values()) == {1}


def test_a_session_lost_between_episodes_is_replaced_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        server.sessions.clear()
        server.cut_now()
        connection = env._connection
        assert connection is not None
        while connection._channel is not None and connection._channel.attend() >= 0:
            pass
        assert env.reset()[0] == 0
        assert "a new session is opened" in caplog.text
        assert server.seen == ["hello", "reset", "resume", "hello", "reset"]


def test_other_spaces_after_a_loss_are_refused() -> None:
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        server._welcome = {**WELCOME, "action_space": to_spec(spaces.Discrete(3), "action_space")}
        server.script.extend(["request", "kill"])
        with pytest.raises(SessionLostError):
            env.step(0)
        with pytest.raises(EnvironmentMismatchError, match="other spaces than before"):
            env.reset()


@pytest.mark.parametrize(
    "broken",
    [
        {"flags": b""},
        {"observations": b"1"},
        {"rewards": b"12"},
        {"rewards": []},
        {"infos": []},
    ],
)
def test_a_reply_that_cannot_be_read_ends_the_session(broken: dict[str, Any]) -> None:
    def answer(request: Any, life: Life) -> Any:
        reply = count(request, life)
        if isinstance(reply, m.Transition) and life.hello.session == first[0]:
            for name, value in broken.items():
                setattr(reply, name, value)
        return reply

    first: list[str] = []
    with scripted(answer) as server, contextlib.closing(counting(server)) as env:
        first.extend(server.sessions)
        env.reset()
        with pytest.raises(RemoteProtocolError, match=r"does not fit the protocol"):
            env.step(0)
        env.reset()
        assert env.step(0)[0] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_session_of_its_own() -> None:
    served = spaces.Discrete(1000)
    with scripted() as server, contextlib.closing(counting(server)) as env:
        env.reset()
        env.step(0)
        # One connection at a time is served here, so the child must not wait for its own.
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(SessionLostError):
                try:
                    env.step(0)
                except SessionLostError:
                    code = 0 if env._connection is None else 2
                    raise
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert env.step(0)[0] == 2
        assert env.observation_space == served


def test_a_reset_that_finds_no_server_leaves_nothing_to_step() -> None:
    with scripted() as server:
        env = counting(server)
        env.reset()
    with contextlib.closing(env):
        with pytest.raises(ServerConnectionError):
            env.reset()
        for call in (lambda: env.step(0), env.render):
            with pytest.raises(ResetNeededError, match=r"the last reset\(\) failed; call it again"):
                call()
