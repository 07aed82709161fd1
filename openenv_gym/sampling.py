"""Random text and JSON values for the samples of :mod:`.spaces`."""

from __future__ import annotations

import base64
import datetime as dt
import string
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import numpy as np

from .structs.schemas import WHOLE_NAMES

__all__ = ["sample_json", "sample_text"]

_SCRIPTS = (
    string.ascii_letters + string.digits + string.punctuation + " " * 8,
    "àéîõüçñßøåÆŒ",
    "αβγδεζηθλμπσωΩ",
    "абвгдежзийклмнЯ",
    "אבגדהוזח",
    "ابتثجحخد",
    "अआइईउऊकख",
    "漢字仮名交文学習",
    "한국어강화학습",
    "🙂🚀🐍🎲🧠🌍",
)
_DEPTH = 3
_DEFINITIONS = ("$defs", "definitions")
_LENGTH = 4
_RANGE = 1_000


def sample_text(rng: np.random.Generator, length: int) -> str:
    """Return ``length`` printable characters, most of them ASCII."""
    scripts = rng.integers(0, 2 * len(_SCRIPTS), length)
    characters = []
    for script in scripts:
        letters = _SCRIPTS[script] if script < len(_SCRIPTS) else _SCRIPTS[0]
        characters.append(letters[int(rng.integers(len(letters)))])
    return "".join(characters)


def sample_json(rng: np.random.Generator, schema: Any, depth: int = 0) -> Any:
    """Return a JSON value after the common keywords of ``schema``; it may still not meet it."""
    if not isinstance(schema, dict):
        return _sample_any(rng, depth)
    if depth == 0 and not schema.keys().isdisjoint(_DEFINITIONS):
        schema = _linked(schema)
    if "const" in schema:
        return deepcopy(schema["const"])
    if schema.get("enum"):
        return deepcopy(_choose(rng, schema["enum"]))
    for several in ("anyOf", "oneOf"):
        if schema.get(several):
            rest = {key: value for key, value in schema.items() if key != several}
            return sample_json(rng, _merged([rest, _choose(rng, schema[several])]), depth)
    if schema.get("allOf"):
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return sample_json(rng, _merged([rest, *schema["allOf"]]), depth)
    kind = schema.get("type") or _kind_of(schema)
    if isinstance(kind, list):
        kind = _choose(rng, kind)
    maker = _MAKERS.get(kind)
    return maker(rng, schema, depth) if maker else _sample_any(rng, depth)


def _linked(root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to in the place of each reference; it may contain itself."""
    targets: dict[str, dict[str, Any]] = {"#": {}}
    for place in _DEFINITIONS:
        targets |= {f"#/{place}/{name}": {} for name in root.get(place, {})}

    def linked(part: Any) -> Any:
        if isinstance(part, list):
            return [linked(item) for item in part]
        if not isinstance(part, dict):
            return part
        found = targets.get(part["$ref"]) if isinstance(part.get("$ref"), str) else None
        return found if found is not None else {key: linked(item) for key, item in part.items()}

    for place in _DEFINITIONS:
        for name, schema in root.get(place, {}).items():
            targets[f"#/{place}/{name}"].update(linked(_followed(schema, root)))
    top = {key: value for key, value in root.items() if key not in _DEFINITIONS}
    targets["#"].update(linked(_followed(top, root)))
    return targets["#"]


def _followed(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a chain of references ends at; an endless one allows anything."""
    seen: list[str] = []
    while isinstance(schema, dict) and isinstance(pointer := schema.get("$ref"), str):
        if pointer in seen:
            return {}
        seen.append(pointer)
        _, place, name = [*pointer.split("/"), "", ""][:3]
        schema = root.get(place, {}).get(name, {})
    return schema if isinstance(schema, dict) else {}


def _choose(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _merged(schemas: list[Any]) -> dict[str, Any]:
    """Return one schema with the keywords of all; of what is in several, properties and required add up."""
    merged: dict[str, Any] = {}
    for schema in schemas:
        if not isinstance(schema, dict):
            continue
        properties = {**merged.get("properties", {}), **schema.get("properties", {})}
        required = [*merged.get("required", []), *schema.get("required", [])]
        merged = {**merged, **schema}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = required
    return merged


def _kind_of(schema: dict[str, Any]) -> str | None:
    for kind, keywords in _TELLING.items():
        if not keywords.isdisjoint(schema):
            return kind
    return None


def _sample_any(rng: np.random.Generator, depth: int) -> Any:
    kinds = ("null", "boolean", "integer", "number", "string", "array", "object")
    kind = _choose(rng, kinds if depth < _DEPTH else kinds[:5])
    return _MAKERS[kind](rng, {}, depth)


def _null(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> None:
    return None


def _boolean(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> bool:
    return bool(rng.integers(2))


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    low = max((schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema), default=None)
    high = min((schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema), default=None)
    if low is None:
        low = -_RANGE if high is None else high - _RANGE
    return low, low + _RANGE if high is None else high


def _integer(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> int:
    return int(_multiple(rng, schema, schema.get("multipleOf", 1)))


def _number(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> float:
    if schema.get("multipleOf"):
        return float(_multiple(rng, schema, schema["multipleOf"]))
    low, high = _bounds(schema)
    return float(low + rng.random() * (high - low))


def _multiple(rng: np.random.Generator, schema: dict[str, Any], step: float) -> float:
    low, high = _bounds(schema)
    first, last = int(-(-low // step)), int(high // step)
    return step * (first + int(rng.random() * (last - first + 1)))


def _count(rng: np.random.Generator, schema: dict[str, Any], fewest: str, most: str) -> int:
    low = int(schema.get(fewest, 0))
    return int(rng.integers(low, max(low, min(int(schema.get(most, low + _LENGTH)), low + 2 * _LENGTH)) + 1))


def _string(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> str:
    size = _count(rng, schema, "minLength", "maxLength")
    if schema.get("contentEncoding") == "base64":
        most = size // 4 * 3
        return base64.b64encode(rng.bytes(int(rng.integers(max(0, most - 2), most + 1)))).decode()
    maker = _FORMATS.get(schema.get("format"))
    return maker(rng) if maker else sample_text(rng, size)


def _moment(rng: np.random.Generator) -> dt.datetime:
    return dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(rng.integers(2**30)))


def _array(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> Any:
    if "dtype" in schema and isinstance(schema.get("shape"), list):
        return _block(rng, schema, depth, [n if n >= 0 else int(rng.integers(1, 4)) for n in schema["shape"]])
    first = schema.get("prefixItems", [])
    size = int(schema.get("minItems", 0))
    if depth < _DEPTH:
        size = _count(rng, schema, "minItems", "maxItems")
    size = max(len(first), size)
    rest = [schema.get("items")] * (size - len(first))
    return [sample_json(rng, item, depth + 1) for item in [*first, *rest]]


def _block(rng: np.random.Generator, schema: dict[str, Any], depth: int, shape: list[int]) -> Any:
    """Return nested lists of one length on each axis, where a schema of ours gives the shape of an array."""
    if not shape:
        return sample_json(rng, schema, depth + 1)
    return [_block(rng, schema["items"], depth, shape[1:]) for _ in range(shape[0])]


def _object(rng: np.random.Generator, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    keys = [key for key in properties if key in required or (depth < _DEPTH and rng.integers(2))]
    keys += [key for key in required if key not in properties]
    value = {key: sample_json(rng, properties.get(key), depth + 1) for key in keys}
    more = schema.get("additionalProperties", True)
    wanted = int(schema.get("minProperties", 0 if properties else _count(rng, {}, "", "")))
    names = schema.get("propertyNames", {})
    if isinstance(names, dict) and "enum" in names:
        wanted = min(wanted, len(names["enum"]))
    while more is not False and len(value) < wanted:
        value[_name(rng, names)] = sample_json(rng, more, depth + 1)
    return value


def _name(rng: np.random.Generator, names: Any) -> str:
    """Return the name of a property that is as ``names`` says."""
    if isinstance(names, dict) and "enum" in names:
        return str(_choose(rng, names["enum"]))
    if isinstance(names, dict) and names.get("pattern") == WHOLE_NAMES:
        return str(int(rng.integers(-_RANGE, _RANGE + 1)))
    return sample_text(rng, 8)


_FORMATS: dict[Any, Callable[[np.random.Generator], str]] = {
    "date-time": lambda rng: _moment(rng).isoformat(),
    "date": lambda rng: _moment(rng).date().isoformat(),
    "time": lambda rng: _moment(rng).timetz().isoformat(),
    "duration": lambda rng: f"PT{int(rng.integers(2**20))}S",
    "uuid": lambda rng: str(UUID(bytes=rng.bytes(16), version=4)),
    "decimal": lambda rng: f"{int(rng.integers(-(10**6), 10**6)) / 100:.2f}",
}
_TELLING = {
    "object": {"properties", "required", "additionalProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}
_MAKERS: dict[Any, Any] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
}
