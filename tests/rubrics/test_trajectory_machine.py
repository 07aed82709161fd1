"""Trajectory rubrics through steps, ends and resets in any order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openenv_gym.errors import RubricError
from openenv_gym.rubrics import ExponentialDiscountingTrajectoryRubric
from tests.rubrics.rubrics import Said


class Count(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return float(len(trajectory))


class Episodes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rubric = Count(gamma=0.5, intermediate_reward=-1.0)
        self.steps: list[tuple[int, Said]] = []
        self.over = False

    @rule(action=st.integers(), over=st.booleans())
    def step(self, action: int, over: bool) -> None:
        observation = Said(done=over)
        if self.over:
            with pytest.raises(RubricError, match="after the end of its episode"):
                self.rubric(action, observation)
            return
        self.steps.append((action, observation))
        self.over = over
        assert self.rubric(action, observation) == (len(self.steps) if over else -1.0)

    @rule()
    def reset(self) -> None:
        self.rubric.reset()
        self.steps, self.over = [], False

    @invariant()
    def credit_is_given_at_the_end_only(self) -> None:
        assert self.rubric.trajectory == self.steps
        assert self.rubric.final_score == (len(self.steps) if self.over else None)
        if self.over:
            credit = self.rubric.credit()
            assert credit[-1] == len(self.steps) == len(credit)
            assert all(earlier == later / 2 for earlier, later in pairwise(credit))
        else:
            with pytest.raises(RubricError, match="when the episode is over"):
                self.rubric.credit()


TestEpisodes = Episodes.TestCase
