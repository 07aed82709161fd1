"""numpy arrays and scalars as bytes.

One layout for both, inside an extension of :mod:`.values`::

    1 byte    length of the dtype's name
    n bytes   the dtype's name, as in ``numpy.dtype.str``: ``<f4``, ``|u1``, ``>i2``, ``<M8[ns]``, ``<U5``
    1 byte    number of axes (0 for scalars and 0-d arrays)
    8 bytes   each axis: its length, little-endian
    the rest  the items in C order, in the byte order that the dtype's name gives

These dtypes travel: bool, integers of 8 to 64 bits, floats of 16 to 64 bits, complex64 and complex128,
datetime64 and timedelta64 with any unit, fixed-width ``S`` and ``U``. No other name is ever resolved.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "check_items",
    "dtype_name",
    "dump_array",
    "dump_scalar",
    "load_array",
    "load_scalar",
    "parse_dtype",
]

_NAME = re.compile(
    r"\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]c(?:8|16)"
    r"|[<>][mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
    r"|\|S[0-9]{1,9}|[<>]U[0-9]{1,9}"
)
_LAST_CODE_POINT = 0x10FFFF


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str | None:
    """Return the wire name of ``dtype``, or ``None`` when it does not travel."""
    name = dtype.str
    return name if _NAME.fullmatch(name) else None


@lru_cache(maxsize=256)
def parse_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype called ``name``.

    Raises:
        ValueError: ``name`` is not one of those that travel.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a dtype that travels")
    try:
        return np.dtype(name)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f"{name!r} is not a dtype: {exc}") from exc


@lru_cache(maxsize=1024)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    name = dtype_name(dtype)
    if name is None:
        raise ValueError(f"dtype {dtype} has no form on the wire")
    dims = b"".join(dim.to_bytes(8, "little") for dim in shape)
    return bytes((len(name),)) + name.encode() + bytes((len(shape),)) + dims


def dump_array(array: np.ndarray[Any, Any]) -> bytes:
    """Return ``array`` as bytes; its memory order is not kept.

    Raises:
        ValueError: Its dtype does not travel, or its items take no bytes.
    """
    if array.size and not array.itemsize:
        raise ValueError(f"items of dtype {array.dtype} take no bytes")
    return b"".join((_header(array.dtype, array.shape), array.tobytes()))


def dump_scalar(value: np.generic) -> bytes:
    """Return a numpy scalar as bytes.

    Raises:
        ValueError: Its dtype does not travel.
    """
    if isinstance(value, np.str_):  # numpy's own bytes lose trailing NULs
        data = value.encode("utf-32-le", "surrogatepass")
        return _header(np.dtype(f"<U{len(value)}"), ()) + data
    if isinstance(value, np.bytes_):
        return _header(np.dtype(f"|S{len(value)}"), ()) + bytes(value)
    return _header(value.dtype, ()) + value.tobytes()


@lru_cache(maxsize=1024)
def _parse_header(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape and the number of bytes that the items take."""
    dims_start = 2 + header[0]
    dtype = parse_dtype(header[1 : dims_start - 1].decode("ascii"))
    dims = range(dims_start, len(header), 8)
    shape = tuple(int.from_bytes(header[at : at + 8], "little") for at in dims)
    return dtype, shape, math.prod(shape) * dtype.itemsize


def _split(data: memoryview) -> tuple[np.dtype[Any], tuple[int, ...], memoryview]:
    """Return dtype, shape and items of ``data``; the items are exactly as many as the shape says."""
    end = 2 + data[0] + 8 * data[1 + data[0]]
    if end > len(data):
        raise ValueError("an array ends within its header")
    dtype, shape, size = _parse_header(bytes(data[:end]))
    items = data[end:]
    if size != len(items):
        raise ValueError(f"{dtype} items of shape {shape} do not fit {len(items)} bytes")
    return dtype, shape, items


def load_array(data: memoryview) -> np.ndarray[Any, Any]:
    """Return the array in ``data``: writable, with memory of its own.

    Raises:
        ValueError: ``data`` is not what :func:`dump_array` makes.
        IndexError: ``data`` is empty or ends early.
    """
    dtype, shape, items = _split(data)
    if not items:
        if math.prod(shape):
            raise ValueError(f"items of dtype {dtype} take no bytes")
        return np.empty(shape, dtype)
    array = np.frombuffer(items, dtype)
    if dtype.kind in "bU":
        check_items(array)
    return (array if len(shape) == 1 else array.reshape(shape)).copy()


def load_scalar(data: memoryview) -> np.generic:
    """Return the numpy scalar in ``data``.

    Raises:
        ValueError: ``data`` is not what :func:`dump_scalar` makes.
        IndexError: ``data`` is empty or ends early.
    """
    dtype, shape, items = _split(data)
    if shape:
        raise ValueError("a scalar has no axes")
    if dtype.kind == "U":
        order = "be" if dtype.byteorder == ">" else "le"
        return np.str_(str(items, f"utf-32-{order}", "surrogatepass"))
    if dtype.kind == "S":
        return np.bytes_(items)
    array = np.frombuffer(items, dtype)
    if dtype.kind == "b":
        check_items(array)
    scalar: np.generic = array[0]
    return scalar


def check_items(array: np.ndarray[Any, Any]) -> None:
    """Check bytes that came from a peer and that numpy would take without a look.

    Raises:
        ValueError: A bool is neither 0 nor 1, or a character is beyond Unicode.
    """
    kind = array.dtype.kind
    if kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError("a bool is neither 0 nor 1")
    if kind == "U" and array.size:
        codes = array.view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > _LAST_CODE_POINT:
            raise ValueError("a character is beyond Unicode")
