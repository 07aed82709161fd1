from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.lane_infos import lane_info, mask_of
from openenv_gym.testing import difference

LANES = 3
# A key has one type, as Gymnasium's layout can hold no other.
FLAT = {"number": st.integers(-9, 9), "text": st.text("ab_"), "_flag": st.booleans(), "none": st.none()}
INFOS = st.fixed_dictionaries({}, optional={**FLAT, "nested": st.fixed_dictionaries({}, optional=FLAT)})


def batched(infos: list[dict[str, Any]]) -> dict[str, Any]:
    envs: Any = gym.vector.VectorEnv()
    envs.num_envs = len(infos)
    found: dict[str, Any] = {}
    for lane, info in enumerate(infos):
        found = envs._add_info(found, info, lane)
    return found


def test_each_lane_gets_what_it_said() -> None:
    infos = [
        {"x": 1.5, "nested": {"y": np.arange(2)}, "text": "a"},
        {},
        {"x": 2.5, "nested": {"z": None}, "_own": 3},
    ]
    found = [lane_info(batched(infos), lane) for lane in range(LANES)]
    assert found[1] == {}
    assert difference(found[0], {"x": np.float64(1.5), "nested": {"y": np.arange(2)}, "text": "a"}) is None
    assert difference(found[2], {"x": np.float64(2.5), "nested": {"z": None}, "_own": np.int64(3)}) is None


@given(st.lists(INFOS, min_size=LANES, max_size=LANES))
def test_infos_come_back_by_lane(infos: list[dict[str, Any]]) -> None:
    assert [lane_info(batched(infos), lane) for lane in range(LANES)] == infos


def test_items_of_arrays_are_copies() -> None:
    infos = batched([{"x": np.zeros(2)}] * LANES)
    lane_info(infos, 1)["x"][0] = 7
    assert not infos["x"].any()


def test_a_column_without_a_mask_is_every_lanes() -> None:
    infos = {"x": np.arange(LANES), "more": {"y": np.ones(LANES)}}
    assert lane_info(infos, 2) == {"x": 2, "more": {"y": 1.0}}


def test_a_mask_is_a_bool_array_of_one_axis() -> None:
    mask = np.array([True, False])
    assert mask_of({"x": 1, "_x": mask}, "x") is mask
    assert mask_of({"x": 1, "_x": np.ones((2, 2), np.bool_)}, "x") is None
    assert mask_of({"x": 1, "_x": np.ones(2)}, "x") is None
    assert mask_of({"x": 1}, "x") is None
