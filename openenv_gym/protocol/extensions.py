"""MessagePack extensions of self-described values, read from bytes; :mod:`.values` lists and writes them.

Nothing here resolves a name or runs what a peer sent: every code has one reader, and lengths are compared
with the bytes that are there before memory is taken.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MAX_DEPTH", "Code", "Opaque", "add_reader", "unpack_ext"]

#: Most containers inside one another.
MAX_DEPTH = 64

_MICROSECOND = dt.timedelta(microseconds=1)
_KNOWN_OPAQUE = 1_000
_MAX_AXES = 64


class Code:
    """Extension codes; their meaning never changes."""

    TUPLE = 1
    SET = 2
    FROZENSET = 3
    PAIRS = 4
    BIG_INT = 5
    TEXT = 6
    COMPLEX = 7
    DECIMAL = 8
    UUID = 9
    DATETIME = 10
    DATE = 11
    TIME = 12
    TIMEDELTA = 13
    ARRAY = 14
    SCALAR = 15
    OBJECTS = 16
    OPAQUE = 17
    GRAPH = 18


class Opaque(msgspec.Struct, frozen=True):
    """What arrives for a value that has no form on the wire.

    Attributes:
        type_name: Module and name of the value's class; for reading, never resolved.
        repr: The value's ``repr``, at most 200 characters.
    """

    type_name: str
    repr: str


def unpack_ext(code: int, data: memoryview, depth: int = 0) -> Any:
    """Return the value of an extension inside ``depth`` others; the hook of every decoder.

    Raises:
        msgspec.DecodeError: The code is unknown or the data malformed.
    """
    reader = _READERS.get(code)
    if reader is None:
        raise msgspec.ValidationError(f"extension {code} is unknown; the peer may be newer")
    if depth >= MAX_DEPTH:
        raise msgspec.ValidationError(f"values are nested more than {MAX_DEPTH} deep")
    try:
        return reader(data, depth)
    except (ValueError, TypeError, IndexError, ArithmeticError) as exc:
        raise msgspec.ValidationError(f"malformed extension {code}: {exc}") from exc


def add_reader(code: int, make: Callable[[list[Any]], Any]) -> None:
    """Let ``make`` build the values of ``code`` from their parts; it raises ``ValueError`` for wrong ones."""
    _READERS[code] = lambda data, depth: make(_parts(data, depth))


_DECODERS = [
    msgspec.msgpack.Decoder(list[Any], ext_hook=partial(unpack_ext, depth=depth))
    for depth in range(MAX_DEPTH + 1)
]


def _parts(data: memoryview, depth: int) -> list[Any]:
    return _DECODERS[depth + 1].decode(data)


def _pairs(data: memoryview, depth: int) -> dict[Any, Any]:
    flat = _parts(data, depth)
    keys, values = flat[::2], flat[1::2]
    if len(keys) != len(values):
        raise ValueError("a key has no value")
    return dict(zip(keys, values, strict=True))


def _big_int(data: memoryview, depth: int) -> int:
    return int.from_bytes(data, "little", signed=True)


def _text(data: memoryview, depth: int) -> str:
    return str(data, "utf-8", "surrogatepass")


def _complex(data: memoryview, depth: int) -> complex:
    if len(data) != 16:
        raise ValueError("a complex number has 16 bytes")
    return complex(*struct.unpack("<dd", data))


def _decimal(data: memoryview, depth: int) -> Decimal:
    return Decimal(str(data, "ascii"))


def _uuid(data: memoryview, depth: int) -> UUID:
    return UUID(bytes=bytes(data))


def _zone(offset: int | None) -> dt.timezone | None:
    return None if offset is None else dt.timezone(offset * _MICROSECOND)


def _datetime(data: memoryview, depth: int) -> dt.datetime:
    year, month, day, hour, minute, second, microsecond, fold, offset = _parts(data, depth)
    zone = _zone(offset)
    return dt.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _date(data: memoryview, depth: int) -> dt.date:
    year, month, day = _parts(data, depth)
    return dt.date(year, month, day)


def _time(data: memoryview, depth: int) -> dt.time:
    hour, minute, second, microsecond, fold, offset = _parts(data, depth)
    return dt.time(hour, minute, second, microsecond, _zone(offset), fold=fold)


def _timedelta(data: memoryview, depth: int) -> dt.timedelta:
    days, seconds, microseconds = _parts(data, depth)
    return dt.timedelta(days, seconds, microseconds)


def _array(data: memoryview, depth: int) -> Any:
    _learn_numpy()
    return _READERS[Code.ARRAY](data, depth)


def _scalar(data: memoryview, depth: int) -> Any:
    _learn_numpy()
    return _READERS[Code.SCALAR](data, depth)


def _learn_numpy() -> None:
    """Replace the two readers above. A client that meets no array does without numpy's long import."""
    from .arrays import load_array, load_scalar

    _READERS[Code.ARRAY] = lambda data, depth: load_array(data)
    _READERS[Code.SCALAR] = lambda data, depth: load_scalar(data)


def _objects(data: memoryview, depth: int) -> np.ndarray[Any, Any]:
    import numpy as np

    shape, items = _parts(data, depth)
    if len(shape) > _MAX_AXES or any(type(dim) is not int or dim < 0 for dim in shape):
        raise ValueError(f"the shape of an array holds at most {_MAX_AXES} lengths")
    if math.prod(shape) != len(items):
        raise ValueError(f"{len(items)} objects do not have the shape {shape}")
    array = np.empty(len(items), object)
    for at, item in enumerate(items):
        array[at] = item
    return array.reshape(shape)


def _opaque(data: memoryview, depth: int) -> Opaque:
    type_name, text = _parts(data, depth)
    if type(type_name) is not str or type(text) is not str:
        raise ValueError("an opaque value has a type name and a text")
    if type_name not in _WARNED and len(_WARNED) < _KNOWN_OPAQUE:
        _WARNED.add(type_name)
        warnings.warn(
            f"a value of type {type_name} has no form on the wire and arrived as openenv_gym's Opaque;"
            " convert it in the environment to keep it",
            stacklevel=2,
        )
    return Opaque(type_name, text)


_WARNED: set[str] = set()
_READERS: dict[int, Callable[[memoryview, int], Any]] = {
    Code.TUPLE: lambda data, depth: tuple(_parts(data, depth)),
    Code.SET: lambda data, depth: set(_parts(data, depth)),
    Code.FROZENSET: lambda data, depth: frozenset(_parts(data, depth)),
    Code.PAIRS: _pairs,
    Code.BIG_INT: _big_int,
    Code.TEXT: _text,
    Code.COMPLEX: _complex,
    Code.DECIMAL: _decimal,
    Code.UUID: _uuid,
    Code.DATETIME: _datetime,
    Code.DATE: _date,
    Code.TIME: _time,
    Code.TIMEDELTA: _timedelta,
    Code.ARRAY: _array,
    Code.SCALAR: _scalar,
    Code.OBJECTS: _objects,
    Code.OPAQUE: _opaque,
}
