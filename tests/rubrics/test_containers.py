from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ConfigError, UnsupportedError
from openenv_gym.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from tests.rubrics.rubrics import Async, Fixed


def scored(rubric: Rubric) -> Any:
    result = rubric(None, None)
    return result if isinstance(result, float) else asyncio.run(result)


KINDS = pytest.mark.parametrize("kind", [Fixed, Async])


# -- Sequential


@KINDS
def test_sequential_gives_the_last_score(kind: type[Fixed]) -> None:
    assert scored(Sequential(kind(1.0), Fixed(0.5), kind(0.25))) == 0.25


@KINDS
@pytest.mark.parametrize("zero", [0.0, -0.0, 0, False])
def test_sequential_stops_at_the_first_zero(kind: type[Fixed], zero: float) -> None:
    parts = [kind(1.0), kind(zero), kind(1.0)]
    assert scored(Sequential(*parts)) == 0.0
    assert [part.calls for part in parts] == [1, 1, 0]
    assert [part.last_score for part in parts] == [1.0, 0.0, None]


def test_sequential_does_not_begin_the_next_before_the_last_is_done() -> None:
    order: list[str] = []

    class Logged(Rubric):
        def __init__(self, name: str) -> None:
            self.name = name

        async def forward(self, action: Any, observation: Any) -> float:
            order.append(f"{self.name} begins")
            await asyncio.sleep(0)
            order.append(f"{self.name} ends")
            return 1.0

    scored(Sequential(Logged("a"), Logged("b")))
    assert order == ["a begins", "a ends", "b begins", "b ends"]


def test_an_empty_sequential_gives_one() -> None:
    assert scored(Sequential()) == 1.0


# -- Gate


@KINDS
@pytest.mark.parametrize(("score", "expected"), [(0.5, 0.5), (0.75, 0.75), (0.4999, 0.0), (-1.0, 0.0)])
def test_gate_lets_pass_what_reaches_its_threshold(kind: type[Fixed], score: float, expected: float) -> None:
    gate = Gate(kind(score), threshold=0.5)
    assert scored(gate) == expected
    assert gate.rubric.last_score == score


def test_the_threshold_may_be_a_number_of_another_library() -> None:
    gate = Gate(Fixed(), np.float32(0.5))
    assert type(gate.threshold) is float
    assert gate.threshold == 0.5


def test_the_threshold_is_one_unless_said_otherwise() -> None:
    assert scored(Gate(Fixed(0.99))) == 0.0
    assert scored(Gate(Fixed(1.0))) == 1.0


@pytest.mark.parametrize("threshold", [math.nan, math.inf, "1", None, True, 10**400])
def test_the_threshold_is_a_finite_number(threshold: Any) -> None:
    with pytest.raises(ConfigError, match="threshold has to be a finite number"):
        Gate(Fixed(), threshold)


# -- WeightedSum


@KINDS
def test_weighted_sum(kind: type[Fixed]) -> None:
    rubric = WeightedSum([kind(1.0), Fixed(0.5), kind(0.25)], [0.5, 0.25, 0.25])
    assert scored(rubric) == 0.5 + 0.125 + 0.0625
    assert rubric.weights == [0.5, 0.25, 0.25]
    rubric.weights.append(1.0)
    assert len(rubric.weights) == 3


def test_a_negative_weight_is_a_penalty() -> None:
    assert scored(WeightedSum([Fixed(1.0), Fixed(0.5)], [1.5, -0.5])) == 1.25


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5], "2 rubrics need as many weights, not 1"),
        ([0.5, 0.4], "weights must add up to 1"),
        ([math.nan, 1.0], "weights has to be a finite number"),
        ([1.0, "0"], "weights has to be a finite number"),
    ],
)
def test_weights_fit(weights: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WeightedSum([Fixed(), Fixed()], weights)


def test_ten_async_rubrics_run_side_by_side() -> None:
    async def main() -> None:
        barrier = asyncio.Barrier(10)

        class Meeting(Rubric):
            async def forward(self, action: Any, observation: Any) -> float:
                await barrier.wait()  # opens when all ten are here
                return 1.0

        total = await WeightedSum([Meeting() for _ in range(10)], [0.1] * 10)(None, None)  # type: ignore[misc]
        assert total == pytest.approx(1.0)
        ten = RubricList([Meeting() for _ in range(10)])
        assert await ten.scores(None, None) == [1.0] * 10  # type: ignore[misc]
        named = RubricDict({str(number): Meeting() for number in range(10)})
        assert await named.scores(None, None) == dict.fromkeys(map(str, range(10)), 1.0)  # type: ignore[misc]

    asyncio.run(main())


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("failing", [Fixed, Async])
@pytest.mark.parametrize("others", [Fixed, Async])
def test_a_child_that_raises_is_heard(others: type[Fixed], failing: type[Fixed], place: int) -> None:
    parts = [others(1.0) for _ in range(3)]
    parts[place] = failing(LookupError("broken"))
    rubric = WeightedSum(parts, [0.5, 0.25, 0.25])
    with pytest.raises(LookupError, match="broken"):
        scored(rubric)
    assert rubric.last_score is None


# -- lists and dicts


def test_rubrics_in_a_row_are_named_by_number() -> None:
    parts = [Fixed(), Fixed(), Fixed()]
    found = RubricList(parts[:1])
    found.append(parts[1])
    found.extend(parts[2:])
    assert list(found) == parts
    assert (len(found), found[0], found[-1]) == (3, parts[0], parts[2])
    assert [name for name, _ in found.named_children()] == ["rubric_0", "rubric_1", "rubric_2"]
    with pytest.raises(IndexError):
        found[3]
    found.rubric_1 = other = Fixed()
    assert list(found) == [parts[0], other, parts[2]]


def test_a_list_gives_the_scores_of_all() -> None:
    assert RubricList([Fixed(0.5), Fixed(1.0)]).scores(None, None) == [0.5, 1.0]
    assert RubricList().scores(None, None) == []


def test_a_dict_is_a_mapping_of_its_children() -> None:
    pong, chess = Fixed(0.5), Fixed(1.0)
    games = RubricDict({"pong": pong})
    games.update({"chess": chess})
    assert games["pong"] is pong
    assert "chess" in games
    assert "go" not in games
    assert list(games) == list(games.keys()) == ["pong", "chess"]
    assert list(games.values()) == [pong, chess] == list(games.children())
    assert dict(games.items()) == dict(games.named_children())
    assert games.scores(None, None) == {"pong": 0.5, "chess": 1.0}
    del games["pong"]
    assert len(games) == 1
    games.go = Fixed()
    del games["go"]
    games.go = None
    assert list(games) == ["chess"]


def test_a_key_may_be_the_name_of_a_method() -> None:
    games = RubricDict({"forward": Fixed(0.5), "last_score": Fixed(1.0)})
    games.reset()
    assert games.scores(None, None) == {"forward": 0.5, "last_score": 1.0}
    assert [name for name, _ in games.named_rubrics()] == ["forward", "last_score"]


@pytest.mark.parametrize("key", ["a.b", "", 1])
def test_a_key_that_is_no_part_of_a_path_is_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match="no name for a rubric"):
        RubricDict({key: Fixed()})


@pytest.mark.parametrize("container", [RubricList(), RubricDict()])
def test_a_list_or_dict_has_no_score(container: Rubric) -> None:
    with pytest.raises(UnsupportedError, match="has no score; call its rubrics"):
        container(None, None)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sequential(len),  # type: ignore[arg-type]
        lambda: Gate(len),  # type: ignore[arg-type]
        lambda: WeightedSum([len], [1.0]),  # type: ignore[list-item]
        lambda: RubricList([len]),  # type: ignore[list-item]
        lambda: RubricDict({"x": len}),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_rubric_is_refused(build: Any) -> None:
    with pytest.raises(ConfigError, match="must be a Rubric, not builtin_function_or_method"):
        build()


def test_the_settings_of_containers_travel() -> None:
    rubric = WeightedSum([Gate(Fixed(), 0.25), Fixed()], [0.75, 0.25])
    state = rubric.state_dict()
    assert state == {"weights": [0.75, 0.25], "rubric_0.threshold": 0.25}
    other = WeightedSum([Gate(Fixed()), Fixed()], [0.5, 0.5])
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(ConfigError, match="weights must add up to 1"):
        other.load_state_dict({**state, "weights": [0.75, 0.5]})
    assert other.weights == [0.75, 0.25]
