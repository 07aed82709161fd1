"""JSON Schemas of types: their instances meet them, and they say what the types say."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from openenv_gym.models import Array, CallToolAction, ListToolsAction
from openenv_gym.structs import schema_of, to_map
from openenv_gym.structs.hints import kind_of
from openenv_gym.structs.kinds import Kind
from openenv_gym.structs.schemas import WHOLE_NAMES, base64_pattern, kind_schema
from tests.structs.zoo import Everything, Hint, Say, Tree, View


def _valid(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value, schema, jsonschema.Draft202012Validator)


def test_instances_meet_their_schema() -> None:
    schema = schema_of(Everything)
    _valid(to_map(Everything(), json=True), schema)
    full = Everything(tree=Tree(1.0, [Tree(2.0)]), array=np.zeros(2, np.float32), data=b"abc", unique={1})
    _valid(to_map(full, json=True), schema)
    with pytest.raises(jsonschema.ValidationError):
        _valid({"boundedInt": 0}, schema)


def test_a_schema_says_what_the_type_says() -> None:
    class Guess(msgspec.Struct, forbid_unknown_fields=True):
        """A guess."""

        number: Annotated[int, Meta(ge=1, le=100, description="Between the two.")]
        side: Literal["left", "right"] = "left"
        pair: tuple[int, bool] = (0, False)
        note: Annotated[str, Meta(min_length=1, pattern="a")] | None = None

    assert schema_of(Guess) == {
        "title": "Guess",
        "type": "object",
        "description": "A guess.",
        "properties": {
            "number": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Between the two."},
            "side": {"enum": ["left", "right"], "default": "left"},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
                "default": [0, False],
            },
            "note": {
                "anyOf": [{"type": "string", "minLength": 1, "pattern": "a"}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["number"],
        "additionalProperties": False,
    }


def test_the_schema_of_an_action() -> None:
    assert schema_of(Say) == {
        "title": "Say",
        "type": "object",
        "properties": {"message": {"type": "string"}, "metadata": {"type": "object", "default": {}}},
        "required": ["message"],
        "additionalProperties": False,
    }


def test_what_travels_beside_an_observation_is_not_in_its_schema() -> None:
    number = {"type": "integer", "minimum": 1, "maximum": 100, "default": 1}
    assert schema_of(Hint)["properties"] == {"number": number}


def test_members_of_a_union_are_told_by_their_tags() -> None:
    schema = schema_of(CallToolAction | ListToolsAction)
    one, two = schema["anyOf"]
    assert one["properties"]["type"] == {"const": "call_tool"}
    assert one["required"] == ["type", "tool_name"]
    assert two["required"] == ["type"]
    assert "required" not in schema_of(ListToolsAction)


def test_arrays_are_nested_and_say_what_they_are() -> None:
    image = {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 255},
            "minItems": 3,
            "maxItems": 3,
        },
        "minItems": 2,
        "maxItems": 2,
        "dtype": "uint8",
        "shape": [2, 3],
    }
    schema = schema_of(View)
    assert schema["properties"]["image"] == image
    depth = schema["properties"]["depth"]["anyOf"][0]
    assert depth["shape"] == [-1, 2]
    assert "minItems" not in depth
    assert depth["items"]["items"] == {"type": "number", "minimum": 0}


@pytest.mark.parametrize(
    ("hint", "texts"),
    [
        (float, ["NaN", "Infinity", "-Infinity"]),
        (Annotated[float, Meta(ge=0)], ["Infinity"]),
        (Annotated[float, Meta(lt=0)], ["-Infinity"]),
    ],
)
def test_spellings_of_numbers_are_mentioned_on_demand(hint: Any, texts: list[str]) -> None:
    kind = kind_of(hint)
    assert kind_schema(kind, spelled=True)["anyOf"][1] == {"enum": texts}
    assert kind_schema(kind)["type"] == "number"
    bounded = kind_of(Annotated[float, Meta(ge=0, le=1)])
    assert kind_schema(bounded, spelled=True) == kind_schema(bounded)
    array = kind_of(Annotated[np.ndarray, Array("float32", ())])
    assert kind_schema(array, spelled=True)["anyOf"][1] == {"enum": ["NaN", "Infinity", "-Infinity"]}


def test_a_struct_that_holds_itself_has_a_definition() -> None:
    schema = schema_of(Tree)
    assert schema["$ref"] == "#/$defs/Tree"
    _valid({"value": 1, "children": [{"value": 2, "children": []}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        _valid({"value": 1, "children": [{}]}, schema)


@given(st.integers(0, 8), st.integers(0, 8) | st.none(), st.binary(max_size=12))
def test_base64_has_a_pattern_for_every_length(low: int, more: int | None, data: bytes) -> None:
    high = None if more is None else low + more
    found = re.search(base64_pattern(low, high), base64.b64encode(data).decode())
    assert bool(found) == (low <= len(data) <= (99 if high is None else high))


def test_an_unknown_kind_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        kind_schema(Kind())


@pytest.mark.parametrize(
    ("hint", "names"),
    [
        (dict[str, int], None),
        (dict[Any, int], None),
        (dict, None),
        (dict[Literal["a", 1], int], {"enum": ["a", "1"]}),
        (dict[int, int], {"pattern": WHOLE_NAMES}),
    ],
)
def test_keys_that_are_not_any_text_are_named(hint: Any, names: Any) -> None:
    assert schema_of(hint).get("propertyNames") == names


def test_whole_names_are_ints_as_json_spells_them() -> None:
    assert all(re.search(WHOLE_NAMES, str(number)) for number in (-12, -1, 0, 7, 10**30))
    assert not any(re.search(WHOLE_NAMES, text) for text in ("", "-", "-0", "01", "1.0", "a"))
