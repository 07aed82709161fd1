"""The attendant looks after seats that have been busy for a round, and leaves all others alone."""

from __future__ import annotations

import threading

import pytest

from openenv_gym.servers import attendant as module
from openenv_gym.servers.attendant import Attendant
from openenv_gym.servers.seat import Seat
from tests.support.serverproc import eventually

_PATIENCE = 20.0


class _Seat(Seat):
    """Counts what the attendant does."""

    def __init__(self, session: str = "a", *, busy: bool = True, count: int = 1) -> None:
        self.session, self.busy, self.count = session, busy, count
        self.attended = self.beats = 0
        self.seen = threading.Event()

    def attend(self) -> None:
        self.attended += 1
        self.seen.set()

    def beat(self) -> None:
        self.beats += 1


def test_a_seat_is_attended_to_once_it_was_busy_for_a_whole_round() -> None:
    seat = _Seat()
    attendant = Attendant(lambda: [seat], None)
    attendant.round(0.0)
    assert seat.attended == 0
    attendant.round(1.0)
    attendant.round(2.0)
    assert (seat.attended, seat.beats) == (2, 0)


def test_a_seat_that_fails_is_no_reason_to_leave_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(_Seat):
        def attend(self) -> None:
            super().attend()
            raise MemoryError

    seats = [Failing("a"), _Seat("b")]
    attendant = Attendant(lambda: seats, None)
    for now in range(3):
        attendant.round(float(now))
    assert [seat.attended for seat in seats] == [2, 2]
    assert "session a cannot be attended to" in caplog.text


def test_quick_calls_are_left_alone() -> None:
    seat = _Seat()
    attendant = Attendant(lambda: [seat], 1.0)
    for now in range(10):
        seat.count += 2
        attendant.round(float(now))
    assert (seat.attended, seat.beats) == (0, 0)


def test_an_idle_seat_is_left_alone_and_begins_anew() -> None:
    seat = _Seat()
    attendant = Attendant(lambda: [seat], None)
    attendant.round(0.0)
    seat.busy = False
    attendant.round(1.0)
    seat.busy = True
    attendant.round(2.0)
    assert seat.attended == 0
    attendant.round(3.0)
    assert seat.attended == 1


def test_signs_of_life_are_given_at_the_interval_asked_for() -> None:
    seat = _Seat()
    attendant = Attendant(lambda: [seat], 5.0)
    beats = []
    for now in range(13):
        attendant.round(float(now))
        beats.append(seat.beats)
    assert beats == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]


def test_a_new_call_starts_a_new_interval() -> None:
    seat = _Seat()
    attendant = Attendant(lambda: [seat], 3.0)
    for now in range(12):
        if now % 2 == 0:
            seat.count += 2
        attendant.round(float(now))
    assert (seat.attended, seat.beats) == (6, 0)


def test_each_seat_has_its_own_clock() -> None:
    old, new = _Seat("a"), _Seat("b")
    seats = [old]
    attendant = Attendant(lambda: seats, 2.0)
    attendant.round(0.0)
    attendant.round(1.0)
    seats.append(new)
    attendant.round(2.0)
    assert (old.beats, new.beats, new.attended) == (1, 0, 0)
    seats.remove(old)
    attendant.round(3.0)
    attendant.round(4.0)
    assert (old.beats, new.beats, new.attended) == (1, 1, 2)


@pytest.mark.usefixtures("no_leaks")
def test_one_thread_makes_the_rounds_while_there_are_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROUND", 0.001)
    seats = [_Seat()]
    attendant = Attendant(lambda: list(seats), None)
    before = set(threading.enumerate())
    for _ in range(5):
        attendant.start()
    assert len(set(threading.enumerate()) - before) == 1
    assert seats[0].seen.wait(_PATIENCE)
    seats.clear()
    assert eventually(lambda: set(threading.enumerate()) <= before)
    seats.append(_Seat())
    attendant.start()
    assert seats[0].seen.wait(_PATIENCE)
    seats.clear()
