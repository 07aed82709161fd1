"""Self-described values: ``info``, options, attributes, frames, keyword arguments.

:func:`pack` turns a value into MessagePack's own types and extensions; decoders get :func:`unpack_ext` as
hook.

================================== ============================================= ===========================
value                              on the wire                                   arrives as
================================== ============================================= ===========================
None, bool, float, bytes           nil, bool, float 64 (every bit), bin          the same
int in -2**63 .. 2**64 - 1         int                                           the same
any other int                      ext 5: two's complement, little-endian        the same
str                                str                                           the same
str with lone surrogates           ext 6: UTF-8, surrogates encoded like others  the same
bytearray, memoryview              bin                                           bytes
list                               array                                         list
dict with plain str keys           map, in order                                 dict
any other dict                     ext 4: array of key, value, key, value, ...   dict
another Mapping                    like dict                                     dict
tuple, named tuple                 ext 1: array                                  tuple
set, frozenset                     ext 2, ext 3: array                           the same
Enum and its kinds                 their value                                   the value
dataclass, msgspec Struct          map of the fields                             dict
complex                            ext 7: two little-endian float 64             the same
Decimal                            ext 8: its text                               the same
UUID                               ext 9: 16 bytes                               the same
datetime                           ext 10: array [year, month, day, hour,        the same, its time zone
                                   minute, second, microsecond, fold, offset]    a fixed offset
date                               ext 11: array [year, month, day]              the same
time                               ext 12: array [hour, minute, second,          the same, its time zone
                                   microsecond, fold, offset]                    a fixed offset
timedelta                          ext 13: array [days, seconds, microseconds]   the same
numpy array                        ext 14: see :mod:`.arrays`                    the same, in C order
numpy scalar                       ext 15: see :mod:`.arrays`                    the same
numpy array of objects             ext 16: array [shape, array of items]         the same (info only)
torch tensor                       as the numpy array of its data                numpy array
anything else                      ext 17: array [type name, repr]               Opaque (info only)
gymnasium GraphInstance            ext 18: array [nodes, edges, edge_links]      the same
================================== ============================================= ===========================

An *offset* is that of the time zone at that time, in microseconds east of UTC, or nil. The data of an
extension called *array* is MessagePack itself. A subclass of int, float, str, bytes, list, tuple, set or dict
arrives as its base; one of the other classes may hold more than its base does, so it is "anything else".
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from ..errors import ValueNotCarriedError
from .extensions import MAX_DEPTH, Code, Opaque, add_reader, unpack_ext

__all__ = ["MAX_DEPTH", "Opaque", "pack", "pack_text", "register", "unpack_ext"]

_Trail = tuple[int, ...]
_Packer = Callable[[Any, bool, _Trail], Any]

_ENCODE = msgspec.msgpack.Encoder().encode
_PLAIN = frozenset((type(None), bool, float, bytes))
_MICROSECOND = dt.timedelta(microseconds=1)
_REPR_LENGTH = 200


class _NotCarriedError(Exception):
    """A value has no form; ``steps`` lead to it, innermost first."""

    def __init__(self, why: str, text: str | None = None) -> None:
        super().__init__(why)
        self.text = text
        self.steps: list[str] = []


def pack(value: Any, path: str = "value", *, opaque: bool = False) -> Any:
    """Return ``value`` as MessagePack's own types and extensions.

    Args:
        value: Anything in the table above, to :data:`MAX_DEPTH` containers deep.
        path: What an error calls ``value``.
        opaque: Let a value that has no form travel as its type name and ``repr`` (for ``info``).

    Raises:
        ValueNotCarriedError: A value has no form and ``opaque`` is false. ``details["path"]`` names it.
    """
    if type(value) in _PLAIN:
        return value
    try:
        return _pack(value, opaque, ())
    except _NotCarriedError as exc:
        where = path + "".join(reversed(exc.steps))
        raise ValueNotCarriedError(
            f"{where} has no form on the wire: {exc};"
            " convert it to arrays, numbers, text or containers of them",
            path=where,
        ) from exc


def pack_text(value: str) -> Any:
    """Return the packed form of a ``str``, lone surrogates included."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return Ext(Code.TEXT, value.encode("utf-8", "surrogatepass"))
    return value


def register(
    cls: type, code: int, take: Callable[[Any], Iterable[Any]], make: Callable[[list[Any]], Any]
) -> None:
    """Let instances of exactly ``cls`` travel as extension ``code``.

    Args:
        cls: The class.
        code: Its extension.
        take: Returns the parts of an instance.
        make: Builds an instance from its parts; raises ``ValueError`` when they are wrong.
    """
    _PACKERS[cls] = lambda value, opaque, trail: Ext(code, _ENCODE(_items(value, take(value), opaque, trail)))
    add_reader(code, make)


def _pack(value: Any, opaque: bool, trail: _Trail) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    try:
        packer = _PACKERS.get(kind)
        return packer(value, opaque, trail) if packer else _other(value, opaque, trail)
    except _NotCarriedError as exc:
        if not opaque:
            raise
        return _as_opaque(value, exc.text)


def _as_opaque(value: Any, text: str | None = None) -> Ext:
    kind = type(value)
    if text is None:
        try:
            text = repr(value)
        except Exception as exc:  # the user's code
            text = f"<repr raised {type(exc).__name__}>"
    if len(text) > _REPR_LENGTH:
        text = text[: _REPR_LENGTH - 3] + "..."
    parts = (f"{kind.__module__}.{kind.__qualname__}", text)
    return Ext(Code.OPAQUE, _ENCODE([part.encode("utf-8", "backslashreplace").decode() for part in parts]))


def _enter(value: Any, trail: _Trail) -> _Trail:
    """Return ``trail`` with one more container on it."""
    if id(value) in trail:
        raise _NotCarriedError("it contains itself", "<contains itself>")
    if len(trail) >= MAX_DEPTH:
        raise _NotCarriedError(f"it is nested more than {MAX_DEPTH} deep", "<nested too deep>")
    return (*trail, id(value))


def _items(container: Any, items: Iterable[Any], opaque: bool, trail: _Trail) -> list[Any]:
    trail = _enter(container, trail)
    packed: list[Any] = []
    try:
        for item in items:
            packed.append(item if type(item) in _PLAIN else _pack(item, opaque, trail))
    except _NotCarriedError as exc:
        exc.steps.append(f"[{len(packed)}]")
        raise
    return packed


def _list(value: Any, opaque: bool, trail: _Trail) -> list[Any]:
    return _items(value, value, opaque, trail) if value else []


def _tuple(value: Any, opaque: bool, trail: _Trail) -> Ext:
    return Ext(Code.TUPLE, _ENCODE(_items(value, value, opaque, trail)))


def _set(value: Any, opaque: bool, trail: _Trail) -> Ext:
    code = Code.FROZENSET if isinstance(value, frozenset) else Code.SET
    return Ext(code, _ENCODE(_items(value, value, opaque, trail)))


def _dict(value: Mapping[Any, Any], opaque: bool, trail: _Trail) -> Any:
    if not value:
        return {}
    return _map(value, value, opaque, _enter(value, trail))


def _map(owner: Any, value: Mapping[Any, Any], opaque: bool, trail: _Trail) -> Any:
    """Pack the items of ``value``; ``trail`` holds its owner already."""
    for key in value:
        if type(key) is not str or not (key.isascii() or pack_text(key) is key):
            return _pairs(value, opaque, trail)
    packed: dict[str, Any] = {}
    key = None
    try:
        for key, item in value.items():
            packed[key] = item if type(item) in _PLAIN else _pack(item, opaque, trail)
    except _NotCarriedError as exc:
        exc.steps.append(f"[{key!r}]")
        raise
    return packed


def _pairs(value: Mapping[Any, Any], opaque: bool, trail: _Trail) -> Ext:
    flat: list[Any] = []
    keys: set[bytes] = set()
    key = None
    try:
        for key, item in value.items():
            packed = _pack(key, False, trail)
            keys.add(_ENCODE(packed))
            flat += (packed, _pack(item, opaque, trail))
    except _NotCarriedError as exc:
        exc.steps.append(f"[{_short(key)}]")
        raise
    if len(keys) < len(value):
        raise _NotCarriedError("two of its keys have the same form on the wire")
    return Ext(Code.PAIRS, _ENCODE(flat))


def _short(key: Any) -> str:
    try:
        return repr(key)[:_REPR_LENGTH]
    except Exception:  # the user's code
        return f"<{type(key).__name__}>"


def _int(value: int, opaque: bool, trail: _Trail) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    return Ext(Code.BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _complex(value: complex, opaque: bool, trail: _Trail) -> Ext:
    return Ext(Code.COMPLEX, struct.pack("<dd", value.real, value.imag))


def _offset(value: dt.datetime | dt.time) -> int | None:
    """Return the UTC offset in microseconds; the time zone may be the user's code."""
    offset = value.utcoffset()
    return None if offset is None else offset // _MICROSECOND


def _datetime(value: dt.datetime, opaque: bool, trail: _Trail) -> Ext:
    date = (value.year, value.month, value.day)
    return Ext(Code.DATETIME, _ENCODE([*date, *_clock(value)]))


def _clock(value: dt.datetime | dt.time) -> tuple[Any, ...]:
    try:
        offset = _offset(value)
    except Exception as exc:  # the user's code
        raise _NotCarriedError(f"its time zone raised {exc!r}") from exc
    if offset is None and value.tzinfo is not None:
        raise _NotCarriedError("its time zone has no fixed offset")
    return value.hour, value.minute, value.second, value.microsecond, value.fold, offset


def _opaque(value: Opaque, opaque: bool, trail: _Trail) -> Ext:
    if not opaque:
        raise _NotCarriedError(f"it stands for a {value.type_name} that did not travel")
    return Ext(Code.OPAQUE, _ENCODE([value.type_name, value.repr]))


def _other(value: Any, opaque: bool, trail: _Trail) -> Any:
    """Pack a value whose class is none of those in the table of packers."""
    if not _NUMPY and "numpy" in sys.modules:
        _learn_numpy()
        return _pack(value, opaque, trail)
    try:
        for base, packer in _BASES:
            if isinstance(value, base):
                return packer(value, opaque, trail)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _fields(value, (field.name for field in dataclasses.fields(value)), opaque, trail)
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            return _pack(value.detach().cpu().numpy(), opaque, trail)
    except _NotCarriedError:
        raise
    except Exception as exc:  # the user's code: a Mapping, a property, a tensor that numpy cannot hold
        raise _NotCarriedError(f"reading it raised {exc!r}") from exc
    raise _NotCarriedError(f"it is a {type(value).__module__}.{type(value).__qualname__}")


def _fields(value: Any, names: Iterable[str], opaque: bool, trail: _Trail) -> Any:
    return _map(value, {name: getattr(value, name) for name in names}, opaque, _enter(value, trail))


def _enum(value: Enum, opaque: bool, trail: _Trail) -> Any:
    return _pack(value.value, opaque, _enter(value, trail))


def _struct(value: msgspec.Struct, opaque: bool, trail: _Trail) -> Any:
    return _fields(value, value.__struct_fields__, opaque, trail)


_PACKERS: dict[type, _Packer] = {
    int: _int,
    str: lambda value, opaque, trail: pack_text(value),
    dict: _dict,
    list: _list,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    bytearray: lambda value, opaque, trail: bytes(value),
    memoryview: lambda value, opaque, trail: value.tobytes(),
    complex: _complex,
    Decimal: lambda value, opaque, trail: Ext(Code.DECIMAL, str(value).encode()),
    UUID: lambda value, opaque, trail: Ext(Code.UUID, value.bytes),
    dt.datetime: _datetime,
    dt.date: lambda value, opaque, trail: Ext(Code.DATE, _ENCODE([value.year, value.month, value.day])),
    dt.time: lambda value, opaque, trail: Ext(Code.TIME, _ENCODE(_clock(value))),
    dt.timedelta: lambda value, opaque, trail: Ext(
        Code.TIMEDELTA, _ENCODE([value.days, value.seconds, value.microseconds])
    ),
    Opaque: _opaque,
}

#: For subclasses, in this order: an IntEnum is an Enum first, np.str_ is no str.
_BASES: list[tuple[Any, _Packer]] = [
    (Enum, _enum),
    (msgspec.Struct, _struct),
    (int, lambda value, opaque, trail: _int(int(value), opaque, trail)),
    (float, lambda value, opaque, trail: float(value)),
    (str, lambda value, opaque, trail: pack_text(str.__str__(value))),
    (bytes, lambda value, opaque, trail: bytes(value)),
    (Mapping, _dict),
    (tuple, _tuple),
    (list, _list),
    ((set, frozenset), _set),
]
#: What of it numpy added. A client that meets no array does without numpy, whose import takes long.
_NUMPY: list[tuple[Any, _Packer]] = []


def _learn_numpy() -> None:
    """Enter numpy's types, now that there may be values of them."""
    import numpy as np

    from .arrays import dump_array, dump_scalar

    def array(value: Any, opaque: bool, trail: _Trail) -> Ext:
        if value.dtype.kind == "O":
            if not opaque:
                raise _NotCarriedError("an array of Python objects travels in info only")
            parts = _items(value, value.reshape(-1).tolist(), opaque, trail)
            return Ext(Code.OBJECTS, _ENCODE([value.shape, parts]))
        try:
            return Ext(Code.ARRAY, dump_array(value))
        except ValueError as exc:
            raise _NotCarriedError(str(exc)) from exc

    def scalar(value: Any, opaque: bool, trail: _Trail) -> Ext:
        try:
            return Ext(Code.SCALAR, dump_scalar(value))
        except ValueError as exc:
            raise _NotCarriedError(str(exc)) from exc

    _PACKERS.update({np.dtype(char).type: scalar for char in "?bhilqBHILQefdFDSUMm"})
    _PACKERS[np.ndarray] = array
    bases = (np.generic, scalar), (np.memmap, array)
    _BASES[1:1] = bases
    _NUMPY[:] = bases  # last: other threads go by it
