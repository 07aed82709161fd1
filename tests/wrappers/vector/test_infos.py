from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.testing import difference
from openenv_gym.wrappers.vector.infos import batch_infos, merge_infos


def gymnasium_infos(pairs: list[tuple[int, dict[Any, Any]]], n: int) -> dict[Any, Any]:
    vector: gym.vector.VectorEnv[Any, Any, Any] = gym.vector.VectorEnv()
    vector.num_envs = n
    batch: dict[Any, Any] = {}
    for lane, info in pairs:
        batch = vector._add_info(batch, info, lane)
    return batch


numbers = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(width=64),
    st.booleans(),
    st.integers(0, 255).map(np.uint8),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
)
scalars = st.one_of(
    numbers, st.none(), st.text(max_size=3), st.binary(max_size=3), st.lists(st.integers(0, 3))
)
arrays = st.sampled_from([np.arange(3), np.ones((2, 2), np.float32), np.array(["a", "bcd"]), np.array(True)])
values = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
infos = st.dictionaries(st.sampled_from(["a", "b", "x", "final_obs", "final_info"]), values, max_size=4)


@given(st.lists(st.tuples(st.integers(0, 4), infos), max_size=6))
def test_the_layout_is_gymnasiums_wherever_gymnasium_has_one(pairs: list[tuple[int, dict[str, Any]]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    with np.errstate(invalid="ignore", over="ignore"):
        try:
            due = gymnasium_infos(copy.deepcopy(pairs), 5)
        except (ValueError, TypeError, OverflowError, AttributeError, KeyError):
            batch_infos(pairs, 5)
            return
        found = batch_infos(pairs, 5)
    mixed = {key for key in due if len({isinstance(info[key], dict) for _, info in pairs if key in info}) > 1}
    if mixed or any(_mixes(info_a, info_b) for _, info_a in pairs for _, info_b in pairs):
        return  # Gymnasium mixes lanes and keys up there
    assert difference(found, due) is None


def _mixes(left: Any, right: Any) -> bool:
    """Return whether a key is a dict in one info and something else in another, anywhere below."""
    shared = set(left) & set(right)
    return any(
        isinstance(left[key], dict) != isinstance(right[key], dict)
        or (isinstance(left[key], dict) and _mixes(left[key], right[key]))
        for key in shared
    )


@pytest.mark.parametrize(
    "column",
    [
        [1, "text"],
        [np.zeros(2), np.zeros(3)],
        [True, np.arange(2)],
        [{"a": 1}, 7],
        [7, {"a": 1}],
        [1, 2**80],
        [np.arange(2), "text"],
    ],
)
def test_what_gymnasium_cannot_lay_out_is_an_array_of_objects(column: list[Any]) -> None:
    batch = batch_infos([(lane, {"key": value}) for lane, value in enumerate(column)], 3)
    assert batch["key"].dtype == object
    assert [difference(item, value) for item, value in zip(batch["key"], column, strict=False)] == [
        None,
        None,
    ]
    assert batch["key"][2] is None
    assert batch["_key"].tolist() == [True, True, False]


def test_a_key_that_is_the_mask_of_another_is_left_to_gymnasium() -> None:
    pairs = [(0, {"x": 1, "_x": 5}), (1, {"_x": 0})]
    assert difference(batch_infos(pairs, 2), gymnasium_infos(pairs, 2)) is None


def test_no_info_is_an_empty_dict() -> None:
    assert batch_infos([], 3) == {}
    assert batch_infos([(0, {}), (2, {})], 3) == {}


def test_infos_of_one_vector_are_passed_on_as_they_are() -> None:
    info = {"a": np.arange(4), "anything": "else"}
    assert merge_infos([(0, 4, info)], 4) is info


def test_infos_of_several_vectors_are_joined_lane_by_lane() -> None:
    left = {"a": np.array([1, 2]), "_a": np.array([True, True]), "deep": {"b": np.array([[1.5], [2.5]])}}
    right = {"a": np.array([3.5]), "_a": np.array([True]), "text": "one for all", "odd": np.zeros(7)}
    merged = merge_infos([(0, 2, left), (2, 1, right)], 3)
    assert difference(merged["a"], np.array([1.0, 2.0, 3.5])) is None
    assert merged["_a"].tolist() == [True, True, True]
    assert merged["deep"]["b"].tolist() == [[1.5], [2.5], [0.0]]
    assert merged["text"].tolist() == [None, None, "one for all"]
    assert merged["odd"][2].shape == (7,)


def test_arrays_of_several_shapes_are_joined_as_objects() -> None:
    left, right = {"a": np.zeros((1, 2))}, {"a": np.zeros((1, 3))}
    merged = merge_infos([(0, 1, left), (1, 1, right)], 2)["a"]
    assert [item.shape for item in merged] == [(2,), (3,)]
