"""Deadlines and idle time are read off the board, never too early."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import DeadlineExceededError, OpenEnvError, SessionLostError
from openenv_gym.protocol.messages import Hello, Limits
from openenv_gym.servers.board import Board, Operation
from openenv_gym.servers.records import Record, Records
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.watch import Watch
from openenv_gym.servers.workers import Worker


class _Scene:
    """A watch over one session, and what it decided."""

    def __init__(self, asked: Limits | None = None, **settings: Any) -> None:
        self.worker = Worker(1, Board(4), 4)
        hello = Hello(session="a" * 32, token=b"t" * 16, limits=asked or Limits())
        self.record = Record(hello.session, hello.token, self.worker, 0, hello, since=0.0)
        records = Records()
        records.living[hello.session] = self.record
        self.decided: list[tuple[str, OpenEnvError]] = []
        self.watch = Watch(
            records,
            ServerSettings(**settings),
            lambda record, why: self.decided.append(("end", why)),
            lambda record, why: self.decided.append(("condemn", why)),
            lambda: next(self.times),
        )

    def look(self, now: float, value: int, stall: float = 0.0) -> bool:
        """Look at ``now`` and, should the time be taken again, ``stall`` seconds later."""
        self.times = iter((now, now + stall))
        self.worker.board.cells[0] = value
        return self.watch.look(self.record)


@pytest.mark.parametrize(
    ("operation", "settings", "asked"),
    [
        (Operation.STEP, {"step_deadline": 2.0}, Limits()),
        (Operation.STEP, {}, Limits(step=2.0)),
        (Operation.STEP, {"step_deadline": 9.0}, Limits(step=2.0)),
        (Operation.STEP, {"step_deadline": 2.0}, Limits(step=9.0)),
        (Operation.OTHER, {"step_deadline": 2.0}, Limits()),
        (Operation.RESET, {"reset_deadline": 2.0}, Limits()),
        (Operation.CONSTRUCTION, {"construction_deadline": 2.0}, Limits()),
    ],
)
def test_the_shorter_deadline_counts_from_when_the_operation_was_first_seen(
    operation: Operation, settings: dict[str, float], asked: Limits
) -> None:
    scene = _Scene(asked, **settings)
    value = 3 * 16 + operation
    assert scene.look(100.0, value)
    assert scene.look(102.0, value)
    assert scene.decided == []
    scene.look(102.1, value)
    [(what, why)] = scene.decided
    assert what == "condemn"
    assert isinstance(why, DeadlineExceededError)
    assert why.details == {"operation": operation.name.lower(), "deadline": 2.0}


@pytest.mark.parametrize("setting", ["step_deadline", "reset_deadline", "construction_deadline"])
@pytest.mark.parametrize("operation", [o for o in Operation if o is not Operation.VACANT])
def test_the_watch_never_rests_while_any_operation_has_a_deadline(operation: Operation, setting: str) -> None:
    scene = _Scene(**{setting: 2.0})
    assert scene.look(100.0, 16 + operation)


def test_a_new_operation_starts_a_new_clock() -> None:
    scene = _Scene(step_deadline=2.0)
    for count in range(1, 50):
        scene.look(100.0 + count * 1.5, count * 16 + Operation.STEP)
    assert scene.decided == []


def test_time_in_which_the_watch_did_not_run_is_nobody_s() -> None:
    scene = _Scene(step_deadline=2.0)
    scene.look(100.0, 16 + Operation.STEP, stall=10.0)
    scene.look(111.9, 16 + Operation.STEP)
    assert scene.decided == []
    scene.look(112.1, 16 + Operation.STEP)
    assert len(scene.decided) == 1


def test_without_a_deadline_nothing_is_ever_condemned_and_the_watch_may_rest() -> None:
    scene = _Scene()
    assert not scene.look(100.0, 16 + Operation.STEP)
    assert not scene.look(1e9, 16 + Operation.STEP)
    assert scene.decided == []


def test_an_idle_session_ends_after_the_idle_timeout_and_not_before() -> None:
    scene = _Scene(idle_timeout=60.0)
    scene.look(100.0, 32)
    scene.look(160.0, 32)
    assert scene.decided == []
    scene.look(160.1, 32)
    [(what, why)] = scene.decided
    assert (what, type(why)) == ("end", SessionLostError)
    assert "--idle-timeout" in str(why)


def test_a_session_that_ends_already_is_left_alone() -> None:
    scene = _Scene(step_deadline=1.0)
    scene.record.ending = SessionLostError("it was closed")
    scene.look(100.0, 16 + Operation.STEP)
    scene.look(200.0, 16 + Operation.STEP)
    assert scene.decided == []


def test_a_session_whose_worker_does_not_end_it_is_given_up() -> None:
    """Its worker's interpreter lock is kept by somebody else's call."""
    scene = _Scene()
    scene.look(100.0, 32)
    scene.record.ending, scene.record.since = SessionLostError("it was idle"), 500.0
    scene.look(510.0, 32)
    assert scene.decided == []
    scene.look(510.1, 32)
    assert scene.decided == [("condemn", scene.record.ending)]
    scene.look(511.1, 32)
    assert len(scene.decided) == 1


def test_a_session_that_closes_its_environment_is_not_given_up() -> None:
    scene = _Scene()
    scene.record.ending = SessionLostError("it was idle")
    scene.look(100.0, 32 + Operation.CLOSE)
    scene.look(900.0, 32 + Operation.CLOSE)
    assert scene.decided == []
