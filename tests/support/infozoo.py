"""One value of every kind that an environment may put into ``info``, by name.

``EXACT`` values must arrive as they left; ``MAPPED`` ones arrive as something documented, given beside
them; ``OPAQUE`` ones can't be carried at all and arrive as a placeholder.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

__all__ = ["EXACT", "MAPPED", "OPAQUE", "Colour", "Handle", "Level", "Point", "Record", "Shape"]

_UTC = dt.UTC
_EAST = dt.timezone(dt.timedelta(hours=5, minutes=45))
_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
)


class Colour(enum.Enum):
    """An enumeration of texts."""

    RED = "red"


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    HIGH = 3


@dataclass
class Shape:
    """A dataclass with an array inside."""

    name: str
    corners: Any


class Record(msgspec.Struct):
    """A msgspec Struct."""

    name: str
    size: int


Point = namedtuple("Point", "x y")


class Handle:
    """Something no wire can carry; its repr is the same in every process."""

    def __repr__(self) -> str:
        return "<Handle of the simulator>"


class _Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no repr for you")


def _nan(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def _generator() -> Iterator[int]:
    yield 1


def _scalars() -> dict[str, Any]:
    numbers: dict[str, Any] = {f"np_{name}": np.dtype(name).type(1) for name in _DTYPES.split()}
    return numbers | {
        "np_nan": np.float32("nan"),
        "np_negative_zero": np.float64(-0.0),
        "np_uint64_max": np.uint64(2**64 - 1),
        "np_str": np.str_("naïve"),
        "np_bytes": np.bytes_(b"raw\xff"),
        "np_datetime": np.datetime64("2024-02-29T12:00:00", "ns"),
        "np_timedelta": np.timedelta64(-3, "D"),
    }


def _arrays() -> dict[str, Any]:
    arrays: dict[str, Any] = {
        f"array_{name}": np.arange(6).reshape(2, 3).astype(name) for name in _DTYPES.split()
    }
    return arrays | {
        "array_0d": np.array(1.5),
        "array_empty": np.zeros((0, 4), np.int16),
        "array_specials": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
        "array_text": np.array(["a", "bcd", "é漢"]),
        "array_bytes": np.array([b"a", b"\x00b"], "S3"),
        "array_object": np.array([None, "a", 2**70], object),
        "array_datetime": np.array(["2024-02-29", "NaT"], "datetime64[s]"),
    }


def _python() -> dict[str, Any]:
    return {
        "none": None,
        "true": True,
        "int": -5,
        "int64_min": -(2**63),
        "uint64_max": 2**64 - 1,
        "big": 2**70,
        "big_negative": -(2**200) - 1,
        "float": 0.1,
        "nan": float("nan"),
        "nan_payload": _nan(0x7FF80000DEADBEEF),
        "infinite": float("-inf"),
        "negative_zero": -0.0,
        "denormal": 5e-324,
        "complex": complex(-0.0, float("inf")),
        "text": "naïve 漢字 😀\x00",
        "surrogate": "lone \ud800",
        "empty_text": "",
        "bytes": b"\xff\xfe\x00",
        "decimal": Decimal("1.2300"),
        "decimal_nan": Decimal("NaN"),
        "uuid": uuid.UUID(int=2**127 + 5),
        "date": dt.date(2024, 2, 29),
        "time": dt.time(23, 59, 59, 999999),
        "datetime": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "datetime_utc": dt.datetime(1, 1, 1, tzinfo=_UTC),
        "datetime_east": dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=_EAST),
        "timedelta": dt.timedelta(days=-1, microseconds=1),
    }


def _containers() -> dict[str, Any]:
    return {
        "list": [1, "a", None, [2.5, [True]]],
        "tuple": (1, ("a", (None,)), []),
        "set": {1, "a", None, (1, 2)},
        "frozenset": frozenset({b"a", 2**70}),
        "empty": [(), [], {}, set(), frozenset(), b"", ""],
        "dict": {"z": 1, "a": {"nested": {"deep": np.float32(2.0)}}},
        "dict_int_keys": {1: "a", -2: {"b": 3}, 2**70: None},
        "dict_odd_keys": {(1, 2): "t", None: "n", True: "b", 1.5: "f", b"k": "y"},
        "arrays_inside": {"a": [{"b": (np.zeros(3), {"c": np.ones((2, 2), np.uint8)})}]},
        "deep": _deep(20),
        "long": list(range(300)),
    }


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"down": value}
    return value


#: Values that must arrive with the same types and the same bits.
EXACT: dict[str, Any] = {**_scalars(), **_arrays(), **_python(), **_containers()}

#: ``{name: (value sent, value that must arrive)}``.
MAPPED: dict[str, tuple[Any, Any]] = {
    "enum": (Colour.RED, "red"),
    "int_enum": (Level.HIGH, 3),
    "named_tuple": (Point(1, 2.5), (1, 2.5)),
    "ordered_dict": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "mapping": (MappingProxyType({"a": 1}), {"a": 1}),
    "bytearray": (bytearray(b"ab"), b"ab"),
    "memoryview": (memoryview(b"ab"), b"ab"),
    "dataclass": (Shape("s", (1, 2)), {"name": "s", "corners": (1, 2)}),
    "struct": (Record("r", 2), {"name": "r", "size": 2}),
    "strided": (np.arange(10)[::3], np.arange(10)[::3].copy()),
    "fortran": (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)),
    "str_subclass": (type("Name", (str,), {})("n"), "n"),
    "enum_inside": ({"a": [Colour.RED]}, {"a": ["red"]}),
}

#: Values that have no form on the wire.
OPAQUE: dict[str, Any] = {
    "object": Handle(),
    "mute": _Mute(),
    "class": Handle,
    "function": _nan,
    "generator": _generator(),
    "inside": {"a": [1, Handle()]},
}
