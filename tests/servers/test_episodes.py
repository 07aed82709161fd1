"""A turn of a lane in each autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.servers.episodes import MODES, Episodes, NextStep, SameStep


class _Env(gym.Env[Any, Any]):
    """Ends its episode after two steps, and reuses one array and one dict for all that it returns."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 99, (1,), np.int64)
        self.action_space = spaces.Discrete(9)
        self._array = np.zeros(1, np.int64)
        self._info: dict[str, Any] = {}
        self.calls: list[Any] = []

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.calls.append(given)
        self._array[0] = 0
        self._info["at"] = 0
        return self._array, self._info

    def step(self, action: Any) -> Any:
        self.calls.append(action)
        self._array[0] += 1
        self._info["at"] = int(self._array[0])
        return self._array, 1.5, self._array[0] >= 2, False, self._info


def _turn(lane: Episodes) -> tuple[int, float, bool, bool, int]:
    observation, reward, terminated, truncated, info = lane.turn(7)
    return int(observation[0]), reward, bool(terminated), bool(truncated), info["at"]


def test_the_modes_are_those_of_gymnasium() -> None:
    assert {"disabled": Episodes, "next_step": NextStep, "same_step": SameStep} == MODES


def test_without_autoreset_nothing_is_reset() -> None:
    lane = Episodes(_Env())
    lane.reset((3, {"a": 1}))
    assert [_turn(lane) for _ in range(3)] == [
        (1, 1.5, False, False, 1),
        (2, 1.5, True, False, 2),
        (3, 1.5, True, False, 3),
    ]
    assert lane.env.calls == [{"seed": 3, "options": {"a": 1}}, 7, 7, 7]  # type: ignore[attr-defined]


def test_the_turn_after_the_end_ignores_its_action() -> None:
    lane = NextStep(_Env())
    lane.reset((3, None))
    assert [_turn(lane) for _ in range(4)] == [
        (1, 1.5, False, False, 1),
        (2, 1.5, True, False, 2),
        (0, 0.0, False, False, 0),
        (1, 1.5, False, False, 1),
    ]
    assert lane.env.calls[1:] == [7, 7, {}, 7]  # type: ignore[attr-defined]


def test_a_reset_by_the_client_comes_instead_of_that_of_the_next_turn() -> None:
    lane = NextStep(_Env())
    lane.reset((None, None))
    _turn(lane)
    _turn(lane)
    lane.reset((None, None))
    assert _turn(lane) == (1, 1.5, False, False, 1)


def test_the_turn_that_ends_an_episode_keeps_how_it_ended() -> None:
    lane = SameStep(_Env())
    lane.reset((None, None))
    assert _turn(lane) == (1, 1.5, False, False, 1)
    assert _turn(lane) == (0, 1.5, True, False, 0)
    observation, info = lane.final
    assert (observation.tolist(), info) == ([2], {"at": 2})


@pytest.mark.parametrize("kind", MODES.values())
@pytest.mark.parametrize(
    "outcome",
    [(0, 1.0, False, {}), (0, 1.0, np.array([True, False]), False, {}), None],
    ids=["old", "array", "none"],
)
def test_what_is_no_outcome_raises_in_its_lane(kind: type[Episodes], outcome: Any) -> None:
    env = _Env()
    env.step = lambda action: outcome  # type: ignore[method-assign]
    lane = kind(env)
    lane.reset((None, None))
    with pytest.raises((ValueError, TypeError)):
        lane.turn(0)
