"""Results of lanes as one reply: what is left out, what fails alone, and how rewards are rounded."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers.batches import Batches
from openenv_gym.servers.episodes import Episodes
from openenv_gym.servers.results import Results

_SPACE = spaces.Box(-1, 1, (2,), np.float32)


class _Env(gym.Env[Any, Any]):
    def step(self, action: Any) -> Any:
        raise AssertionError(action)


def _batches(lanes: int, *, same_step: bool = False) -> Batches:
    return Batches([Episodes(_Env()) for _ in range(lanes)], column_codec(_SPACE), same_step=same_step)


def _outcome(reward: Any = 1.0, terminated: Any = False, truncated: Any = False, info: Any = None) -> Any:
    return np.full(2, 0.5, np.float32), reward, terminated, truncated, info or {}


def test_lanes_are_named_unless_they_are_all() -> None:
    batches = _batches(3)
    reply, _ = batches.transition(1, Results([0, 1, 2], [_outcome()] * 3))
    assert (reply.lanes, reply.flags, reply.infos) == (None, b"\0\0\0", None)
    reply, _ = batches.transition(1, Results([2, 0], [_outcome()] * 2))
    assert reply.lanes == bytes([2, 0, 0, 0, 0, 0, 0, 0])
    assert reply.observations == np.full(4, 0.5, np.float32).tobytes()


def test_nothing_at_all_is_a_reply() -> None:
    reply, _ = _batches(2).transition(1, Results())
    assert (reply.observations, reply.rewards, reply.flags, reply.lanes) == (None, b"", b"", b"")
    again, _ = _batches(2).observation(1, Results())
    assert (again.observations, again.lanes) == (None, b"")


def test_flags_say_how_episodes_ended() -> None:
    ends = [_outcome(), _outcome(terminated=np.True_), _outcome(truncated=1), _outcome(1.0, True, True)]
    reply, _ = _batches(4).transition(1, Results([0, 1, 2, 3], ends))
    assert reply.flags == bytes([0, 1, 2, 3])


def test_infos_are_one_map_a_lane_if_there_is_any() -> None:
    reply, _ = _batches(2).transition(1, Results([0, 1], [_outcome(), _outcome(info={"a": 1})]))
    assert reply.infos == [{}, {"a": 1}]


def test_a_result_that_does_not_travel_is_taken_out() -> None:
    bad = (np.zeros(3, np.float32), 1.0, False, False, {})
    reply, results = _batches(3).transition(1, Results([0, 1, 2], [_outcome(1.0), bad, _outcome(3.0)]))
    assert (results.lanes, [lane for lane, _ in results.failed]) == ([0, 2], [1])
    assert reply.rewards == struct.pack("<2d", 1.0, 3.0)
    (failure,) = reply.failed
    assert (failure.lane, failure.code) == (1, "value_not_carried")


_REWARDS = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.floats(width=32).map(np.float32),
    st.integers(0, 255).map(np.uint8),
    st.floats(width=32).map(lambda number: np.array(number, np.float32)),
    st.fractions().map(lambda number: Fraction(number.numerator, number.denominator)),
)


@given(st.lists(_REWARDS, min_size=1, max_size=4), st.booleans())
def test_rewards_become_the_float64_that_numpy_makes_of_them(rewards: list[Any], whole: bool) -> None:
    due = np.zeros(len(rewards))
    for at, reward in enumerate(rewards):
        due[at] = reward
    batches = _batches(len(rewards) + (not whole))
    lanes = list(range(len(rewards)))
    reply, _ = batches.transition(1, Results(lanes, [_outcome(reward) for reward in rewards]))
    assert reply.rewards == due.tobytes()


@pytest.mark.parametrize("reward", [np.zeros(2), "one", object(), 10**400])
def test_what_is_no_number_is_no_reward(reward: Any) -> None:
    reply, results = _batches(2).transition(1, Results([0, 1], [_outcome(reward), _outcome(2.0)]))
    assert (results.lanes, [failure.lane for failure in reply.failed]) == ([1], [0])
    assert reply.rewards == struct.pack("<d", 2.0)
