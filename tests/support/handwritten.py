"""A second implementation of openenv.msgpack.v1, written from docs/protocol.md alone.

It shares no code with the package: its own MessagePack, its own tables. Both must write the same bytes.
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from gymnasium.spaces import GraphInstance

__all__ = ["MESSAGES", "Ext", "Opaque", "from_tree", "message", "read", "shortest", "to_tree", "write"]


class Ext(NamedTuple):
    """A MessagePack extension, its data undone."""

    code: int
    data: bytes


class Opaque(NamedTuple):
    """What stands for a value that did not travel."""

    type_name: str
    repr: str


# -- MessagePack


def write(tree: Any) -> bytes:
    """Return the MessagePack of ``tree``, everything in its shortest form."""
    match tree:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if tree else b"\xc2"
        case int():
            return _integer(tree)
        case float():
            return b"\xcb" + struct.pack(">d", tree)
        case str():
            data = tree.encode()
            return _head(len(data), 0xA0, 31, 0xD9) + data
        case bytes():
            return _head(len(tree), 0, -1, 0xC4) + tree
        case Ext():
            return _extension(tree)
        case list():
            return _head(len(tree), 0x90, 15, 0xDB) + b"".join(map(write, tree))
        case dict():
            items = (write(key) + write(item) for key, item in tree.items())
            return _head(len(tree), 0x80, 15, 0xDD) + b"".join(items)
    raise TypeError(type(tree).__name__)


def _integer(number: int) -> bytes:
    if -32 <= number < 128:
        return struct.pack(">b", number)
    for code, width in enumerate("BHIQ", 0xCC):
        if 0 <= number < 256 ** struct.calcsize(width):
            return bytes((code,)) + struct.pack(f">{width}", number)
    for code, width in enumerate("bhiq", 0xD0):
        if -(256 ** struct.calcsize(width)) <= 2 * number:
            return bytes((code,)) + struct.pack(f">{width}", number)
    raise OverflowError(number)


def _head(size: int, fixed: int, most: int, code: int) -> bytes:
    """Return the head of a str, bin, array or map; ``code`` is that of the form with a length of one byte."""
    if size <= most:
        return bytes((fixed | size,))
    if size < 256 and code < 0xDB:
        return bytes((code, size))
    if size < 65536:
        return struct.pack(">BH", code + 1, size)
    return struct.pack(">BI", code + 2, size)


def _extension(ext: Ext) -> bytes:
    size = len(ext.data)
    fixed = size in (1, 2, 4, 8, 16)
    head = bytes((0xD4 + size.bit_length() - 1,)) if fixed else _head(size, 0, -1, 0xC7)
    return head + struct.pack(">b", ext.code) + ext.data


def read(data: bytes) -> Any:
    """Return the tree in ``data``, which holds nothing else."""
    tree, end = _read(data, 0)
    if end != len(data):
        raise ValueError("more than one value")
    return tree


_WIDTHS = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xC7: "B", 0xC8: "H", 0xC9: "I", 0xCA: "f", 0xCB: "d"}
_WIDTHS |= {0xCC + at: width for at, width in enumerate("BHIQbhiq")}
_WIDTHS |= {0xD9: "B", 0xDA: "H", 0xDB: "I", 0xDC: "H", 0xDD: "I", 0xDE: "H", 0xDF: "I"}


def _read(data: bytes, at: int) -> tuple[Any, int]:
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code < 0xC0:
        kind = "map" if code < 0x90 else "array" if code < 0xA0 else "str"
        return _sized(data, at, kind, code & (31 if kind == "str" else 15))
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    if 0xD4 <= code <= 0xD8:
        return _sized(data, at, "ext", 1 << code - 0xD4)
    width = f">{_WIDTHS[code]}"
    (number,) = struct.unpack_from(width, data, at)
    at += struct.calcsize(width)
    if 0xCA <= code <= 0xD3:
        return number, at
    kinds = {0xC4: "bin", 0xC7: "ext", 0xD9: "str", 0xDC: "array", 0xDE: "map"}
    return _sized(data, at, kinds[max(start for start in kinds if start <= code)], number)


def _sized(data: bytes, at: int, kind: str, size: int) -> tuple[Any, int]:
    if kind == "array":
        items = []
        for _ in range(size):
            item, at = _read(data, at)
            items.append(item)
        return items, at
    if kind == "map":
        items, at = _sized(data, at, "array", 2 * size)
        return dict(zip(items[::2], items[1::2], strict=True)), at
    start = at + (kind == "ext")
    body = data[start : start + size]
    if len(body) != size:
        raise ValueError("cut off")
    if kind == "ext":
        return Ext(struct.unpack_from(">b", data, at)[0], body), start + size
    return body.decode() if kind == "str" else body, start + size


def shortest(data: bytes) -> bytes:
    """Return a message whose head may be longer than need be as :func:`write` writes it."""
    size = int.from_bytes(data[1:3], "big")
    return _head(size, 0x80, 15, 0xDD) + data[3:] if data[0] == 0xDE else data


# -- messages

_NEEDED = object()
_FAILED = {"failed": [], "batch_info": None}
#: Every message: its fields in order, with their defaults.
MESSAGES: dict[str, dict[str, Any]] = {
    "hello": {
        "session": _NEEDED,
        "token": _NEEDED,
        "version": 1,
        "capabilities": [],
        "lanes": 1,
        "autoreset": "disabled",
        "env_kwargs": None,
        "render_mode": None,
        "expect": None,
        "time_limit": True,
        "slot_timeout": 0.0,
        "native": False,
        "limits": {},
        "client": "",
        "group": "",
        "face": "",
    },
    "resume": {"session": _NEEDED, "token": _NEEDED, "version": 1},
    "reset": {"id": _NEEDED, "seeds": None, "options": None, "mask": None},
    "step": {"id": _NEEDED, "actions": _NEEDED, "lanes": None, "wait": None, "patience": None},
    "render": {"id": _NEEDED},
    "get": {"id": _NEEDED, "name": _NEEDED},
    "set": {"id": _NEEDED, "name": _NEEDED, "values": _NEEDED, "lanes": None},
    "call": {"id": _NEEDED, "name": _NEEDED, "args": [], "kwargs": {}, "lanes": None},
    "state": {"id": _NEEDED},
    "ask": {"id": _NEEDED, "topic": _NEEDED, "arguments": {}},
    "close": {"id": _NEEDED},
    "welcome": {
        "session": _NEEDED,
        "token": _NEEDED,
        "version": 1,
        "capabilities": [],
        "target": "",
        "lanes": 1,
        "observation_space": None,
        "action_space": None,
        "metadata": None,
        "render_mode": None,
        "spec": None,
        "schemas": None,
        "limits": {},
        "server": "",
    },
    "resumed": {"session": _NEEDED, "last": 0},
    "observation": {
        "id": _NEEDED,
        "observations": None,
        "infos": None,
        "lanes": None,
        "warnings": [],
        **_FAILED,
        "rewards": None,
        "flags": None,
    },
    "transition": {
        "id": _NEEDED,
        "observations": _NEEDED,
        "rewards": _NEEDED,
        "flags": _NEEDED,
        "infos": None,
        "lanes": None,
        "final_observations": None,
        "final_infos": None,
        "timing": None,
        "warnings": [],
        **_FAILED,
    },
    "frames": {"id": _NEEDED, "frames": _NEEDED},
    "value": {"id": _NEEDED, "values": _NEEDED, "callable": False},
    "closed": {"id": _NEEDED},
    "error": {"code": _NEEDED, "message": _NEEDED, "id": 0, "alive": False, "details": {}},
}


def message(kind: str, fields: dict[str, Any]) -> bytes:
    """Return a message; its fields are trees."""
    table = MESSAGES[kind]
    missing = [name for name, default in table.items() if default is _NEEDED and name not in fields]
    unknown = [name for name in fields if name not in table]
    if missing or unknown:
        raise ValueError(f"{kind} lacks {missing} and has no {unknown}")
    kept = {name: fields[name] for name in table if name in fields and fields[name] != table[name]}
    return write({"type": kind, **kept})


# -- self-described values


def to_tree(value: Any) -> Any:
    """Return the tree of a self-described value."""
    match value:
        case np.ndarray() if value.dtype == object:
            return _parts(16, [list(value.shape), list(map(to_tree, value.ravel().tolist()))])
        case np.ndarray():
            return Ext(14, _array_head(value.dtype.str, value.shape) + value.tobytes())
        case np.str_():
            return Ext(15, _array_head(f"<U{len(value)}", ()) + value.encode("utf-32-le", "surrogatepass"))
        case np.bytes_():
            return Ext(15, _array_head(f"|S{len(value)}", ()) + bytes(value))
        case np.generic():
            return Ext(15, _array_head(value.dtype.str, ()) + value.tobytes())
        case None | bool() | float() | bytes():
            return value
        case int():
            size = value.bit_length() // 8 + 1
            fits = -(2**63) <= value < 2**64
            return value if fits else Ext(5, value.to_bytes(size, "little", signed=True))
        case str():
            return value if _is_plain(value) else Ext(6, value.encode("utf-8", "surrogatepass"))
        case GraphInstance():
            return _parts(18, list(map(to_tree, value)))
        case Opaque():
            return _parts(17, list(value))
        case list():
            return list(map(to_tree, value))
        case dict() if all(type(key) is str and _is_plain(key) for key in value):
            return {key: to_tree(item) for key, item in value.items()}
        case dict():
            return _parts(4, [to_tree(part) for pair in value.items() for part in pair])
        case tuple() | set() | frozenset():
            code = {tuple: 1, set: 2, frozenset: 3}[type(value)]
            return _parts(code, list(map(to_tree, value)))
    return _scalar_tree(value)


def _scalar_tree(value: Any) -> Ext:
    match value:
        case complex():
            return Ext(7, struct.pack("<dd", value.real, value.imag))
        case Decimal():
            return Ext(8, str(value).encode("ascii"))
        case UUID():
            return Ext(9, value.bytes)
        case dt.datetime():
            return _parts(10, [value.year, value.month, value.day, *_clock(value)])
        case dt.date():
            return _parts(11, [value.year, value.month, value.day])
        case dt.time():
            return _parts(12, _clock(value))
        case dt.timedelta():
            return _parts(13, [value.days, value.seconds, value.microseconds])
    raise TypeError(type(value).__name__)


def _parts(code: int, parts: list[Any]) -> Ext:
    return Ext(code, write(parts))


def _is_plain(text: str) -> bool:
    return not any(0xD800 <= ord(char) < 0xE000 for char in text)


def _clock(value: dt.datetime | dt.time) -> list[Any]:
    offset = value.utcoffset()
    east = None if offset is None else offset // dt.timedelta(microseconds=1)
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, east]


def _array_head(name: str, shape: tuple[int, ...]) -> bytes:
    dims = struct.pack(f"<{len(shape)}Q", *shape)
    return bytes((len(name),)) + name.encode("ascii") + bytes((len(shape),)) + dims


def from_tree(tree: Any) -> Any:
    """Return the self-described value of a tree."""
    match tree:
        case Ext(code, data) if code in (5, 6, 7, 8, 9, 14, 15):
            return _from_data(code, data)
        case Ext(code, data):
            return _from_parts(code, read(data))
        case list():
            return list(map(from_tree, tree))
        case dict():
            return {key: from_tree(item) for key, item in tree.items()}
    return tree


def _from_data(code: int, data: bytes) -> Any:
    match code:
        case 5:
            return int.from_bytes(data, "little", signed=True)
        case 6:
            return data.decode("utf-8", "surrogatepass")
        case 7:
            # The constructor, so that the signs of zeros and NaN stay what they are.
            return complex(*struct.unpack("<dd", data))
        case 8:
            return Decimal(data.decode("ascii"))
        case 9:
            return UUID(bytes=data)
    name, shape, items = _split(data)
    if code == 15 and name[1] == "U":
        return np.str_(items.decode("utf-32-le" if name[0] == "<" else "utf-32-be", "surrogatepass"))
    if code == 15 and name[1] == "S":
        return np.bytes_(items)
    array = np.frombuffer(items, name).reshape(shape) if items else np.empty(shape, name)
    return array[()] if code == 15 else array


def _split(data: bytes) -> tuple[str, tuple[int, ...], bytes]:
    length = data[0]
    axes = data[1 + length]
    start = 2 + length
    end = start + 8 * axes
    return data[1 : 1 + length].decode("ascii"), struct.unpack(f"<{axes}Q", data[start:end]), data[end:]


def _from_parts(code: int, parts: list[Any]) -> Any:
    if code in (10, 12):
        *rest, fold, east = parts
        zone = None if east is None else dt.timezone(dt.timedelta(microseconds=east))
        return (dt.datetime if code == 10 else dt.time)(*rest, zone, fold=fold)
    if code == 16:
        array = np.empty(len(parts[1]), object)
        array[:] = [from_tree(item) for item in parts[1]] if len(parts[1]) else []
        return array.reshape(parts[0])
    if code == 4:
        made = [from_tree(part) for part in parts]
        return dict(zip(made[::2], made[1::2], strict=True))
    makers = {1: tuple, 2: set, 3: frozenset, 11: _spread(dt.date), 13: _spread(dt.timedelta)}
    makers |= {17: _spread(Opaque), 18: _spread(GraphInstance)}
    return makers[code]([from_tree(part) for part in parts])


def _spread(make: Any) -> Any:
    return lambda parts: make(*parts)
