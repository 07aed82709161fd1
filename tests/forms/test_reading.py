"""Values of spaces out of JSON: samples come back bit by bit, mistakes are named."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigError, ValidationError
from openenv_gym.forms import value_from_json, value_to_json
from openenv_gym.spaces import Json, Unicode
from openenv_gym.testing.compare import same
from tests.support.spacezoo import SPACES

_GRAPH = gs.Graph(gs.Box(0, 1, (2,)), gs.Discrete(3))
_SPELT = {"nodes": [[0, 0], [1, 1]], "edges": [2], "edge_links": [[0, 1]]}


def _plain(space: gym.Space[Any], value: Any) -> Any:
    """Return a sample as values of its space are meant to be: Gymnasium samples some as numpy scalars."""
    return np.asarray(value, space.dtype) if isinstance(space, gs.Box) else value


@pytest.mark.parametrize("name", SPACES)
@given(seed=st.integers(0, 2**32 - 1))
def test_samples_come_back(name: str, seed: int) -> None:
    space = SPACES[name]()
    space.seed(seed)
    value = _plain(space, space.sample())
    text = json.dumps(value_to_json(space, value), allow_nan=False)
    back = value_from_json(space, json.loads(text))
    assert same(back, value)
    assert same(value_from_json(space, value), value)


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (gs.Box(0, 1, (2,)), np.empty((0, 2), np.float32)),
        (gs.Dict(a=gs.Discrete(2), b=Unicode(3)), {"a": np.empty(0, np.int64), "b": ()}),
        (gs.OneOf([gs.Discrete(2), gs.Discrete(3)]), ()),
    ],
)
def test_nothing_stacked_comes_back(feature: gym.Space[Any], value: Any) -> None:
    space = gs.Sequence(feature, stack=True)
    assert value_to_json(space, value) == []
    assert same(value_from_json(space, []), value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_that_json_has_not_come_back(dtype: Any) -> None:
    space = gs.Box(-np.inf, np.inf, (4,), dtype)
    value = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
    spelt = value_to_json(space, value)
    assert spelt == ["NaN", "Infinity", "-Infinity", -0.0]
    assert same(value_from_json(space, spelt), value)


@pytest.mark.parametrize(
    ("space", "data", "path", "words"),
    [
        (gs.Box(0, 1, (2,)), [0], "$", "shape (2,)"),
        (gs.Box(0, 1, (2,)), [0, 2], "$", "numbers in the bounds"),
        (gs.Box(0, 1, (2,)), [0, "NaN"], "$", "numbers in the bounds"),
        (gs.Box(0, 1, (2,)), [0, "1"], "$", "'1' in it"),
        (gs.Box(0, 1, (2,)), "x", "$", "expected an array of float32"),
        (gs.Box(0, 255, (1,), np.uint8), [256], "$", "numbers from 256 to 256"),
        (gs.Box(0, 255, (1,), np.uint8), [1.0], "$", "'1.0' in it"),
        (gs.Box(0, 255, (1,), np.uint8), np.array([1], np.int64), "$", "an array of int64"),
        (gs.Discrete(3, start=1), 0, "$", "expected an int from 1 to 3, got int: 0"),
        (gs.Discrete(3), 1.0, "$", "got float: 1.0"),
        (gs.Discrete(3), True, "$", "got bool: True"),
        (gs.Discrete(3), 2**70, "$", "expected an int from 0 to 2"),
        (gs.Box(0, 9, (1,), np.int64), [2**70], "$", "numbers from"),
        (gs.MultiBinary(2), [0, 2], "$", "zeros and ones"),
        (gs.MultiDiscrete([2, 3], start=[1, 0]), [0, 0], "$", "ints of MultiDiscrete"),
        (gs.MultiDiscrete([2, 3]), [1, 3], "$", "ints of MultiDiscrete"),
        (gs.Text(3, charset="ab"), "abc", "$", "expected a value of Text"),
        (Unicode(2), "abc", "$", "expected a value of Unicode"),
        (Json({"type": "string"}), 1, "$", "expected a value of Json"),
        (gs.Dict(a=gs.Discrete(2)), [1], "$", "expected an object"),
        (gs.Dict(a=gs.Discrete(2)), {}, "$.a", "missing; it is required"),
        (gs.Dict(a=gs.Discrete(2)), {"a": 1, "b": 1}, "$.b", "no such field; the fields are a"),
        (gs.Dict(a=gs.Dict(b=gs.Discrete(2))), {"a": {"b": 2}}, "$.a.b", "from 0 to 1"),
        (gs.Tuple([gs.Discrete(2)] * 2), [0, 2], "$[1]", "from 0 to 1"),
        (gs.Tuple([gs.Discrete(2)] * 2), [0], "$", "expected an array of 2 items"),
        (gs.OneOf([gs.Discrete(2)]), [1, 0], "$", "expected (index below 1, value)"),
        (gs.OneOf([gs.Discrete(2)]), [0, 2], "$[1]", "from 0 to 1"),
        (gs.Sequence(gs.Discrete(2)), [0, 2], "$[1]", "from 0 to 1"),
        (gs.Sequence(gs.Discrete(2)), 0, "$", "expected an array"),
        (_GRAPH, [], "$", "expected an object with nodes, edges and edge_links"),
        (_GRAPH, {**_SPELT, "nodes": [[0, 2]]}, "$.nodes[0]", "in the bounds"),
        (_GRAPH, {**_SPELT, "nodes": None}, "$.nodes", "expected an array"),
        (_GRAPH, {**_SPELT, "edges": [3]}, "$.edges[0]", "from 0 to 2"),
        (_GRAPH, {**_SPELT, "edge_links": [[0, 2]]}, "$.edge_links", "1 pairs of nodes below 2"),
        (_GRAPH, {**_SPELT, "edge_links": []}, "$.edge_links", "1 pairs of nodes below 2"),
        (gs.Graph(gs.Discrete(2), None), {**_SPELT, "nodes": [0, 1]}, "$.edges", "no space of edges"),
    ],
)
def test_a_mistake_names_its_place(space: Any, data: Any, path: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        value_from_json(space, data)
    assert caught.value.details["path"] == path
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_the_place_may_have_a_name() -> None:
    with pytest.raises(ValidationError, match=r"^\$\.action\[0\]: "):
        value_from_json(gs.Tuple([gs.Discrete(2)]), [2], where="$.action")


def test_keys_that_are_no_text_are_found_by_their_text() -> None:
    space = gs.Dict([(1, gs.Discrete(2)), ("b", gs.Discrete(2))])  # type: ignore[list-item]
    assert value_to_json(space, {1: 0, "b": 1}) == {"1": 0, "b": 1}
    assert value_from_json(space, {"1": 0, "b": 1}) == {1: 0, "b": 1}


def test_an_unknown_space_is_an_error() -> None:
    with pytest.raises(ConfigError, match="values of Space are not read from JSON"):
        value_from_json(gym.Space(), 1)
