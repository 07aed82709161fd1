"""Type hints as kinds."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import datetime as dt
import json
import types
import typing
from enum import Enum, Flag
from functools import lru_cache, wraps
from inspect import cleandoc
from typing import Any, Literal, TypeVar, Union

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from ..errors import ConfigError
from ..models import Array
from .kinds import (
    MISSING,
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

__all__ = ["kept_by_hint", "kind_of"]

T = TypeVar("T")

_STRUCTS = type(msgspec.Struct)
_PLAIN: dict[Any, str] = {
    Any: "any",
    object: "any",
    None: "null",
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    bytes: "binary",
    bytearray: "binary",
}
_ITEMS = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_LIMITS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
_TIMES = {dt.datetime: "date-time", dt.time: "time"}
"""Formats that msgspec's schemas name only where a time zone is demanded or forbidden."""

_DTYPES = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (16, 32, 64)))
    for bits in sizes
) | {"bool", "complex64", "complex128"}


def kept_by_hint(function: abc.Callable[[Any], T]) -> abc.Callable[[Any], T]:
    """Let ``function`` work once for each type hint."""

    # Python takes unions in another order for equal, and the order is that of the options.
    @lru_cache(maxsize=1024)
    def kept(hint: Any, order: Any) -> T:
        return function(hint)

    @wraps(function)
    def call(hint: Any) -> T:
        return kept(hint, None if type(hint) is _STRUCTS else getattr(hint, "__args__", None))

    return call


@kept_by_hint
def kind_of(hint: Any) -> Kind:
    """Return what values ``hint`` stands for.

    Raises:
        ConfigError: A name in it cannot be resolved, or an :class:`Array` in it is none.
    """
    return _Reader().read(hint, Limits())


class _Reader:
    """Reads one hint; Structs that hold themselves become objects that hold themselves."""

    def __init__(self) -> None:
        self.objects: dict[Any, Object] = {}

    def read(self, hint: Any, limits: Limits, spec: Array | None = None) -> Kind:
        hint, limits, spec = _bare(hint, limits, spec)
        if hint in (int, float, str, bool, bytes) or hint in (None, Any, object):
            return Plain(_PLAIN[hint], limits=limits)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if _is_array(origin or hint):
            return Numpy(_checked(spec) if spec else None, limits=limits)
        if origin in (Union, types.UnionType):
            options = tuple(self._options(args, limits))
            _check_union(options, hint)
            return options[0] if len(options) == 1 else Either(options, limits=limits)
        if origin is Literal:
            names = (arg if isinstance(arg, str) else json.dumps(arg, default=repr) for arg in args)
            return Choice(args, tuple(names), limits=limits)
        if (origin or hint) in _ITEMS:
            return self._items(origin, args, limits)
        if (origin or hint) in _MAPPINGS:
            key, item = (self.read(one, Limits()) for one in args or (str, Any))
            return Mapping(item, key, limits=limits)
        if isinstance(hint, type) and origin is None:
            return self._class(hint, limits)
        return _other(hint, limits)

    def _options(self, args: tuple[Any, ...], limits: Limits) -> abc.Iterator[Kind]:
        for arg in args:
            if arg is msgspec.UnsetType:  # says that the field may be absent, not what it may be
                continue
            option = self.read(arg, limits)
            if isinstance(option, Either):
                yield from option.options
            else:
                yield option

    def _items(self, origin: Any, args: tuple[Any, ...], limits: Limits) -> Kind:
        if origin is tuple and args[-1:] != (Ellipsis,):
            return Fixed(tuple(self.read(arg, Limits()) for arg in args), limits=limits)
        return Items(self.read(args[0] if args else Any, Limits()), limits=limits)

    def _class(self, cls: Any, limits: Limits) -> Kind:
        if cls in _PLAIN:
            return Plain(_PLAIN[cls], limits=limits)
        if issubclass(cls, Enum) and not issubclass(cls, Flag):
            members = tuple(cls)
            values, names = tuple(one.value for one in members), tuple(one.name for one in members)
            return Choice(values, names, limits=limits)
        if hasattr(cls, "model_fields"):
            raise ConfigError(
                f"{cls.__name__} is a pydantic model; derive it from openenv_gym's Action, Observation or"
                " State, or from msgspec.Struct"
            )
        array_like = issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like
        if array_like or not (issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls)):
            return _other(cls, limits)
        if cls not in self.objects:
            self.objects[cls] = self._object(cls)
        return self.objects[cls]

    def _object(self, cls: Any) -> Object:
        made = self.objects[cls] = Object(cls.__name__, cls, about=_about(cls))
        if issubclass(cls, msgspec.Struct):
            config = cls.__struct_config__
            made.tag = None if config.tag_field is None else (config.tag_field, config.tag)
            made.closed = config.forbid_unknown_fields
        hints = _hints(cls)
        made.fields = tuple(
            Field(name, self.read(hints[attribute], Limits()), required, default)
            for name, attribute, required, default in _fields(cls)
        )
        return made


def _bare(hint: Any, limits: Limits, spec: Array | None) -> tuple[Any, Limits, Array | None]:
    """Return ``hint`` without what wraps it, and what the wrapping says."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif isinstance(hint, TypeVar):
            hint = hint.__bound__ or Any
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        elif typing.get_origin(hint) is typing.Annotated:
            for note in hint.__metadata__:
                limits = _limited(limits, note) if isinstance(note, Meta) else limits
                spec = note if isinstance(note, Array) else spec
            hint = hint.__origin__
        else:
            return hint, limits, spec


def _limited(limits: Limits, meta: Meta) -> Limits:
    found = {name: value for name in _LIMITS if (value := getattr(meta, name)) is not None}
    notes = dict(limits.notes)
    for name in ("title", "description", "examples"):
        if getattr(meta, name) is not None:
            notes[name] = getattr(meta, name)
    notes.update(meta.extra_json_schema or {})
    return dataclasses.replace(limits, **found, notes=tuple(notes.items()))


def _check_union(options: tuple[Kind, ...], hint: Any) -> None:
    """Refuse what msgspec (0.23) reads from memory that is not its own, so that the process may end."""
    bounded = any(getattr(one.limits, name) is not None for one in options for name in _LIMITS)
    if bounded and any(isinstance(one, Fixed) for one in options):
        raise ConfigError(
            f"{hint}: a tuple of fixed length and a type with bounds cannot be told apart in one union; write"
            " Annotated[list[T], Meta(min_length=n, max_length=n)] instead of the tuple"
        )


def _is_array(cls: Any) -> bool:
    """Tell numpy's array class without importing numpy."""
    return getattr(cls, "__module__", None) == "numpy" and getattr(cls, "__name__", None) == "ndarray"


def _checked(spec: Array) -> Array:
    if spec.dtype not in _DTYPES:
        raise ConfigError(f"{spec!r} names no dtype that travels; they are {', '.join(sorted(_DTYPES))}")
    if not isinstance(spec.shape, tuple) or not all(type(size) is int and size >= -1 for size in spec.shape):
        raise ConfigError(f"the shape of {spec!r} must be a tuple of sizes, -1 for any")
    return spec


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as exc:
        raise ConfigError(f"a type of a field of {cls.__name__} cannot be resolved: {exc}") from exc


def _fields(cls: Any) -> abc.Iterator[tuple[str, str, bool, Any]]:
    """Yield name in a map, name in Python, whether it is required, and default of each field."""
    known: Any = fields(cls) if issubclass(cls, msgspec.Struct) else dataclasses.fields(cls)
    for each in known:
        name = each.encode_name if isinstance(each, FieldInfo) else each.name
        default, factory = each.default, each.default_factory
        if type(default).__module__ == "pydantic.fields":
            raise ConfigError(
                f"the default of {cls.__name__}.{each.name} is pydantic's Field(...); write constraints as"
                f" {each.name}: Annotated[int, msgspec.Meta(ge=1)], and a default as such"
            )
        if factory not in (msgspec.NODEFAULT, dataclasses.MISSING):
            default = factory()
        required = default is msgspec.NODEFAULT or default is dataclasses.MISSING
        known_default = not required and default is not msgspec.UNSET
        yield name, each.name, required, default if known_default else MISSING


def _about(cls: Any) -> str:
    text = cleandoc(cls.__doc__ or "")
    return "" if text.startswith(f"{cls.__name__}(") else text  # what dataclasses make up


def _other(hint: Any, limits: Limits) -> Other:
    if hint in _TIMES:
        return Other({"type": "string", "format": _TIMES[hint]}, limits=limits)
    try:
        return Other(msgspec.json.schema(hint), limits=limits)
    except (TypeError, RuntimeError):
        return Other({}, getattr(hint, "__name__", repr(hint)), limits=limits)
