"""Spaces and values as JSON: every sample fits the schema of its space."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from gymnasium import spaces as gs

from openenv_gym.forms import space_form, space_schema, value_to_json
from openenv_gym.spaces import Json, Unicode

SPACES: dict[str, tuple[gs.Space[Any], dict[str, Any]]] = {
    "box": (
        gs.Box(-1, 1, (2,), np.float32),
        {"type": "Box", "dtype": "float32", "shape": [2], "low": -1.0, "high": 1.0},
    ),
    "box of many bounds": (
        gs.Box(np.array([0, -np.inf]), np.array([1, np.inf]), dtype=np.float64),
        {
            "type": "Box",
            "dtype": "float64",
            "shape": [2],
            "low": [0.0, "-Infinity"],
            "high": [1.0, "Infinity"],
        },
    ),
    "box of no dimension": (
        gs.Box(0, 255, (), np.uint8),
        {"type": "Box", "dtype": "uint8", "shape": [], "low": 0, "high": 255},
    ),
    "image": (
        gs.Box(0, 255, (2, 2, 3), np.uint8),
        {"type": "Box", "dtype": "uint8", "shape": [2, 2, 3], "low": 0, "high": 255},
    ),
    "discrete": (gs.Discrete(3, start=-1), {"type": "Discrete", "n": 3, "start": -1, "dtype": "int64"}),
    "multi binary": (gs.MultiBinary((2, 2)), {"type": "MultiBinary", "shape": [2, 2]}),
    "multi discrete": (
        gs.MultiDiscrete([[2, 3], [4, 5]]),
        {"type": "MultiDiscrete", "nvec": [[2, 3], [4, 5]], "start": [[0, 0], [0, 0]], "dtype": "int64"},
    ),
    "text": (
        gs.Text(4, charset="ba"),
        {
            "type": "Text",
            "min_length": 1,
            "max_length": 4,
            "charset": "".join(gs.Text(4, charset="ba").character_list),
        },
    ),
    "unicode": (Unicode(5), {"type": "Unicode", "min_length": 0, "max_length": 5}),
    "json": (Json(), {"type": "Json", "schema": None}),
    "dict": (
        gs.Dict({"b": gs.Discrete(2), "a": gs.MultiBinary(1)}),
        {
            "type": "Dict",
            "spaces": {
                "b": {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"},
                "a": {"type": "MultiBinary", "shape": [1]},
            },
        },
    ),
    "tuple": (
        gs.Tuple([gs.MultiBinary(1), gs.Discrete(1)]),
        {
            "type": "Tuple",
            "spaces": [
                {"type": "MultiBinary", "shape": [1]},
                {"type": "Discrete", "n": 1, "start": 0, "dtype": "int64"},
            ],
        },
    ),
    "one of": (
        gs.OneOf([gs.MultiBinary(1), gs.MultiBinary(2)]),
        {
            "type": "OneOf",
            "spaces": [{"type": "MultiBinary", "shape": [1]}, {"type": "MultiBinary", "shape": [2]}],
        },
    ),
    "sequence": (
        gs.Sequence(gs.MultiBinary(2)),
        {"type": "Sequence", "space": {"type": "MultiBinary", "shape": [2]}, "stack": False},
    ),
    "stacked sequence": (
        gs.Sequence(gs.MultiBinary(2), stack=True),
        {"type": "Sequence", "space": {"type": "MultiBinary", "shape": [2]}, "stack": True},
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_has_its_documented_form(name: str) -> None:
    space, form = SPACES[name]
    assert json.loads(json.dumps(space_form(space), allow_nan=False)) == form
    if isinstance(space, gs.Dict):
        assert list(space_form(space)["spaces"]) == list(space.spaces)


@pytest.mark.parametrize("name", SPACES)
def test_samples_fit_the_schema(name: str) -> None:
    space, _ = SPACES[name]
    space.seed(1)
    schema = json.loads(json.dumps(space_schema(space), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(schema)
    for _ in range(10):
        jsonschema.validate(value_to_json(space, space.sample()), schema, jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("box", [0.0]),
        ("box", [0.0, 2.0]),
        ("box", [0.0, "NaN"]),
        ("discrete", 2),
        ("discrete", 0.5),
        ("multi binary", [[0, 1], [1, 2]]),
        ("text", "aaaaa"),
        ("unicode", 3),
        ("dict", {"a": [0]}),
        ("dict", {"a": [0], "b": 1, "c": 1}),
        ("tuple", [[0]]),
        ("one of", [1, [0]]),
        ("sequence", [[0]]),
    ],
)
def test_other_values_do_not(name: str, wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, space_schema(SPACES[name][0]), jsonschema.Draft202012Validator)


@pytest.mark.parametrize("edge_space", [gs.Discrete(3), None])
def test_a_graph(edge_space: gs.Space[Any] | None) -> None:
    space = gs.Graph(gs.Box(0, 1, (2,)), edge_space, seed=3)
    form = space_form(space)
    assert form["node_space"]["type"] == "Box"
    assert (form["edge_space"] is None) == (edge_space is None)
    value = space.sample(num_nodes=4, num_edges=2 if edge_space else None)
    jsonschema.validate(value_to_json(space, value), space_schema(space), jsonschema.Draft202012Validator)


def test_an_unknown_space_shows_its_repr() -> None:
    class Odd(gs.Space[Any]):
        def __repr__(self) -> str:
            return "Odd()"

    assert space_form(Odd()) == {"type": "Odd", "repr": "Odd()"}
    assert space_schema(Odd()) == {}
