"""Structs to maps and back."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Collection
from collections.abc import Mapping as AnyMapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from ..errors import ConfigError, ValidationError, ValueNotCarriedError
from ..models import Observation
from .arrays import exactness, is_finite, is_numpy, numpy_array, plain_numpy
from .faults import explained
from .hints import kept_by_hint, kind_of
from .kinds import NOT_FINITE, Choice, Either, Fixed, Items, Kind, Mapping, Numpy, Object, Plain, walk

__all__ = ["BESIDE", "from_map", "jsonable", "spelled", "to_map"]

T = TypeVar("T")

BESIDE = frozenset({"done", "terminated", "truncated", "reward", "metadata"})
"""Fields of an observation that travel beside it."""

_ATOMS = frozenset((type(None), bool, int, float, str, bytes))
_SERIES = frozenset((list, tuple, set, frozenset))


# -- to maps


def to_map(
    struct: Any, *, json: bool = False, exclude: Collection[str] | None = None, where: str = "$"
) -> dict[str, Any]:
    """Return the fields of a Struct, by the names that they have on the wire.

    Args:
        struct: A Struct or dataclass.
        json: Use JSON's types only, spelled as the package says. Otherwise arrays, bytes, dates and the like
            stay what they are.
        exclude: Fields to leave out; by default those of an :class:`.Observation` that travel beside it.
        where: What errors call ``struct``.

    Raises:
        ValueNotCarriedError: ``json`` is true and a value has no form in JSON. ``details["path"]`` names it.
    """
    found = _fields(struct, lean=exclude is None)
    for name in exclude or ():
        found.pop(name, None)
    if json:
        return {name: jsonable(value, f"{where}.{name}") for name, value in found.items()}
    for name, value in found.items():
        if type(value) not in _ATOMS:
            found[name] = _plain(value)
    return found


def _fields(struct: Any, *, lean: bool = False) -> dict[str, Any]:
    """Return the tag and the fields; ``lean``: without those of an observation that travel beside it."""
    cls: Any = type(struct)
    tag, names = _layout(cls, lean)
    found = tag.copy()
    for attribute, name in names:
        value = getattr(struct, attribute)
        if value is not msgspec.UNSET:
            found[name] = value
    return found


@lru_cache(maxsize=1024)
def _layout(cls: Any, lean: bool) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """Return the tag, and the names of the fields in Python and in maps."""
    if not issubclass(cls, msgspec.Struct):
        return {}, tuple((each.name, each.name) for each in dataclasses.fields(cls))
    config = cls.__struct_config__
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    left_out = BESIDE if lean and issubclass(cls, Observation) else ()
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return tag, tuple(pair for pair in names if pair[1] not in left_out)


def _plain(value: Any) -> Any:
    cls: Any = type(value)
    if cls in _ATOMS or _is_leaf(cls):
        return value
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if cls in _SERIES:
        return cls(map(_plain, value))
    if isinstance(value, msgspec.Struct) and value.__struct_config__.array_like:
        return [_plain(item) for item in _fields(value).values()]
    return {name: _plain(item) for name, item in _fields(value).items()}


@lru_cache(maxsize=1024)
def _is_leaf(cls: type) -> bool:
    """Return whether instances of ``cls`` stay what they are."""
    parts = issubclass(cls, Enum | msgspec.Struct | dict) or dataclasses.is_dataclass(cls)
    return not parts and cls not in _SERIES


def jsonable(value: Any, path: str) -> Any:
    """Return ``value`` in JSON's types, spelled as the package says; ``path`` is what errors call it.

    Raises:
        ValueNotCarriedError: JSON has nothing for it, or it contains itself.
    """
    try:
        return _jsonable(value, path)
    except RecursionError:
        text = f"{path} has no form in JSON: it contains itself, or is nested too deeply"
        raise ValueNotCarriedError(text, path=path) from None


def _jsonable(value: Any, path: str) -> Any:
    if is_numpy(value):
        if is_finite(value):
            return value.tolist()  # no look at each number of an image
        value = plain_numpy(value, path)
    if value is None or isinstance(value, bool | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else spelled(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item, f"{path}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, AnyMapping):
        return {_key(key, path): _jsonable(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, msgspec.Struct) and value.__struct_config__.array_like:
        return [_jsonable(item, path) for item in _fields(value).values()]
    if isinstance(value, msgspec.Struct) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return {name: _jsonable(item, f"{path}.{name}") for name, item in _fields(value).items()}
    return _builtin(value, path)


def spelled(value: float) -> str:
    """Return how JSON text spells a number that is not finite."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str(key.value) if isinstance(key, Enum) else key
    (text,) = _builtin({key: None}, path)
    return cast(str, text)


def _builtin(value: Any, path: str) -> Any:
    """Return dates, UUIDs, decimals and keys as msgspec spells them."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError) as exc:
        raise ValueNotCarriedError(
            f"{path} has no form in JSON: {exc}; use numbers, text, arrays or containers of them", path=path
        ) from exc


# -- from maps


class _Plan(NamedTuple):
    kind: Kind
    arrays: bool
    exact: Callable[[Any], bool] | None


@kept_by_hint
def _plan(cls: Any) -> _Plan:
    kind = kind_of(cls)
    arrays = any(isinstance(one, Numpy) for one in walk(kind))
    return _Plan(kind, arrays, exactness(kind) if arrays else None)


def from_map(cls: type[T] | Any, data: Any, *, where: str = "$") -> T:
    """Return the instance of ``cls`` that ``data`` describes, after checking every field of it.

    Nothing is coerced but what has two spellings: an int where a float is wanted, lists for tuples, sets and
    arrays, ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` for floats, base64 text for bytes, numpy scalars for
    numbers.

    Args:
        cls: A Struct, a dataclass or anything else that msgspec decodes; also a union of Structs, some
            of them without a tag.
        data: What :func:`to_map` returned, in either form.
        where: What errors call ``data``.

    Raises:
        ValidationError: A field is wrong, missing or unknown. ``details["path"]`` names it.
        ConfigError: ``cls`` cannot be decoded.
    """
    wanted: Any = cls
    kind, arrays, exact = _plan(wanted)
    if isinstance(kind, Either) and (struct := _untagged(kind, data)):
        kind, wanted = struct, struct.cls
    # Spellings are rare, so they are looked for only when something is wrong.
    odd = arrays and (exact is None or not exact(data))
    for prepare in (True,) if odd else (False, True):
        try:
            instance: T = _convert(_prepared(kind, data, where) if prepare else data, wanted)
            return instance
        except msgspec.ValidationError as exc:
            wrong = exc
        except UnicodeEncodeError as exc:
            raise ValidationError(
                f"{where}: a name or key in it is no valid Unicode: {exc.object!r:.80}", path=where
            ) from exc
    raise explained(wrong, kind, data, where) from wrong


def _convert(data: Any, cls: Any) -> Any:
    try:
        return msgspec.convert(data, cls, strict=True, str_keys=True, dec_hook=_keep)
    except TypeError as exc:
        raise ConfigError(f"{cls} cannot be decoded: {exc}") from exc


def _keep(cls: Any, data: Any) -> Any:
    """Return a value of a class that msgspec does not know, so that it looks only at its type."""
    return data


def _untagged(kind: Either, data: Any) -> Object | None:
    """Return which Struct of a union ``data`` is, where some have no tag: msgspec refuses those unions."""
    objects = [one for one in kind.options if isinstance(one, Object)]
    if len(objects) < 2 or all(one.tag for one in objects) or not isinstance(data, dict):
        return None
    return _object_of(objects, data)


def _object_of(objects: list[Object], data: dict[Any, Any]) -> Object:
    tagged = next((one for one in objects if one.tag and data.get(one.tag[0]) == one.tag[1]), None)
    others = [one for one in objects if not one.tag] or objects
    return tagged or next((one for one in others if _has_names(one, data)), others[0])


def _has_names(kind: Object, data: dict[Any, Any]) -> bool:
    return kind.kinds.keys() >= data.keys() and all(
        each.name in data for each in kind.fields if each.required
    )


def _prepared(kind: Kind, data: Any, path: str) -> Any:
    """Return ``data`` with arrays made and spellings undone where ``kind`` wants that."""
    match kind:
        case Numpy():
            return numpy_array(kind, data, path)
        case Plain():
            return _number(kind.name, data, path)
        case Choice():
            return plain_numpy(data, path) if is_numpy(data) else data
        case Either():
            return _prepared(_option(kind, data), data, path)
        case Object() if isinstance(data, dict):
            kinds = kind.kinds
            return {
                name: _prepared(kinds[name], item, f"{path}.{name}") if name in kinds else item
                for name, item in data.items()
            }
        case Mapping() if isinstance(data, dict):
            return {key: _prepared(kind.item, item, f"{path}.{key}") for key, item in data.items()}
        case Items() if isinstance(data, list | tuple):
            return [_prepared(kind.item, item, f"{path}[{at}]") for at, item in enumerate(data)]
        case Fixed() if isinstance(data, list | tuple) and len(data) == len(kind.items):
            pairs = zip(kind.items, data, strict=True)
            return [_prepared(one, item, f"{path}[{at}]") for at, (one, item) in enumerate(pairs)]
    return data


def _number(name: str, data: Any, path: str) -> Any:
    if name == "number" and isinstance(data, str):
        return NOT_FINITE.get(data, data)
    if name in ("number", "integer", "boolean") and is_numpy(data):
        plain = plain_numpy(data, path)
        return float(plain) if name == "number" and type(plain) is int else plain
    return data


def _option(kind: Either, data: Any) -> Kind:
    """Return the option that ``data`` looks like; msgspec decides whether it is one."""
    objects = [one for one in kind.options if isinstance(one, Object)]
    if isinstance(data, dict) and objects:
        return _object_of(objects, data)
    fitting = [one for one in kind.options if _looks(one, data, kind)]
    return fitting[0] if fitting else Plain("any")


def _looks(kind: Kind, data: Any, among: Either) -> bool:
    if isinstance(kind, Numpy):
        return data is not None
    if isinstance(data, str):
        texts = any(isinstance(one, Choice) or getattr(one, "name", "") == "string" for one in among.options)
        return isinstance(kind, Plain) and kind.name == "number" and not texts
    if isinstance(data, list | tuple):
        return isinstance(kind, Items | Fixed)
    if isinstance(data, dict):
        return isinstance(kind, Mapping)
    if is_numpy(data):
        return not data.shape and _takes_scalar(kind, data.dtype.kind)
    return False


def _takes_scalar(kind: Kind, letter: str) -> bool:
    wanted = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}.get(letter)
    return isinstance(kind, Plain) and kind.name == wanted
