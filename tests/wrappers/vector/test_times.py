from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from openenv_gym.errors import RemoteProtocolError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import Frames, Transition
from openenv_gym.wrappers.vector.times import LaneWatch


def reply(timing: list[int] | None, lanes: list[int] | None = None) -> Transition:
    named = None if lanes is None else np.array(lanes, "<u4").tobytes()
    return Transition(1, None, b"", b"", lanes=named, timing=timing)


class Stepper:
    def __init__(self) -> None:
        self.observations = self.actions = column_codec(Discrete(3))
        self.fleet = self
        self.parts: list[Any] = []


def test_what_each_session_says_lands_at_its_lanes() -> None:
    watch = LaneWatch(5)
    watch.note(0, 2, reply([7, 10, 20, 5, 40]))
    watch.note(2, 3, reply([9, 1, 2, 3, 4], [2, 0]))
    times = watch.take()
    assert (times.queue * 1e9)[[0, 1, 2, 4]].round().tolist() == [10, 5, 3, 1]
    assert (times.environment * 1e9)[[0, 1, 2, 4]].round().tolist() == [20, 40, 4, 2]
    assert (times.codec * 1e9)[[0, 1, 2, 4]].round().tolist() == [7, 7, 9, 9]
    assert (times.session * 1e9)[[0, 1, 2, 4]].round().tolist() == [45, 45, 7, 7]
    assert all(np.isnan(column[3]) for column in times)


def test_native_lanes_share_one_pair() -> None:
    watch = LaneWatch(3)
    watch.note(1, 2, reply([1, 0, 6]))
    times = watch.take()
    assert (times.environment * 1e9).round().tolist()[1:] == [6, 6]
    assert np.isnan(times.environment[0])


def test_taking_begins_again() -> None:
    watch = LaneWatch(1)
    watch.note(0, 1, reply([1, 2, 3]))
    watch.take()
    assert all(np.isnan(column).all() for column in watch.take())


def test_replies_without_times_say_nothing() -> None:
    watch = LaneWatch(1)
    watch.note(0, 1, reply(None))
    watch.note(0, 1, Frames(1, []))
    assert all(np.isnan(column).all() for column in watch.take())


def test_times_of_another_number_of_lanes_are_refused() -> None:
    for timing, lanes in (([1, 2, 3, 4, 5], None), ([1, 2], None), ([1, 2, 3], [7])):
        with pytest.raises(RemoteProtocolError, match="does not fit the lanes"):
            LaneWatch(3).note(0, 3, reply(timing, lanes))


def test_coding_here_counts_for_every_lane() -> None:
    watch, stepper = LaneWatch(2), Stepper()
    watch.attach(stepper)
    column = stepper.actions.encode_batch(np.array([1, 2]), 2, "actions")
    assert [int(value) for value in stepper.observations.decode(column, 2)] == [1, 2]
    assert stepper.observations.space == Discrete(3)
    watch.note(0, 2, reply([0, 1, 1, 1, 1]))
    times = watch.take()
    assert times.codec[0] == times.codec[1] > 0
