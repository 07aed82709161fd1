"""JSON Schemas as kinds of values."""

from __future__ import annotations

import json
import math
from typing import Any

from ..errors import ConfigError
from ..models import Array
from ..structs.kinds import (
    MISSING,
    Choice,
    Either,
    Field,
    Fixed,
    Items,
    Kind,
    Limits,
    Numpy,
    Object,
    Other,
    Plain,
)

__all__ = ["kind_of_schema"]

_ABOUT = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator"}
    | {"type", "$schema", "$id", "$comment", "$defs", "definitions"}
)
"""Keywords that constrain nothing, and ``type``."""

_KNOWN = {
    "null": _ABOUT,
    "boolean": _ABOUT,
    "integer": _ABOUT | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "number": _ABOUT | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "string": _ABOUT | {"minLength", "maxLength", "pattern"},
    "array": _ABOUT | {"items", "prefixItems", "minItems", "maxItems", "dtype", "shape"},
    "object": _ABOUT | {"properties", "required", "additionalProperties"},
}
_LIMITS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minItems": "min_length",
    "maxItems": "max_length",
}
_NUMBERS = frozenset({"ge", "gt", "le", "lt", "multiple_of"})
_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)


_MOST_PARTS = 10_000
"""References to references can grow without end; servers of others send schemas."""


_DEEPEST = 64
"""Levels that become spaces; what is below is JSON."""

_GREATEST = 2**1000
"""Of an int that can be a float's bound."""


def kind_of_schema(schema: Any) -> Kind:
    """Return what values meet ``schema``.

    Raises:
        ConfigError: A reference leads nowhere, or the schema is malformed.
    """
    if not isinstance(schema, dict | bool):
        raise ConfigError(f"a JSON Schema is an object, not {type(schema).__name__}")
    try:
        return _Reader(schema).read(schema)
    except RecursionError as exc:
        raise ConfigError("the JSON Schema is nested too deeply") from exc
    except ConfigError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise ConfigError(f"the JSON Schema is malformed: {type(exc).__name__}: {exc}") from exc


class _Reader:
    """Reads one document."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.open: list[str] = []
        self.left = _MOST_PARTS
        self.depth = 0

    def read(self, schema: Any) -> Kind:
        """Return the kind of a schema in the document."""
        self.left -= 1
        if self.left < 0:
            raise ConfigError(f"the JSON Schema has more than {_MOST_PARTS} parts, references followed")
        if self.depth == _DEEPEST:
            return self.other(schema)
        self.depth += 1
        kind = self._read(schema)
        self.depth -= 1
        return kind

    def _read(self, schema: Any) -> Kind:
        if schema is True or schema == {}:
            return Plain("any")
        if schema is False:
            return self.other({"not": {}})
        kind = schema.get("type")
        if isinstance(kind, str) and kind not in _KNOWN:
            raise ConfigError(f"the JSON Schema has the type {kind!r}; the types are {', '.join(_KNOWN)}")
        if "$ref" in schema:
            return self._referred(schema)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._either(schema, several)
        if "allOf" in schema:
            return self._all(schema)
        if "const" in schema or "enum" in schema:
            return self._choice(schema)
        if isinstance(kind, list):
            return _one_of([self.read(_alone(schema, one)) for one in kind], "type")
        if kind is None and schema.keys() <= _ABOUT:
            return Plain("any")
        if kind not in _KNOWN or not schema.keys() <= _KNOWN[kind]:
            return self.other(schema)
        if kind == "array":
            return self._array(schema)
        return self._object(schema) if kind == "object" else self._plain(kind, schema)

    def other(self, schema: dict[str, Any]) -> Kind:
        """Return the kind of which only the schema is known; it must stand alone."""
        schema = {name: value for name, value in schema.items() if name not in _ABOUT or name == "type"}
        if '"$ref"' in json.dumps(schema):
            schema |= {name: self.root[name] for name in ("$defs", "definitions") if name in self.root}
        return Other(schema)

    def _referred(self, schema: dict[str, Any]) -> Kind:
        pointer = schema["$ref"]
        if pointer in self.open or pointer == "#":
            return self.other(schema)
        target = self._resolved(pointer)
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        self.open.append(pointer)
        kind = self.read({**target, **beside} if isinstance(target, dict) else target)
        self.open.pop()
        return kind

    def _resolved(self, pointer: str) -> Any:
        """Follow a JSON Pointer (RFC 6901) within the document."""
        found = self.root
        try:
            if not pointer.startswith("#/"):
                raise KeyError(pointer)
            for step in pointer[2:].split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError) as exc:
            raise ConfigError(f"the JSON Schema has no {pointer!r}, to which it refers") from exc
        return found

    def _either(self, schema: dict[str, Any], several: str) -> Kind:
        beside = {name: value for name, value in schema.items() if name != several}
        if not beside.keys() <= _ABOUT:
            return self.other(schema)
        options: list[Kind] = []
        for one in schema[several]:
            kind = self.read(one)
            options.extend(kind.options if isinstance(kind, Either) else [kind])
        return _one_of(options, several)

    def _all(self, schema: dict[str, Any]) -> Kind:
        """Return the kind of ``allOf`` where there is one, as pydantic writes a reference with a default."""
        beside = {name: value for name, value in schema.items() if name != "allOf"}
        if len(schema["allOf"]) != 1 or not beside.keys() <= _ABOUT:
            return self.other(schema)
        (one,) = schema["allOf"]
        return self.read({**one, **beside} if isinstance(one, dict) else one)

    def _choice(self, schema: dict[str, Any]) -> Kind:
        if not schema.keys() <= _ABOUT | {"const", "enum"} or ("const" in schema and "enum" in schema):
            return self.other(schema)
        values = tuple(schema["enum"]) if "enum" in schema else (schema["const"],)
        if not values:
            return self.other(schema)
        names = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
        return Choice(values, names)

    def _plain(self, kind: str, schema: dict[str, Any]) -> Kind:
        limits = _limits(schema)
        return self.other(schema) if limits is None else Plain(kind, limits=limits)

    def _array(self, schema: dict[str, Any]) -> Kind:
        limits = _limits(schema)
        if limits is None:
            return self.other(schema)
        if "dtype" in schema and "shape" in schema:
            return self._numpy(schema)
        first = schema.get("prefixItems")
        if first is not None:
            exact = limits.min_length == len(first) and (
                limits.max_length == len(first) or schema.get("items") is False
            )
            return Fixed(tuple(map(self.read, first))) if exact else self.other(schema)
        if schema.get("items") is False or limits.max_length == 0:
            return self.other(schema) if limits.min_length else Fixed(())
        return Items(self.read(schema.get("items", True)), limits=limits)

    def _numpy(self, schema: dict[str, Any]) -> Kind:
        """Return an array, as our own schemas describe one."""
        dtype, shape = schema["dtype"], schema["shape"]
        sizes = isinstance(shape, list) and all(type(size) is int and size >= -1 for size in shape)
        if dtype not in _DTYPES or not sizes:
            return self.other(schema)
        item = schema
        for _ in shape:
            item = item["items"]
        low, high = item.get("minimum"), item.get("maximum")
        return Numpy(Array(dtype, tuple(shape), low, high), nested=True)

    def _object(self, schema: dict[str, Any]) -> Kind:
        more = schema.get("additionalProperties")
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        free = not properties and more is not False
        if free or more not in (None, False) or any(name not in properties for name in required):
            return self.other(schema)
        tag = next((name for name, one in properties.items() if _is_tag(one)), None)
        fields = tuple(
            Field(name, self.read(one), name in required, _default(one, name in required))
            for name, one in properties.items()
            if name != tag
        )
        told = None if tag is None else (tag, properties[tag]["const"])
        return Object(schema.get("title", "object"), None, fields, told, closed=more is False)


def _one_of(options: list[Kind], keyword: str) -> Kind:
    if not options:
        raise ConfigError(f"the JSON Schema has an empty {keyword!r}, which nothing meets")
    return options[0] if len(options) == 1 else Either(tuple(options))


def _default(schema: Any, required: bool) -> Any:
    return schema.get("default", MISSING) if isinstance(schema, dict) and not required else MISSING


def _alone(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the schema of one of its types: keywords of other types say nothing of it."""
    foreign = frozenset().union(*_KNOWN.values()) - _KNOWN.get(kind, _ABOUT)
    return {**{word: value for word, value in schema.items() if word not in foreign}, "type": kind}


def _is_tag(schema: Any) -> bool:
    """Return whether a property can only be one text, which tells the object from others."""
    return isinstance(schema, dict) and isinstance(schema.get("const"), str) and "enum" not in schema


def _limits(schema: dict[str, Any]) -> Limits | None:
    """Return the constraints, or ``None`` when one is not as this draft has it."""
    found: dict[str, Any] = {_LIMITS[name]: value for name, value in schema.items() if name in _LIMITS}
    for name, value in found.items():
        wanted: Any = (int, float) if name in _NUMBERS else str if name == "pattern" else int
        if isinstance(value, bool) or not isinstance(value, wanted):
            return None
        if isinstance(value, int) and abs(value) > _GREATEST:
            return None
        if isinstance(value, float) and not math.isfinite(value):  # as which 1e400 is read
            return None
    return Limits(**found)
