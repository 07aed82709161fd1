"""Properties of rubrics nested at random."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from tests.rubrics.rubrics import Fixed


class Leaf(Fixed):
    settings = ("score",)


class LateLeaf(Leaf):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)


class Least(Rubric):
    """The lowest of the scores of a dict, and of a list."""

    def __init__(self, rubrics: list[Rubric]) -> None:
        self.named = RubricDict({f"part {number}": rubric for number, rubric in enumerate(rubrics[:1])})
        self.listed = RubricList(rubrics[1:])

    async def forward(self, action: Any, observation: Any) -> float:
        named, listed = self.named.scores(action, observation), self.listed.scores(action, observation)
        named = named if isinstance(named, dict) else await named
        return min(*named.values(), *(listed if isinstance(listed, list) else await listed), math.inf)


@dataclass
class Plan:
    """A tree to build, and what is to be expected of it."""

    kind: str
    number: float = 0.0
    parts: list[Plan] = field(default_factory=list)

    def build(self) -> Rubric:
        parts = [part.build() for part in self.parts]
        if self.kind == "sequential":
            return Sequential(*parts)
        if self.kind == "gate":
            return Gate(parts[0], self.number)
        if self.kind == "sum":
            return WeightedSum(parts, self.weights())
        if self.kind == "least":
            return Least(parts)
        return LateLeaf(self.number) if self.kind == "late" else Leaf(self.number)

    def weights(self) -> list[float]:
        """Return weights that add up to 1 exactly."""
        rest = [self.number] * (len(self.parts) - 1)
        return [1.0 - sum(rest), *rest]

    def score(self) -> tuple[float, bool, int]:
        """Return the score, whether it has to be awaited, and how many leaves run."""
        if self.kind in ("leaf", "late"):
            return self.number, self.kind == "late", 1
        found: list[tuple[float, bool, int]] = []
        for part in self.parts:
            found.append(part.score())
            if self.kind == "sequential" and found[-1][0] == 0.0:
                break
        scores = [score for score, _, _ in found]
        late = self.kind == "least" or any(late for _, late, _ in found)
        return self._total(scores), late, sum(leaves for _, _, leaves in found)

    def _total(self, scores: list[float]) -> float:
        if self.kind == "gate":
            return scores[0] if scores[0] >= self.number else 0.0
        if self.kind == "sum":
            return math.fsum(map(float.__mul__, scores, self.weights()))
        return min(scores) if self.kind == "least" else [1.0, *scores][-1]


# Multiples of 1/8: sums and products of a few of them are exact.
NUMBERS = st.integers(-8, 8).map(lambda eighths: eighths / 8)


def _larger(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    return st.one_of(
        st.builds(Plan, st.just("sequential"), parts=st.lists(plans, max_size=4)),
        st.builds(Plan, st.just("gate"), NUMBERS, st.lists(plans, min_size=1, max_size=1)),
        st.builds(Plan, st.just("sum"), NUMBERS, st.lists(plans, min_size=1, max_size=4)),
        st.builds(Plan, st.just("least"), parts=st.lists(plans, min_size=1, max_size=3)),
    )


PLANS = st.recursive(st.builds(Plan, st.sampled_from(["leaf", "late"]), NUMBERS), _larger, max_leaves=12)


def leaves(rubric: Rubric) -> Iterator[Leaf]:
    for found in (rubric, *rubric.rubrics()):
        if isinstance(found, Leaf):
            yield found


@given(PLANS)
def test_the_score_is_what_the_parts_make_it(plan: Plan) -> None:
    rubric = plan.build()
    expected, late, ran = plan.score()
    result = rubric("a", "o")
    assert isinstance(result, float) is not late
    assert (result if isinstance(result, float) else asyncio.run(result)) == expected == rubric.last_score
    calls = [leaf.calls for leaf in leaves(rubric)]
    assert sum(calls) == ran
    assert [leaf.last_score for leaf in leaves(rubric)] == [
        leaf.score if leaf.calls else None for leaf in leaves(rubric)
    ]
    rubric.reset()
    assert {found.last_score for found in (rubric, *rubric.rubrics())} == {None}


@given(PLANS)
def test_every_part_has_one_path_that_leads_to_it(plan: Plan) -> None:
    rubric = plan.build()
    named = list(rubric.named_rubrics())
    assert len({path for path, _ in named}) == len(named) == len(list(rubric.rubrics()))
    assert all(rubric.get_rubric(path) is found for path, found in named)


@given(PLANS)
def test_state_goes_to_a_tree_of_the_same_shape(plan: Plan) -> None:
    state = json.loads(json.dumps(plan.build().state_dict()))
    other = _emptied(plan).build()
    other.load_state_dict(state)
    assert json.loads(json.dumps(other.state_dict())) == state
    result = other("a", "o")
    assert (result if isinstance(result, float) else asyncio.run(result)) == plan.score()[0]


def _emptied(plan: Plan) -> Plan:
    return Plan(plan.kind, 0.0, [_emptied(part) for part in plan.parts])
