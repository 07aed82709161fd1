from __future__ import annotations

import asyncio
import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigError, RubricError
from openenv_gym.rubrics import ExponentialDiscountingTrajectoryRubric, Sequential, TrajectoryRubric
from tests.rubrics.rubrics import Fixed, Said

GOING, OVER = Said(), Said(done=True)


class Discounted(ExponentialDiscountingTrajectoryRubric):
    calls = 0

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Any:
        self.calls += 1
        return trajectory[-1][1].text or len(trajectory)


class Equal(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return 0.5

    def compute_step_rewards(self) -> list[float]:
        assert self.final_score is not None
        return [self.final_score] * len(self.trajectory)


def test_the_score_comes_at_the_end() -> None:
    rubric = Equal(intermediate_reward=-0.25)
    assert [rubric(0, GOING), rubric(1, GOING), rubric(2, OVER)] == [-0.25, -0.25, 0.5]
    assert rubric.trajectory == [(0, GOING), (1, GOING), (2, OVER)]
    assert rubric.final_score == 0.5
    assert rubric.credit() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("end", ["done", "terminated", "truncated"])
def test_an_episode_ends_in_each_of_these_ways(end: str) -> None:
    rubric = Equal()
    rubric(0, Said(**{end: True}))
    assert rubric.final_score == 0.5


def test_reset_forgets_the_episode() -> None:
    tree = Sequential(Fixed(), Equal())
    rubric = tree[1]
    assert isinstance(rubric, Equal)
    tree(0, OVER)
    tree.reset()
    assert (rubric.trajectory, rubric.final_score, rubric.last_score) == ([], None, None)
    assert tree(0, OVER) == 0.5


def test_a_step_after_the_end_says_that_reset_is_missing() -> None:
    rubric = Equal()
    rubric(0, OVER)
    with pytest.raises(RubricError, match=r"Equal was called after the end .* reset\(\)"):
        rubric(1, GOING)


def test_an_observation_says_whether_it_is_the_last() -> None:
    with pytest.raises(RubricError, match="Equal needs observations with a `done`, which dict has not"):
        Equal()(0, {"done": True})
    assert Equal()(0, SimpleNamespace(done=True)) == 0.5


def test_credit_is_given_when_the_episode_is_over() -> None:
    rubric = Discounted()
    rubric(0, GOING)
    with pytest.raises(RubricError, match="Discounted gives credit when the episode is over"):
        rubric.credit()
    assert rubric.compute_step_rewards() == []


@given(st.floats(0, 1), st.integers(1, 20))
def test_credit_is_discounted_from_the_end(gamma: float, steps: int) -> None:
    rubric = Discounted(gamma)
    for step in range(steps):
        rubric(step, OVER if step == steps - 1 else GOING)
    assert rubric.credit() == [gamma ** (steps - 1 - step) * steps for step in range(steps)]
    assert rubric.calls == 1


@pytest.mark.parametrize(
    ("rewards", "message"), [([0.5], "gave 1 rewards for 2 steps"), ([0.5, math.nan], "nan")]
)
def test_credit_is_one_finite_number_for_each_step(rewards: list[float], message: str) -> None:
    class Wrong(Equal):
        def compute_step_rewards(self) -> list[float]:
            return rewards

    rubric = Wrong()
    rubric(0, GOING)
    rubric(0, OVER)
    with pytest.raises(RubricError, match=message):
        rubric.credit()


def test_the_final_score_may_be_awaited() -> None:
    class Judged(Discounted):
        async def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Any:
            await asyncio.sleep(0)
            return super().score_trajectory(trajectory)

    rubric = Judged(gamma=0.5)
    assert rubric(0, GOING) == 0.0
    assert asyncio.run(rubric(1, OVER)) == 2.0  # type: ignore[arg-type]
    assert rubric.credit() == [1.0, 2.0]


def test_a_final_score_that_is_no_number_is_an_error() -> None:
    rubric = Discounted()
    with pytest.raises(RubricError, match="Discounted gave 'good' as its score"):
        rubric(0, Said(done=True, text="good"))
    assert rubric.final_score is None


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan, "0.5"])
def test_gamma_is_between_zero_and_one(gamma: Any) -> None:
    with pytest.raises(ConfigError, match="gamma has to be"):
        Discounted(gamma)


def test_settings_travel_and_steps_do_not() -> None:
    rubric = Discounted(0.5, -0.25)
    rubric(0, GOING)
    state = rubric.state_dict()
    assert state == {"gamma": 0.5, "intermediate_reward": -0.25}
    other = Discounted()
    other.load_state_dict(state)
    assert (other.state_dict(), other.trajectory) == (state, [])
    with pytest.raises(ConfigError, match="intermediate_reward has to be a finite number"):
        other.load_state_dict({**state, "intermediate_reward": math.inf})


def test_a_copy_collects_for_itself() -> None:
    rubric = Equal()
    other = copy.deepcopy(rubric)
    other(0, OVER)
    assert rubric.trajectory == []


def test_no_call_of_the_base_constructor_is_needed() -> None:
    class Careless(Equal):
        def __init__(self) -> None:
            pass

    assert [Careless()(0, GOING), Careless()(0, OVER)] == [0.0, 0.5]
