"""Random text and JSON values."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import uuid
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

from openenv_gym.forms import form_of
from openenv_gym.protocol.leaves import json_flaw
from openenv_gym.sampling import sample_json, sample_text
from openenv_gym.spaces import Json


def test_text_has_its_length_prints_and_mixes_scripts() -> None:
    rng = np.random.default_rng(1)
    texts = [sample_text(rng, length) for length in range(40)]
    assert [len(text) for text in texts] == list(range(40))
    everything = "".join(texts)
    assert everything.isprintable()
    assert any(ord(character) > 0xFFFF for character in everything)
    assert any(0x0400 <= ord(character) < 0x0500 for character in everything)


def test_samples_are_json_values_and_repeat_with_their_seed() -> None:
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    values = [sample_json(one, None) for _ in range(300)]
    assert values == [sample_json(other, None) for _ in range(300)]
    assert not any(map(json_flaw, values))
    assert {type(value) for value in values} == {type(None), bool, int, float, str, list, dict}


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        ({"const": {"a": 1}}, lambda value: value == {"a": 1}),
        ({"enum": ["x", 2]}, lambda value: value in ("x", 2)),
        ({"type": ["null", "boolean"]}, lambda value: value is None or isinstance(value, bool)),
        ({"type": "integer", "minimum": 3, "maximum": 4}, lambda value: value in (3, 4)),
        ({"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 4}, lambda value: value in (4, 8)),
        ({"type": "number", "minimum": 1, "maximum": 2, "multipleOf": 0.5}, lambda v: v in (1.0, 1.5, 2.0)),
        ({"type": "string", "format": "date-time"}, lambda value: dt.datetime.fromisoformat(value).tzinfo),
        ({"type": "string", "format": "date"}, dt.date.fromisoformat),
        ({"type": "string", "format": "time"}, dt.time.fromisoformat),
        ({"type": "string", "format": "duration"}, lambda value: msgspec.convert(value, dt.timedelta)),
        ({"type": "string", "format": "uuid"}, uuid.UUID),
        ({"type": "string", "format": "decimal"}, lambda value: decimal.Decimal(value).is_finite()),
        ({"type": "string", "format": "other"}, lambda value: isinstance(value, str)),
        (
            {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 8},
            lambda value: 1 <= len(base64.b64decode(value, validate=True)) <= 6,
        ),
        (
            {
                "type": "array",
                "items": {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 2},
                "dtype": "int8",
                "shape": [-1, 2],
            },
            lambda value: 1 <= len(value) <= 3 and value == [[1, 1]] * len(value),
        ),
        ({"minimum": 2.5, "maximum": 3}, lambda value: 2.5 <= value <= 3),
        ({"maximum": -5000}, lambda value: value <= -5000),
        ({"minLength": 2, "maxLength": 3}, lambda value: len(value) in (2, 3)),
        ({"items": {"type": "null"}, "minItems": 1}, lambda value: value and set(value) == {None}),
        ({"prefixItems": [{"const": 1}], "type": "array"}, lambda value: value[0] == 1),
        ({"required": ["k"]}, lambda value: "k" in value),
        ({"type": "object", "minProperties": 2}, lambda value: len(value) >= 2),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, lambda value: value in (1, 2)),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}}, {"required": ["a"]}, True]},
            lambda value: value == {"a": 1},
        ),
        (True, lambda value: not json_flaw(value)),
    ],
    ids=lambda value: "right" if callable(value) else str(value),
)
def test_keywords_are_followed(schema: Any, right: Any) -> None:
    rng = np.random.default_rng(2)
    assert all(right(sample_json(rng, schema)) for _ in range(30))


def test_references_are_followed() -> None:
    rng = np.random.default_rng(3)
    node = {
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/value"}, "next": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value", "next"],
    }
    schema = {**node, "$defs": {"value": {"$ref": "#/$defs/same"}, "same": {"const": 7}}}
    space = Json(schema)
    for _ in range(50):
        value = sample_json(rng, schema)
        assert value["value"] == 7
        assert space.contains(value)


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"$ref": "#", "$defs": {}}]
)
def test_references_that_go_in_circles_allow_anything(schema: Any) -> None:
    assert not json_flaw(sample_json(np.random.default_rng(0), schema))


def test_a_schema_that_needs_itself_ends() -> None:
    tree: dict[str, Any] = {"properties": {}, "type": "object"}
    tree["properties"]["child"] = tree
    assert sample_json(np.random.default_rng(0), tree) is not None


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Scores(msgspec.Struct):
    sides: dict[Side, bool]
    numbers: Annotated[dict[int, bool], msgspec.Meta(min_length=2)]


def test_keys_are_those_that_a_type_has() -> None:
    form = form_of(Scores)
    form.space.seed(3)
    made = [form.from_value(form.space.sample()) for _ in range(30)]
    assert {side for one in made for side in one.sides} == set(Side)
    assert all(len(one.numbers) >= 2 and {type(key) for key in one.numbers} == {int} for one in made)
