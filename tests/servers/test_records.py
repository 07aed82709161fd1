"""Only the resume token opens a session again; how a session ended is remembered."""

from __future__ import annotations

import pytest

from openenv_gym.errors import (
    AuthenticationError,
    RemoteEnvironmentError,
    SessionLostError,
    WorkerCrashedError,
)
from openenv_gym.protocol.messages import Error, Hello
from openenv_gym.servers.board import Board
from openenv_gym.servers.records import Record, Records
from openenv_gym.servers.workers import Worker

_TOKEN = b"t" * 16


def _records(*sessions: str) -> Records:
    records = Records()
    worker = Worker(1, Board(1), 1)
    for session in sessions:
        hello = Hello(session=session, token=_TOKEN)
        records.living[session] = Record(session, _TOKEN, worker, 0, hello)
    return records


def test_the_right_token_finds_the_session_and_a_wrong_one_does_not() -> None:
    records = _records("a")
    assert records.find("a", _TOKEN).session == "a"
    with pytest.raises(AuthenticationError):
        records.find("a", b"w" * 16)
    with pytest.raises(SessionLostError, match="does not know this session"):
        records.find("b", _TOKEN)


def test_a_session_that_is_ending_tells_why() -> None:
    records = _records("a")
    records.living["a"].ending = WorkerCrashedError("it crashed", exit_code=3)
    with pytest.raises(WorkerCrashedError, match="it crashed"):
        records.find("a", _TOKEN)


def test_how_a_session_ended_is_remembered_and_told_to_its_token_alone() -> None:
    records = _records("a")
    record = records.end("a", Error("environment", "ValueError: x", details={"type": "ValueError"}))
    assert record is not None
    assert records.end("a", None) is None
    with pytest.raises(RemoteEnvironmentError, match="ValueError: x"):
        records.find("a", _TOKEN)
    with pytest.raises(AuthenticationError):
        records.find("a", b"w" * 16)


def test_the_dead_are_forgotten_in_the_end() -> None:
    records = _records(*(str(i) for i in range(5000)))
    for i in range(5000):
        records.end(str(i), None)
    with pytest.raises(SessionLostError, match="does not know"):
        records.find("0", _TOKEN)
    with pytest.raises(SessionLostError, match="was closed"):
        records.find("4999", _TOKEN)


def test_to_tell_again_and_again_keeps_nothing_of_those_who_asked() -> None:
    records = _records("a", "b")
    records.living["a"].ending = kept = WorkerCrashedError("it crashed", exit_code=3)
    records.end("b", Error("environment", "ValueError: x"))
    for session in ("a", "a", "b", "b"):
        with pytest.raises((WorkerCrashedError, RemoteEnvironmentError)) as caught:
            records.find(session, _TOKEN)
        assert len(caught.traceback) == 2
    assert kept.__traceback__ is None
