"""Columns of spaces without parts: arrays, integers, text."""
# ruff: noqa: D102 - Column says what the methods do

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .arrays import check_items, dtype_name
from .lanes import Batch, Column, Path, Warn, spell
from .values import MAX_DEPTH, pack, pack_text

__all__ = ["ArrayColumn", "IntColumn", "JsonColumn", "TextColumn", "json_flaw"]

_ARRAYS = (np.ndarray, np.generic, list, tuple, bool, int, float)
_PYTHON = (bool, int, float)
_BYTES = (bytes, memoryview)
_JSON_SCALARS = frozenset((type(None), bool, int, float, str))
_FORMATS = {"i1": "<b", "u1": "<B", "i2": "<h", "u2": "<H", "i4": "<i", "u4": "<I", "i8": "<q", "u8": "<Q"}
#: Kinds of dtypes that an observation is cast from, by the kind of the space's dtype.
_CASTABLE = {"f": "biuf", "i": "biu", "u": "biu", "b": "b"}


class ArrayColumn(Column):
    """Arrays of one dtype and shape; raw: n items in C order, one zero byte for an item that takes none.

    With the shape ``()``, numpy scalars of the dtype are raw too, in an array of one bin.

    Args:
        space: A space with dtype and shape.
        actions: See :class:`Column`.
        any_dtype: Whether the space takes values of every dtype (``MultiBinary``).
    """

    def __init__(self, space: Any, actions: bool, any_dtype: bool = False) -> None:
        super().__init__(space, actions)
        self.dtype: np.dtype[Any] = space.dtype
        self.shape: tuple[int, ...] = space.shape
        self._any_dtype = any_dtype
        self._size = self.dtype.itemsize * math.prod(self.shape)
        self._checked = self.dtype.kind == "b"
        self.direct = self.shape != ()
        if dtype_name(self.dtype) is None:
            raise ValueError(f"dtype {self.dtype} has no form on the wire")

    def encode_one(self, value: Any, path: Path = "value", warn: Warn | None = None) -> Any:
        if type(value) is np.ndarray and value.shape == self.shape and self._size:
            dtype = value.dtype
            if dtype is self.dtype or dtype == self.dtype:
                return value.tobytes()
        return self.write([value], path, warn)

    def decode_one(self, column: Any) -> Any:
        if type(column) in _BYTES and len(column) == self._size and not self._checked and self._size:
            # over memory of its own, like a copy, in half the time
            return np.ndarray(self.shape, self.dtype, bytearray(column))
        return self.decode(column, 1)[0]

    def view_batch(self, batch: Any, n: int) -> memoryview | None:
        exact = type(batch) is np.ndarray and batch.shape == (n, *self.shape) and batch.dtype == self.dtype
        if not exact or not self._size or not self.shape or not batch.flags.c_contiguous:
            return None
        view: memoryview = batch.reshape(-1).view(np.uint8).data
        return view

    def decode_batch(self, column: Any, n: int) -> Any:
        if type(column) in _BYTES and len(column) == n * self._size and self._size and not self._checked:
            return np.ndarray((n, *self.shape), self.dtype, bytearray(column))
        return None

    def exact(self, values: Sequence[Any]) -> Any:
        dtype, shape = self.dtype, self.shape
        if shape == () and values and all(type(value) is dtype.type for value in values):
            return [np.array(values, dtype).tobytes()]
        array = np.ndarray
        for value in values:
            if type(value) is not array or value.shape != shape:
                return None
            if value.dtype is not dtype and value.dtype != dtype:  # the same object nearly always
                return None
        if not self._size:
            return bytes(len(values))
        try:
            return b"".join(values)  # one copy, and no object for each lane
        except TypeError:  # an array that is not C-contiguous
            return b"".join([value.tobytes() for value in values])

    def read_exact(self, column: Any, n: int) -> list[Any]:
        if self._is_wrapped(column):
            return list(self._rows(column[0], n))
        rows = self._rows(column, n)
        return [rows[lane, ...].copy() for lane in range(n)]

    def _is_wrapped(self, column: Any) -> bool:
        return type(column) is list and len(column) == 1 and self.shape == ()

    def _rows(self, column: Any, n: int) -> np.ndarray[Any, Any]:
        """Return the items of a raw column as a read-only array; sizes are compared first."""
        size = n * (self._size or 1)
        if type(column) not in _BYTES or len(column) != size:
            raise ValueError(f"{size} bytes were due")
        if not self._size:
            return np.empty((n, *self.shape), self.dtype)
        rows = np.frombuffer(column, self.dtype)
        if self._checked:
            check_items(rows)
        return rows.reshape((n, *self.shape))

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        return self._admit(value, self.shape, path, warn)

    def _admit(self, value: Any, shape: tuple[int, ...], path: Path, warn: Warn | None) -> Any:
        value, array = self._as_array(value, shape, path)
        if self.actions:
            if not self._holds(array):
                raise self._refusal(path, f"holds values that {self.dtype} cannot hold")
            return value
        plain = type(value) is np.ndarray or isinstance(value, np.generic | np.memmap)
        if plain and (self._any_dtype or np.can_cast(array.dtype, self.dtype)):
            return value
        if type(value) in _PYTHON and self._python_scalar_fits(value, array):
            return value
        return self._cast(array, type(value).__name__, path, warn)

    def _as_array(self, value: Any, shape: tuple[int, ...], path: Path) -> tuple[Any, Any]:
        """Return ``value``, and as an array that has numbers and the right shape."""
        if self.actions and not isinstance(value, _ARRAYS) and hasattr(value, "__array__"):
            value = np.asarray(value)
        subclass = isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap)
        if subclass or not isinstance(value, _ARRAYS):
            raise self._refusal(path, f"is a {type(value).__name__}; an array was due")
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError) as exc:
            raise self._refusal(path, f"is not an array: {exc}") from exc
        if array.dtype.kind not in "biuf" or array.shape != shape:
            due = f"{self.dtype} of shape {shape} was due"
            raise self._refusal(path, f"is {array.dtype} of shape {array.shape}; {due}")
        return value, array

    def _holds(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether the dtype can hold the values of ``array``, floats perhaps rounded."""
        kind = array.dtype.kind
        if self.dtype.kind == "f" or not array.size:
            return True
        if kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
            return False
        low, high = (0, 1) if self.dtype.kind == "b" else _limits(self.dtype)
        return low <= int(array.min()) and int(array.max()) <= high

    def _python_scalar_fits(self, value: Any, array: np.ndarray[Any, Any]) -> bool:
        return self._holds(array) and (self.dtype.kind == "f" or not isinstance(value, float))

    def _cast(self, array: np.ndarray[Any, Any], what: str, path: Path, warn: Warn | None) -> Any:
        """Return ``array`` cast to the dtype of the space: within its kind, or integers to floats."""
        target, kind = self.dtype.kind, array.dtype.kind
        if kind not in _CASTABLE[target] or not self._holds(array):
            raise self._refusal(path, f"is {array.dtype} of shape {array.shape}; {self.dtype} was due")
        if warn is None:
            raise self._refusal(path, f"is a {what} of {array.dtype}; an array of {self.dtype} was due")
        with np.errstate(over="ignore"):
            cast = array.astype(self.dtype)
        if kind == "f" and not np.isfinite(cast).all() and (np.isinf(cast) & np.isfinite(array)).any():
            raise self._refusal(path, f"is {array.dtype} and too large for {self.dtype}")
        warn(_cast_text(spell(path), what, array.dtype, self.dtype, self.shape))
        return cast

    def write_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        if type(batch) is not np.ndarray or batch.dtype != self.dtype or batch.shape[1:] != self.shape:
            return None
        if not batch.ndim:
            return None
        return len(batch), batch.tobytes() if self._size else bytes(len(batch))

    def read_batch(self, column: Any, n: int) -> Any:
        return self._rows(column, n).copy()

    def admit_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch:
        try:
            n = len(batch)
        except TypeError as exc:
            raise self._refusal(path, f"is a {type(batch).__name__}; an array of values was due") from exc
        return n, self._admit(batch, (n, *self.shape), path, warn)

    def put(self, column: Any, n: int, out: Any, start: int) -> Any:
        if type(column) is dict:
            return self.place(self.read_general(column, n), out, start)
        if self._is_wrapped(column):
            column = column[0]
        out[start : start + n] = self._rows(column, n)
        return out

    def place(self, values: Sequence[Any], out: Any, start: int) -> Any:
        for lane, value in enumerate(values, start):
            np.copyto(out[lane, ...], value, casting="same_kind")
        return out


class IntColumn(ArrayColumn):
    """Integers of ``Discrete``; raw: n items, in an array of one bin when they were Python's own."""

    def __init__(self, space: Any, actions: bool) -> None:
        super().__init__(space, actions)
        self.direct = True
        self.dtype = self.dtype.newbyteorder("<")  # scalars have no byte order of their own
        self._type = self.dtype.type
        low, high = _limits(self.dtype)
        self._first = int(space.start)
        self._end = self._first + int(space.n)
        self._low, self._high = (max(low, self._first), min(high, self._end - 1)) if actions else (low, high)
        self._unsigned = np.dtype(f"<u{self.dtype.itemsize}")
        codec = struct.Struct(_FORMATS[self.dtype.str[1:]])
        self._pack, self._unpack = codec.pack, codec.unpack

    def encode_one(self, value: Any, path: Path = "value", warn: Warn | None = None) -> Any:
        kind = type(value)
        if kind is self._type:
            number = int(value)
            if self._low <= number <= self._high:
                return self._pack(number)
        elif kind is int and self._low <= value <= self._high:
            return [self._pack(value)]
        return self.write([value], path, warn)

    def decode_one(self, column: Any) -> Any:
        try:
            if type(column) is bytes:
                return self._type(self._unpack(column)[0])
            if type(column) is list and type(column[0]) is bytes and len(column) == 1:
                return self._unpack(column[0])[0]
        except (struct.error, IndexError) as exc:
            raise self._malformed(exc) from exc
        return self.decode(column, 1)[0]

    def exact(self, values: Sequence[Any]) -> Any:
        kinds = set(map(type, values)) or {self._type}
        if len(kinds) > 1 or not kinds <= {self._type, int}:
            return None
        if int in kinds:
            if not self._low <= min(values) <= max(values) <= self._high:
                return None
            return [np.array(values, self.dtype).tobytes()]
        array = np.array(values, self.dtype)
        return array.tobytes() if self._all_in(array) else None

    def _all_in(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether actions are in the space; an observation that has the dtype may lie outside."""
        if not self.actions or not array.size:
            return True
        if not self._low:  # seen as unsigned, what is below 0 is above all the rest
            seen = array.view(self._unsigned)
            within: bool = seen.item(seen.argmax()) <= self._high
            return within
        return self._low <= int(array.min()) and int(array.max()) <= self._high

    def read_exact(self, column: Any, n: int) -> list[Any]:
        if self._is_wrapped(column):
            return list(self._rows(column[0], n).tolist())
        return list(self._rows(column, n))

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if self.actions:
            if not self._contains(value):
                raise self._refusal(path, f"is {_short(value)}")
            return value
        integer = isinstance(value, int) or (
            isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "iu" and value.shape == ()
        )
        if not integer or not self._low <= int(value) <= self._high:
            raise self._refusal(path, f"is {_short(value)}; an integer that fits {self.dtype} was due")
        if isinstance(value, int) or np.can_cast(value.dtype, self.dtype):
            return value
        return self._cast(np.asarray(value), type(value).__name__, path, warn)[()]

    def _contains(self, value: Any) -> bool:
        """Return whether ``value`` is in the space, by the rules of Gymnasium 1.4, whatever is installed."""
        if isinstance(value, int):
            return self._low <= value <= self._high
        if not isinstance(value, np.generic | np.ndarray):
            return False
        integer = np.issubdtype(value.dtype, np.integer) and value.shape == ()
        return bool(
            integer and self._first <= int(value) < self._end and np.can_cast(value.dtype, self.dtype)
        )

    def write_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        if type(batch) is not np.ndarray or batch.dtype != self.dtype or batch.ndim != 1:
            return None
        return (len(batch), batch.tobytes()) if self._all_in(batch) else None


class TextColumn(Column):
    """Text; raw: an array of n texts."""

    def exact(self, values: Sequence[Any]) -> Any:
        if all(type(value) is str for value in values):
            return [pack_text(value) for value in values]
        return None

    def read_exact(self, column: Any, n: int) -> list[Any]:
        if type(column) is not list or len(column) != n or not all(type(value) is str for value in column):
            raise ValueError(f"an array of {n} texts was due")
        return column

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if not isinstance(value, str):
            raise self._refusal(path, f"is a {type(value).__name__}; a str was due")
        return value


class JsonColumn(Column):
    """JSON values; raw: an array of n self-described values."""

    def exact(self, values: Sequence[Any]) -> Any:
        return None if any(map(json_flaw, values)) else [pack(value) for value in values]

    def read_exact(self, column: Any, n: int) -> list[Any]:
        if type(column) is not list or len(column) != n:
            raise ValueError(f"an array of {n} values was due")
        for value in column:
            if flaw := json_flaw(value):
                raise ValueError(f"value{flaw}")
        return column

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if flaw := json_flaw(value):
            raise self._refusal(path, f"is no JSON value: {spell(path)}{flaw}")
        return value


def json_flaw(value: Any, depth: int = 0) -> str:
    """Return where and why ``value`` is no JSON value, or an empty text when it is one."""
    kind = type(value)
    if kind in _JSON_SCALARS:
        return ""
    if kind is not list and kind is not dict:
        return f" is a {kind.__name__}"
    if depth >= MAX_DEPTH:
        return f" is nested more than {MAX_DEPTH} deep"
    for key, part in value.items() if kind is dict else enumerate(value):
        if kind is dict and type(key) is not str:
            return f" has the key {key!r}"
        if flaw := json_flaw(part, depth + 1):
            return f"[{key!r}]{flaw}"
    return ""


@lru_cache(maxsize=256)
def _cast_text(where: str, what: str, was: np.dtype[Any], due: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return (
        f"{where} is a {what} of {was}; the space says {due}, shape {shape}, and the client gets that;"
        " return it from the environment to keep every bit"
    )


@lru_cache(maxsize=64)
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _short(value: Any) -> str:
    """Return what kind of value it is, and the value when it is a number."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    number = isinstance(value, bool | float | np.generic) or (isinstance(value, int) and abs(value) < 2**70)
    return f"the {type(value).__name__} {value!s}" if number else f"a {type(value).__name__}"
