"""Kinds as JSON Schemas (draft 2020-12)."""

from __future__ import annotations

from typing import Any

from ..errors import ValueNotCarriedError
from ..models import Array, Observation
from .hints import kind_of
from .kinds import (
    MISSING,
    NOT_FINITE,
    Choice,
    Either,
    Field,
    Fixed,
    Items,
    Kind,
    Limits,
    Mapping,
    Numpy,
    Object,
    Other,
    Plain,
)
from .maps import BESIDE, jsonable

__all__ = ["WHOLE_NAMES", "base64_pattern", "fixed", "kind_schema", "schema_of"]

WHOLE_NAMES = "^(0|-?[1-9][0-9]*)$"
"""Pattern of names of properties that stand for ints."""

_KEYWORDS = {
    "number": {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "lt": "exclusiveMaximum",
        "multiple_of": "multipleOf",
    },
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


def schema_of(cls: Any) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the maps of ``cls``.

    Everything is inlined but Structs that hold themselves; those are in ``$defs``. Arrays are nested arrays,
    with ``dtype`` and ``shape`` beside their keywords. ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` are
    accepted where the schema says ``number``; it doesn't mention them. Fields that travel beside an
    :class:`.Observation` are left out.

    Args:
        cls: A Struct, a dataclass, or another type that msgspec decodes.

    Raises:
        ConfigError: A type in it cannot be resolved.
    """
    observation = isinstance(cls, type) and issubclass(cls, Observation)
    return kind_schema(kind_of(cls), exclude=BESIDE if observation else frozenset())


def kind_schema(
    kind: Kind, *, spelled: bool = False, exclude: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the JSON Schema of values of ``kind``.

    Args:
        kind: What they are.
        spelled: Mention the spellings of NaN and infinities.
        exclude: Fields of the outermost object to leave out.
    """
    writer = _Writer(spelled, exclude)
    schema = writer.write(kind)
    return {**schema, "$defs": writer.defs} if writer.defs else schema


class _Writer:
    def __init__(self, spelled: bool, exclude: frozenset[str]) -> None:
        self.spelled = spelled
        self.exclude = exclude
        self.open: list[Object] = []
        self.names: dict[int, str] = {}
        self.defs: dict[str, Any] = {}

    def write(self, kind: Kind) -> dict[str, Any]:
        return {**self._write(kind), **dict(kind.limits.notes)}

    def _write(self, kind: Kind) -> dict[str, Any]:
        limits = kind.limits
        match kind:
            case Plain():
                return self._plain(kind.name, limits)
            case Choice():
                return _one_value(kind.values[0]) if len(kind.values) == 1 else {"enum": list(kind.values)}
            case Numpy():
                return {} if kind.spec is None else self._array(kind.spec)
            case Items():
                return {"type": "array", "items": self.write(kind.item), **_limited("array", limits)}
            case Fixed():
                return fixed([self.write(one) for one in kind.items])
            case Mapping():
                item = self.write(kind.item)
                more = {"additionalProperties": item} if item else {}
                return {"type": "object", **_names(kind.key), **more, **_limited("object", limits)}
            case Either():
                return {"anyOf": [self._option(one) for one in kind.options]}
            case Object():
                return self._object(kind)
            case Other():
                return dict(kind.schema)
        raise AssertionError(kind)

    def _plain(self, name: str, limits: Limits) -> dict[str, Any]:
        if name == "any":
            return {}
        if name == "binary":
            return _binary(limits)
        if name == "string":
            return {"type": name, **_limited("string", limits)}
        if name in ("integer", "number"):
            schema = {"type": name, **_limited("number", limits)}
            return self._also_spelled(schema, limits) if name == "number" and self.spelled else schema
        return {"type": name}

    def _also_spelled(self, schema: dict[str, Any], limits: Limits) -> dict[str, Any]:
        bounded = (limits.ge, limits.gt) != (None, None), (limits.le, limits.lt) != (None, None)
        texts = {"NaN": not any(bounded), "Infinity": not bounded[1], "-Infinity": not bounded[0]}
        allowed = [text for text in NOT_FINITE if texts[text] and limits.multiple_of is None]
        return {"anyOf": [schema, {"enum": allowed}]} if allowed else schema

    def _array(self, spec: Array) -> dict[str, Any]:
        item: dict[str, Any] = {"type": _item_type(spec.dtype)}
        if item["type"] != "boolean":
            low, high = _bounds(spec)
            item |= {} if low is None else {"minimum": low}
            item |= {} if high is None else {"maximum": high}
        if item["type"] == "number" and self.spelled:
            item = self._also_spelled(item, Limits(ge=spec.low, le=spec.high))
        for size in reversed(spec.shape):
            item = {"type": "array", "items": item}
            item |= {} if size < 0 else {"minItems": size, "maxItems": size}
        return {**item, "dtype": spec.dtype, "shape": list(spec.shape)}

    def _option(self, kind: Kind) -> dict[str, Any]:
        schema = self.write(kind)
        if isinstance(kind, Object) and kind.tag and "properties" in schema:
            schema["required"] = [kind.tag[0], *schema.get("required", [])]
        return schema

    def _object(self, kind: Object) -> dict[str, Any]:
        if kind in self.open:
            name = self.names.setdefault(id(kind), _free(kind.name, self.names.values()))
            return {"$ref": f"#/$defs/{name}"}
        self.open.append(kind)
        left_out = self.exclude if len(self.open) == 1 else frozenset()
        schema = self._fields(kind, [each for each in kind.fields if each.name not in left_out])
        self.open.pop()
        if id(kind) not in self.names:
            return schema
        self.defs[self.names[id(kind)]] = schema
        return {"$ref": f"#/$defs/{self.names[id(kind)]}"}

    def _fields(self, kind: Object, fields: list[Field]) -> dict[str, Any]:
        schema: dict[str, Any] = {"title": kind.name, "type": "object"}
        if kind.about:
            schema["description"] = kind.about
        tag = {kind.tag[0]: _one_value(kind.tag[1])} if kind.tag else {}
        schema["properties"] = {**tag, **{each.name: self._field(each) for each in fields}}
        required = [each.name for each in fields if each.required]
        if required:
            schema["required"] = required
        if kind.closed:
            schema["additionalProperties"] = False
        return schema

    def _field(self, each: Field) -> dict[str, Any]:
        schema = self.write(each.kind)
        if each.default is MISSING or "default" in schema:
            return schema
        try:
            return {**schema, "default": jsonable(each.default, each.name)}
        except ValueNotCarriedError:
            return schema


def _one_value(value: Any) -> dict[str, Any]:
    return {"const": value}


def _free(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name


def _limited(family: str, limits: Limits) -> dict[str, Any]:
    found = ((word, getattr(limits, name)) for name, word in _KEYWORDS[family].items())
    return {word: value for word, value in found if value is not None}


def fixed(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of an array of exactly these items."""
    if not items:
        return {"type": "array", "maxItems": 0}
    size = len(items)
    return {"type": "array", "prefixItems": items, "items": False, "minItems": size, "maxItems": size}


def _item_type(dtype: str) -> str:
    return "boolean" if dtype == "bool" else "integer" if "int" in dtype else "number"


def _bounds(spec: Array) -> tuple[float | None, float | None]:
    low, high = spec.low, spec.high
    if "int" in spec.dtype:
        bits = int(spec.dtype.lstrip("uint"))
        unsigned = spec.dtype.startswith("u")
        low = low if low is not None else 0 if unsigned else -(2 ** (bits - 1))
        high = high if high is not None else 2 ** (bits if unsigned else bits - 1) - 1
    return low, high


# -- bytes


def _names(key: Kind | None) -> dict[str, Any]:
    """Return what is said of the keys of an object, which JSON has as text alone."""
    if isinstance(key, Choice) and all(type(value) in (str, int) for value in key.values):
        return {"propertyNames": {"enum": [str(value) for value in key.values]}}
    if isinstance(key, Plain) and key.name == "integer":
        return {"propertyNames": {"pattern": WHOLE_NAMES}}
    return {}


def _binary(limits: Limits) -> dict[str, Any]:
    low, high = limits.min_length or 0, limits.max_length
    schema: dict[str, Any] = {
        "type": "string",
        "contentEncoding": "base64",
        "pattern": base64_pattern(low, high),
    }
    if low:
        schema["minLength"] = -(-low // 3) * 4
    if high is not None:
        schema["maxLength"] = -(-high // 3) * 4
    return schema


def base64_pattern(low: int, high: int | None) -> str:
    """Return the pattern of base64 text (RFC 4648, section 4) of ``low`` to ``high`` bytes."""
    four = "(?:[A-Za-z0-9+/]{4})"
    if low == 0 and high is None:
        return f"^{four}*(?:[A-Za-z0-9+/]{{2}}==|[A-Za-z0-9+/]{{3}}=)?$"
    ways = []
    for extra, tail in enumerate(("", "[A-Za-z0-9+/]{2}==", "[A-Za-z0-9+/]{3}=")):
        fewest = max(0, -(-(low - extra) // 3))
        most = None if high is None else (high - extra) // 3
        if most is None:
            ways.append(f"{four}{{{fewest},}}{tail}")
        elif most >= fewest:
            ways.append(f"{four}{{{fewest},{most}}}{tail}")
    return f"^(?:{'|'.join(ways)})$"
