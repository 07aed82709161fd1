from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.servers.episodes import NextStep
from openenv_gym.servers.lane_threads import OneThread
from openenv_gym.servers.results import Results
from openenv_gym.servers.together import Together

_LANES = 3


class _Env(gym.Env[Any, Any]):
    """Says how many steps its episode and its life have; does what the action names."""

    observation_space = action_space = gym.spaces.Text(8)

    def __init__(self) -> None:
        self.episode = self.life = 0

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.episode = 0
        return ("begun", self.life), {"new": True}

    def step(self, action: Any) -> Any:
        if action == "raise":
            raise KeyError(action)
        self.episode += 1
        self.life += 1
        if action == "malformed":
            return "malformed"
        return (self.episode, self.life), 1.0, action == "end", action == "cut", {}


def _lanes(limit: int | None) -> list[NextStep]:
    envs: list[Any] = [OrderEnforcing(_Env()) for _ in range(_LANES)]
    lanes = [NextStep(env if limit is None else TimeLimit(env, limit)) for env in envs]
    for lane in lanes:
        lane.reset((None, None))
    return lanes


def _flags(results: Results) -> bytes:
    return bytes(bool(value[2] or value[3]) for value in results.values)


_ACTIONS = st.sampled_from(["go", "go", "go", "end", "cut", "raise"])


@given(
    st.sampled_from([None, 1, 2, 4]),
    st.booleans(),
    st.lists(st.lists(_ACTIONS, min_size=_LANES, max_size=_LANES), max_size=8),
)
def test_it_does_what_a_turn_of_each_lane_does(
    limit: int | None, deadline: bool, batches: list[list[str]]
) -> None:
    apart, lanes = _lanes(limit), _lanes(limit)
    runner = OneThread(_LANES, (lambda: None) if deadline else None)
    together = Together(lanes, runner)
    for actions in batches:
        due = OneThread(_LANES).run([lane.turn for lane in apart], actions)
        results = together.run(actions)
        together.end(results.lanes, _flags(results))
        assert (results.lanes, results.values) == (due.lanes, due.values)
        assert [lane for lane, _ in results.failed] == [lane for lane, _ in due.failed]
        assert [lane.ended for lane in lanes] == [lane.ended for lane in apart]
        if limit is not None:
            counts = [[lane.env._elapsed_steps for lane in some] for some in (lanes, apart)]
            assert counts[0] == counts[1]
        for lane, _ in results.failed:  # as its client does
            for each in (lanes[lane], apart[lane]):
                each.reset((None, None))


@pytest.mark.parametrize("limit", [None, 1])
def test_what_is_no_result_is_left_to_whoever_reads_it(limit: int | None) -> None:
    together = Together(_lanes(limit), OneThread(_LANES))
    results = together.run(["malformed", "go", "go"])
    assert results.values[0] == "malformed"
    assert results.values[1][3] is (limit == 1)
