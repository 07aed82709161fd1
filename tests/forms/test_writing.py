"""Values of spaces as JSON, as their schemas describe them."""

from __future__ import annotations

from typing import Any

import jsonschema
import numpy as np
import pytest
from gymnasium import spaces as gs

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.forms import space_schema, value_to_json
from openenv_gym.spaces import Json
from tests.support.spacezoo import SPACES


@pytest.mark.parametrize("name", SPACES)
def test_samples_meet_the_schema_of_their_space(name: str) -> None:
    space = SPACES[name]()
    space.seed(3)
    for _ in range(5):
        spelt = value_to_json(space, space.sample())
        jsonschema.validate(spelt, space_schema(space), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("space", "value", "spelt"),
    [
        (gs.Discrete(3), np.int64(2), 2),
        (gs.MultiBinary(2), np.array([0, 1], np.int8), [0, 1]),
        (gs.Tuple([gs.Discrete(2), Json()]), (1, {"a": None}), [1, {"a": None}]),
        (gs.OneOf([gs.Discrete(2), gs.Box(0, 1, (1,))]), (np.int64(1), np.ones(1, np.float32)), [1, [1.0]]),
        (gs.Sequence(gs.Discrete(2)), (np.int64(1),), [1]),
        (gs.Sequence(gs.Dict(a=gs.Discrete(2)), stack=True), {"a": np.array([0, 1])}, [{"a": 0}, {"a": 1}]),
        (
            gs.Graph(gs.Discrete(2), None),
            gs.GraphInstance(np.array([1, 0]), None, None),
            {"nodes": [1, 0], "edges": None, "edge_links": None},
        ),
    ],
)
def test_values_have_the_documented_spelling(space: Any, value: Any, spelt: Any) -> None:
    assert value_to_json(space, value) == spelt


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (gs.Dict(a=gs.Discrete(2)), {}),
        (gs.Tuple([gs.Discrete(2)]), (1, 1)),
        (gs.OneOf([gs.Discrete(2)]), 1),
        (gs.OneOf([gs.Discrete(2)]), (1, 1)),
        (gs.Graph(gs.Discrete(2), None), {}),
        (Json(), object()),
    ],
)
def test_values_of_another_form_are_errors(space: Any, value: Any) -> None:
    with pytest.raises(ValueNotCarriedError):
        value_to_json(space, value)
