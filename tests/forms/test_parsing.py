"""JSON Schemas as kinds: what is understood, and that nothing else is lost."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.forms import schema_form
from openenv_gym.forms.parsing import kind_of_schema
from openenv_gym.structs.kinds import (
    Choice,
    Either,
    Fixed,
    Items,
    Kind,
    Numpy,
    Object,
    Other,
    Plain,
)
from openenv_gym.structs.schemas import kind_schema

_UNDERSTOOD: list[tuple[dict[str, Any], type[Kind]]] = [
    ({}, Plain),
    ({"title": "Anything", "default": None}, Plain),
    ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, Plain),
    ({"type": "number", "multipleOf": 0.5}, Plain),
    ({"type": "string", "maxLength": 3, "minLength": 1, "pattern": "a"}, Plain),
    ({"type": "boolean"}, Plain),
    ({"type": "null"}, Plain),
    ({"const": 3}, Choice),
    ({"enum": ["a", None, 1.5, [1]]}, Choice),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, Either),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, Items),
    ({"type": "array", "maxItems": 0}, Fixed),
    (
        {
            "type": "array",
            "prefixItems": [{"type": "null"}],
            "items": False,
            "minItems": 1,
            "maxItems": 1,
        },
        Fixed,
    ),
    (
        {
            "type": "array",
            "items": {"type": "number", "minimum": 0},
            "minItems": 2,
            "maxItems": 2,
            "dtype": "float32",
            "shape": [2],
        },
        Numpy,
    ),
]


@pytest.mark.parametrize(("schema", "kind"), _UNDERSTOOD)
def test_a_schema_that_is_understood_says_the_same_again(schema: dict[str, Any], kind: type[Kind]) -> None:
    found = kind_of_schema(schema)
    assert type(found) is kind
    kept = {word: value for word, value in schema.items() if word not in ("title", "default")}
    assert kind_schema(found) == kept


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"type": "string"}},
        {"type": "string", "format": "uuid"},
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        {"type": "integer", "minimum": True},
        {"type": "number", "minimum": 10**400},
        {"type": "integer", "maximum": float("inf")},
        {"type": "array", "items": {}, "uniqueItems": True},
        {"type": "array", "prefixItems": [{}]},
        {"type": "array", "items": {}, "dtype": "object", "shape": [1]},
        {"type": "array", "minItems": 1, "maxItems": 0},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "null"}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {}}, "minProperties": 1},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"anyOf": [{"type": "string"}], "minLength": 1},
        {"enum": []},
        {"const": 1, "enum": [1]},
        {"minimum": 1},
    ],
)
def test_any_other_schema_is_kept_whole(schema: dict[str, Any]) -> None:
    found = kind_of_schema(schema)
    assert isinstance(found, Other)
    assert found.schema == schema


def test_references_are_followed() -> None:
    schema = {
        "$defs": {"a/b~": {"type": "boolean"}, "c": {"$ref": "#/$defs/a~1b~0"}},
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/c", "default": True}, "y": {"allOf": [{"$ref": "#/$defs/c"}]}},
        "required": ["y"],
    }
    found = kind_of_schema(schema)
    assert isinstance(found, Object)
    assert [(each.name, each.kind.name, each.default) for each in found.fields[:1]] == [  # type: ignore[attr-defined]
        ("x", "boolean", True)
    ]
    assert isinstance(found.fields[1].kind, Plain)
    assert [each.required for each in found.fields] == [False, True]


def test_a_reference_to_itself_keeps_its_definitions() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
    found = kind_of_schema({"$defs": {"node": node}, "$ref": "#/$defs/node"})
    assert isinstance(found, Object)
    (field,) = found.fields
    assert isinstance(field.kind, Other)
    assert field.kind.schema == {"$ref": "#/$defs/node", "$defs": {"node": node}}


def test_a_constant_text_tells_objects_apart() -> None:
    found = kind_of_schema({"type": "object", "properties": {"type": {"const": "a", "type": "string"}}})
    assert isinstance(found, Object)
    assert found.tag == ("type", "a")
    assert found.fields == ()


def test_several_types_are_several_kinds() -> None:
    found = kind_of_schema({"type": ["integer", "null"], "minimum": 3, "default": None})
    assert kind_schema(found) == {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/$defs/none"}, "no '#/\\$defs/none'"),
        ({"$ref": "https://example.org/a"}, "no 'https://example.org/a'"),
        ([], "is an object, not list"),
        ({"anyOf": 3}, "malformed"),
        ({"anyOf": []}, "^the JSON Schema has an empty 'anyOf'"),
        ({"type": []}, "^the JSON Schema has an empty 'type'"),
        ({"type": "file"}, "^the JSON Schema has the type 'file'; the types are null, boolean, "),
        ({"type": ["string", "file"]}, "^the JSON Schema has the type 'file'"),
        ({"type": "object", "properties": [1]}, "malformed"),
    ],
)
def test_a_malformed_schema_is_an_error(schema: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        kind_of_schema(schema)


def test_references_do_not_grow_without_end() -> None:
    defs: dict[str, Any] = {"a0": {"type": "null"}}
    for at in range(40):
        twice = {
            "type": "array",
            "prefixItems": [{"$ref": f"#/$defs/a{at}"}] * 2,
            "minItems": 2,
            "maxItems": 2,
        }
        defs[f"a{at + 1}"] = twice
    with pytest.raises(ConfigError, match="more than 10000 parts"):
        kind_of_schema({"$defs": defs, "$ref": "#/$defs/a40"})


def test_what_is_deep_down_is_json() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(90):
        schema = {"type": "array", "items": schema}
    form = schema_form(schema)
    data: Any = []
    for _ in range(70):
        data = [data]
    assert form.space.contains(form.to_value(data))
    assert form.from_value(form.to_value(data)) == data


def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ConfigError, match="nested too deeply"):
        kind_of_schema(schema)
