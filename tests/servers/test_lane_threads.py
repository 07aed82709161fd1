"""Jobs of lanes: which thread runs them, what is waited for, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openenv_gym.errors import CapacityError
from openenv_gym.servers.lane_threads import LaneThreads, OneThread, Runner

_PATIENCE = 20.0


#: Runners of five lanes.
_MADE: dict[str, Callable[[], Runner]] = {
    "one": lambda: OneThread(5),
    "two": lambda: LaneThreads(2, 5),
    "five": lambda: LaneThreads(5, 5),
}


@pytest.fixture(params=_MADE)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    made = _MADE[request.param]()
    yield made
    made.finish(lambda lanes: None, _PATIENCE)


def _double(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return number * 2


def test_a_job_a_lane_in_order(runner: Runner) -> None:
    results = runner.run([_double] * 5, [5, 6, 7, 8, 9])
    assert (results.lanes, results.values, results.failed) == ([0, 1, 2, 3, 4], [10, 12, 14, 16, 18], [])


def test_jobs_that_raise_are_told_apart(runner: Runner) -> None:
    results = runner.run([_double] * 5, [-5, 6, -7, 8, -9])
    assert (results.lanes, results.values) == ([1, 3], [12, 16])
    assert [(lane, exc.args) for lane, exc in results.failed] == [(0, (-5,)), (2, (-7,)), (4, (-9,))]
    assert runner.running == 0


def test_some_lanes_are_started_and_collected(runner: Runner) -> None:
    runner.start([4, 1], [_double] * 2, [40, 10])
    assert runner.running == 2
    results = runner.collect(2)
    assert sorted(zip(results.lanes, results.values, strict=True)) == [(1, 20), (4, 80)]
    assert runner.running == 0


@pytest.mark.parametrize("make", _MADE.values(), ids=_MADE)
def test_the_last_call_reaches_every_lane_on_its_thread(make: Callable[[], Runner]) -> None:
    runner = make()
    places: list[dict[int, int]] = [{}, {}]
    runner.run([lambda lane: places[0].__setitem__(lane, threading.get_ident())] * 5, list(range(5)))

    def last(lanes: Any) -> None:
        for lane in lanes:
            places[1][lane] = threading.get_ident()

    runner.finish(last, _PATIENCE)
    assert places[0] == places[1]


@pytest.mark.parametrize("make", _MADE.values(), ids=_MADE)
def test_what_the_last_call_raises_is_raised(make: Callable[[], Runner]) -> None:
    runner = make()

    def last(lanes: Any) -> None:
        raise RuntimeError("no end")

    with pytest.raises(RuntimeError, match="no end"):
        runner.finish(last, _PATIENCE)


def test_lanes_share_threads_by_their_number() -> None:
    runner = LaneThreads(2, 5)
    places = runner.run([lambda _: threading.get_ident()] * 5, [None] * 5).values
    runner.finish(lambda lanes: None, _PATIENCE)
    assert places[0] == places[2] == places[4] != places[1] == places[3]
    assert threading.get_ident() not in places


def test_a_thread_that_is_asked_for_nothing_runs_nothing() -> None:
    ran: list[int] = []
    runner = OneThread(3)
    runner.start([0, 1, 2], [ran.append] * 3, [0, 1, 2])
    assert (len(runner.collect(0)), ran) == (0, [])
    assert (runner.collect(2).lanes, ran) == ([0, 1], [0, 1])
    runner.finish(lambda lanes: None, _PATIENCE)
    assert ran == [0, 1]


def _gated(runner: LaneThreads, lanes: int) -> Callable[[int], None]:
    """Start a job a lane and see it begin; the returned function lets the job of a lane end."""
    gates = [threading.Event() for _ in range(lanes)]
    begun = threading.Barrier(lanes + 1)

    def wait(gate: threading.Event) -> None:
        begun.wait(_PATIENCE)
        gate.wait(_PATIENCE)

    runner.start(range(lanes), [wait] * lanes, gates)
    begun.wait(_PATIENCE)
    return lambda lane: gates[lane].set()


def test_more_than_was_waited_for_is_collected_if_it_is_there() -> None:
    runner = LaneThreads(3, 3)
    end = _gated(runner, 3)
    end(2)
    assert runner.collect(1).lanes == [2]
    assert len(runner.collect(1, until=0.0)) == 0
    end(0)
    end(1)
    runner.collect(2)
    assert runner.running == 0
    runner.finish(lambda lanes: None, _PATIENCE)


def test_a_lane_over_its_deadline_is_waited_for() -> None:
    runner = LaneThreads(2, 2, deadline=1e-9)
    end = _gated(runner, 2)
    end(1)
    opener = threading.Timer(0.05, end, (0,))
    opener.start()
    assert sorted(runner.collect(1, until=0.0).lanes) == [0, 1]
    opener.join()
    runner.finish(lambda lanes: None, _PATIENCE)


@pytest.mark.parametrize(
    ("make", "ticks"),
    [
        (lambda tick: OneThread(3, tick), 3),
        (lambda tick: LaneThreads(2, 3, tick), 3),
        (lambda tick: LaneThreads(3, 3, tick), 0),
    ],
    ids=["one", "shared", "own"],
)
def test_the_board_is_told_when_a_job_begins_late(make: Any, ticks: int) -> None:
    told: list[int] = []
    runner = make(lambda: told.append(threading.get_ident()))
    runner.run([_double] * 3, [1, 2, 3])
    runner.finish(lambda lanes: None, _PATIENCE)
    assert told[:ticks] == [threading.get_ident()] * ticks
    assert bool(told) == bool(ticks)


def test_the_end_waits_so_long_and_no_longer() -> None:
    runner = LaneThreads(2, 2)
    end = _gated(runner, 2)
    end(0)
    with pytest.raises(TimeoutError, match=r"some of 2 lanes were not done within 0\.01 s"):
        runner.finish(lambda lanes: None, 0.01)
    end(1)


def test_threads_that_are_not_to_be_had_are_an_error_and_leave_none(
    monkeypatch: pytest.MonkeyPatch, no_leaks: None
) -> None:
    start, left = threading.Thread.start, [2]

    def scarce(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(CapacityError, match="no 4 threads.*ulimit -u"):
        LaneThreads(4, 4)
