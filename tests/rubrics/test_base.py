from __future__ import annotations

import asyncio
import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ConfigError, RubricError
from openenv_gym.rubrics import Rubric, RubricDict, Sequential
from tests.rubrics.rubrics import Async, Fixed


class Pair(Rubric):
    def __init__(self) -> None:
        self.left = Fixed(0.25)
        self.right = Fixed(0.5)

    def forward(self, action: Any, observation: Any) -> Any:
        return self.left(action, observation) + self.right(action, observation)


# -- scores


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (-0.5, -0.5),
        (np.float32(0.5), 0.5),
        (np.int64(2), 2.0),
        (np.bool_(True), 1.0),
        (np.array(0.25), 0.25),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
    ],
)
def test_a_finite_number_becomes_a_float(score: Any, expected: float) -> None:
    rubric = Fixed(score)
    result = rubric(None, None)
    assert type(result) is float
    assert result == expected == rubric.last_score


@pytest.mark.parametrize(
    "score",
    [
        math.nan,
        math.inf,
        -math.inf,
        np.float64("nan"),
        None,
        "1.0",
        [1.0],
        np.array([1.0]),
        1 + 0j,
        np.complex64(1),
        10**400,
    ],
)
@pytest.mark.parametrize("kind", [Fixed, Async])
def test_anything_else_is_an_error_that_names_the_rubric(kind: type[Fixed], score: Any) -> None:
    tree = Sequential(kind(score))
    with pytest.raises(RubricError, match=f"^{kind.__name__} 'rubric_0' gave .* finite number") as caught:
        result = tree(None, None)
        asyncio.run(result)  # type: ignore[arg-type]
    assert caught.value.details["rubric"] == f"{kind.__name__} 'rubric_0'"
    assert tree.last_score is None
    assert tree[0].last_score is None


def test_a_rubric_with_something_to_await_returns_a_coroutine() -> None:
    rubric = Async(0.5)
    assert asyncio.run(rubric(None, None)) == 0.5  # type: ignore[arg-type]
    assert rubric.last_score == 0.5


def test_forward_may_hand_on_the_call_of_a_child() -> None:
    class Choosing(Rubric):
        def __init__(self) -> None:
            self.parts = RubricDict({"now": Fixed(0.25), "later": Async(0.75)})

        def forward(self, action: Any, observation: Any) -> Any:
            return self.parts[observation](action, observation)

    rubric = Choosing()
    assert rubric(None, "now") == 0.25
    assert asyncio.run(rubric(None, "later")) == 0.75  # type: ignore[arg-type]
    assert rubric.last_score == 0.75


def test_a_score_of_an_earlier_call_does_not_stay() -> None:
    rubric = Pair()
    assert rubric(None, None) == 0.75
    rubric.left.score = LookupError("broken")
    with pytest.raises(LookupError, match="broken"):
        rubric(None, None)
    assert (rubric.last_score, rubric.left.last_score, rubric.right.last_score) == (None, None, None)


def test_forward_has_to_be_written() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Rubric()  # type: ignore[abstract]


# -- hooks


def test_hooks_run_around_forward_until_they_are_removed() -> None:
    seen: list[Any] = []
    rubric = Fixed(0.5)
    remove_pre = rubric.register_forward_pre_hook(lambda *args: seen.append(args))
    remove = rubric.register_forward_hook(lambda *args: seen.append((*args, rubric.last_score)))
    rubric("a", "o")
    assert seen == [(rubric, "a", "o"), (rubric, "a", "o", 0.5, 0.5)]
    remove_pre()
    remove()
    rubric("a", "o")
    assert len(seen) == 2


def test_a_hook_that_was_registered_twice_is_removed_once_by_each_function() -> None:
    rubric, seen = Fixed(1.0), []

    def hook(*args: Any) -> None:
        seen.append(args)

    removals = [rubric.register_forward_hook(hook) for _ in range(2)]
    for _ in range(2):
        removals[0]()
        rubric(None, None)
    assert len(seen) == 2
    removals[1]()
    rubric(None, None)
    assert len(seen) == 2


def test_a_hook_may_be_a_coroutine_function() -> None:
    order: list[str] = []
    rubric = Fixed(0.5)

    async def before(*args: Any) -> None:
        await asyncio.sleep(0)
        order.append(f"before, {rubric.calls} calls")

    async def after(*args: Any) -> None:
        await asyncio.sleep(0)
        order.append(f"after, {rubric.calls} calls")

    rubric.register_forward_pre_hook(before)
    rubric.register_forward_hook(after)
    assert asyncio.run(rubric(None, None)) == 0.5  # type: ignore[arg-type]
    assert order == ["before, 0 calls", "after, 1 calls"]


def test_no_hook_is_told_of_a_bad_score() -> None:
    rubric = Fixed(math.nan)
    rubric.register_forward_hook(lambda *args: pytest.fail("called"))
    with pytest.raises(RubricError):
        rubric(None, None)


# -- the tree


def test_what_is_assigned_becomes_a_child() -> None:
    rubric = Pair()
    rubric.inner = Pair()
    names = ["left", "right", "inner", "inner.left", "inner.right"]
    assert [name for name, _ in rubric.named_rubrics()] == names
    assert [name for name, _ in rubric.named_rubrics("top")] == [f"top.{name}" for name in names]
    assert list(rubric.rubrics()) == [found for _, found in rubric.named_rubrics()]
    assert list(rubric.children()) == [rubric.left, rubric.right, rubric.inner]
    assert list(rubric.named_children()) == list(zip(names[:3], rubric.children(), strict=True))
    assert rubric.get_rubric("inner.right") is rubric.inner.right


def test_an_attribute_that_changes_or_goes_takes_the_child_along() -> None:
    rubric = Pair()
    rubric.left = other = Fixed()
    assert dict(rubric.named_children()) == {"left": other, "right": rubric.right}
    rubric.left = None
    del rubric.right
    rubric.plain = 1
    del rubric.plain
    assert list(rubric.children()) == []


def test_no_call_of_the_base_constructor_is_needed() -> None:
    class Careless(Rubric):
        def __init__(self, inner: Rubric) -> None:
            self.inner = inner

        def forward(self, action: Any, observation: Any) -> Any:
            return self.inner(action, observation)

    assert Careless(Fixed(0.5))(None, None) == 0.5


def test_an_unknown_path_says_which_there_are() -> None:
    with pytest.raises(KeyError, match=r"no rubric at 'left.more'; there are: left, right"):
        Pair().get_rubric("left.more")
    with pytest.raises(KeyError, match="there are: none"):
        Fixed().get_rubric("x")


def test_a_rubric_cannot_be_below_itself() -> None:
    outer, inner = Pair(), Pair()
    outer.inner = inner
    for child in (inner, outer):
        with pytest.raises(ConfigError, match="'again' would put a Pair below itself"):
            inner.again = child
    assert "again" not in dict(inner.named_children())


@pytest.mark.parametrize("name", ["forward", "reset", "last_score"])
def test_a_child_cannot_take_the_place_of_a_method(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is a rubric's own attribute"):
        setattr(Pair(), name, Fixed())


def test_a_name_with_a_dot_is_refused() -> None:
    with pytest.raises(ConfigError, match="no name for a rubric"):
        setattr(Pair(), "a.b", Fixed())


def test_one_rubric_may_have_two_places() -> None:
    rubric = Pair()
    rubric.right = rubric.left
    assert rubric(None, None) == 0.5
    assert [name for name, _ in rubric.named_rubrics()] == ["left", "right"]


def test_reset_reaches_all() -> None:
    rubric = Pair()
    rubric.inner = Pair()
    rubric.inner(None, None)
    rubric(None, None)
    rubric.reset()
    assert {found.last_score for found in (rubric, *rubric.rubrics())} == {None}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rubric: pickle.loads(pickle.dumps(rubric))])
def test_a_copy_is_a_tree_of_its_own(copied: Any) -> None:
    rubric = Pair()
    other = copied(rubric)
    other.left.score = 0.0
    assert (rubric(None, None), other(None, None)) == (0.75, 0.5)
    assert dict(other.named_children()) == {"left": other.left, "right": other.right}
    assert other.left is not rubric.left


# -- checkpoints


class Tuned(Fixed):
    settings = ("score",)


def test_state_carries_the_settings_of_the_tree() -> None:
    rubric = Pair()
    rubric.left, rubric.right = Tuned(0.1), Tuned(0.2)
    state = rubric.state_dict()
    assert state == {"left.score": 0.1, "right.score": 0.2}
    other = Pair()
    other.left, other.right = Tuned(), Tuned()
    other.load_state_dict(state)
    assert other(None, None) == rubric(None, None)


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        ({}, "score"),
        ({"score": 1, "scores": 1}, "scores"),
        ({"score": 1, "left.score": 1}, "left.score"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: dict[str, Any], wrong: str) -> None:
    rubric = Tuned(0.5)
    with pytest.raises(ConfigError, match=f"not one of this Tuned: missing or unknown: {wrong}$"):
        rubric.load_state_dict(state)
    assert rubric.score == 0.5
