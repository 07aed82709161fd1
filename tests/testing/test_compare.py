from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance

from openenv_gym.testing import canonical, difference, digest, same

Pair = namedtuple("Pair", "x y")
GRAPH = GraphInstance(np.zeros((2, 1)), None, None)


@pytest.mark.parametrize(
    ("left", "right", "says"),
    [
        (1, True, "info is 1 (int), not True (bool)"),
        (0.0, -0.0, "info is 0.0 (float), not -0.0 (float)"),
        ([1], (1,), "info is [1] (list), not (1,) (tuple)"),
        ([1, 2], [1], "info is [1, 2] (list), not [1] (list)"),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "info['a'][1]['b'] is 'x' (str), not 'y' (str)"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "info has the keys ['a', 'b'], not ['b', 'a']"),
        (Pair(1, 2), Pair(1, 3), "info.y is 2 (int), not 3 (int)"),
        (
            np.array([[1.0, 2.0]]),
            np.array([[1.0, -2.0]]),
            "info[0, 1] is np.float64(2.0), not np.float64(-2.0) (1 of 2 elements differ)",
        ),
        (
            np.zeros(2),
            np.zeros(2, np.float32),
            "info is an array of float64 and shape (2,), not an array of float32 and shape (2,)",
        ),
        (
            GRAPH,
            GRAPH._replace(nodes=np.ones((2, 1))),
            "info.nodes[0, 0] is np.float64(0.0), not np.float64(1.0) (2 of 2 elements differ)",
        ),
        (np.float32(1), np.float64(1), "info is np.float32(1.0), not np.float64(1.0)"),
        ({1}, {2}, "info is {1} (set), not {2} (set)"),
    ],
)
def test_a_difference_says_where_and_how(left: Any, right: Any, says: str) -> None:
    assert difference(left, right, "info") == says
    assert not same(left, right)
    assert digest(left) != digest(right)


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"x": [np.float32("nan"), None]}, {3, 1}, complex(0.0, -0.0), GRAPH, b"", "\ud800"],
)
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert difference(value, value) is None
    assert canonical(value) == canonical(value)
    assert len(digest(value)) == 16


def test_a_long_value_is_cut() -> None:
    text = difference("a" * 1000, "b" * 1000)
    assert text is not None
    assert len(text) < 300


def test_arrays_of_objects_are_compared_item_by_item() -> None:
    left, right = np.array([None, "a"], object), np.array([None, "b"], object)
    assert difference(left, right) == "value[1] is 'a', not 'b' (1 of 2 elements differ)"
    assert difference(left, left.copy()) is None
