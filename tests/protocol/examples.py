"""Examples of bytes with what they stand for: those of docs/protocol.md and the golden frames.

An example is a few labelled lines; a line that is indented continues the one before::

    space: Discrete(3)
    lanes: [int64(2)]
    wire:  h'0200000000000000'
    bytes: c408 0200000000000000

``wire`` is a notation for MessagePack, much like JSON: ``h'00ff'`` is bin, ``ext(5, h'00')`` an extension and
``ext(1, [2])`` one whose data are the MessagePack of what stands there; ``2`` is an integer, ``2.0`` a float.
The other lines are Python, with the names of Gymnasium's spaces, numpy and the standard library at hand.
"""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nan
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from gymnasium import spaces

from openenv_gym.protocol.codec import decode_reply, decode_request, encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import LaneFailure, Request
from openenv_gym.protocol.specs import from_spec, to_spec
from openenv_gym.protocol.values import Opaque, pack, unpack_ext
from openenv_gym.spaces import Json, Unicode
from tests.support import handspaces, handwritten
from tests.support.compare import same

__all__ = ["KINDS", "Example", "examples", "python", "tree_of"]

KINDS = ("message", "space", "column", "value")
_FENCE = re.compile(r"^```(message|space|column|value)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BIN = re.compile(r"h'([0-9a-f\s]*)'")
_REQUESTS = frozenset(cls.__struct_config__.tag for cls in Request.__args__)
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(ext_hook=unpack_ext).decode

_NUMPY = (
    "array",
    "zeros",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
)
_NUMPY += ("uint32", "uint64", "bool_", "datetime64", "timedelta64", "complex64", "str_", "bytes_")
_NAMES: dict[str, Any] = {
    **{name: getattr(np, name) for name in _NUMPY},
    **{name: getattr(spaces, name) for name in spaces.__all__},
    **{item.__name__: item for item in (Unicode, Json, Opaque, Decimal, UUID, OrderedDict)},
    **{item.__name__: item for item in (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone)},
    "GraphInstance": spaces.GraphInstance,
    "dtype": np.dtype,
    "UTC": dt.UTC,
    "inf": inf,
    "nan": nan,
}


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a value of type .* arrived as openenv_gym's Opaque")
        yield


@dataclass(frozen=True)
class Example:
    """One example.

    Attributes:
        name: What errors call it.
        kind: One of :data:`KINDS`.
        lines: Its lines by their labels.
    """

    name: str
    kind: str
    lines: dict[str, str]

    @property
    def bytes(self) -> bytes:
        return bytes.fromhex(self.lines["bytes"])

    @property
    def tree(self) -> Any:
        return handwritten.read(self.bytes)

    def check(self) -> None:
        """Fail unless bytes, wire notation and Python agree, as both implementations see it."""
        data = self.bytes
        assert handwritten.write(self.tree).hex() == data.hex(), self.name
        if "wire" in self.lines:
            assert repr(self.tree) == repr(tree_of(self.lines["wire"])), self.name
        _CHECKS[self.kind](self, data)


def _check_message(example: Example, data: bytes) -> None:
    tag = handwritten.read(data)["type"]
    with _quiet():
        message = (decode_request if tag in _REQUESTS else decode_reply)(data)
    packed = msgspec.structs.replace(message, **_packed(message, handwritten.read(data)))
    assert handwritten.shortest(encode(packed)).hex() == data.hex(), example.name


def _packed(message: Any, tree: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``message`` that were unpacked on the way in, packed again."""
    fields = {}
    for name, kind in type(message).__annotations__.items():
        if name in tree and "Any" in kind:
            fields[name] = _as_ext(tree[name])
        elif name == "failed" and name in tree:
            fields[name] = [LaneFailure(**_as_ext(part)) for part in tree[name]]
    return fields


def _as_ext(tree: Any) -> Any:
    """Return a hand-written tree as msgspec writes it."""
    if isinstance(tree, handwritten.Ext):
        return msgspec.msgpack.Ext(*tree)
    if isinstance(tree, list):
        return list(map(_as_ext, tree))
    return {key: _as_ext(item) for key, item in tree.items()} if isinstance(tree, dict) else tree


def _check_space(example: Example, data: bytes) -> None:
    space = python(example.lines["space"])
    assert _ENCODE(to_spec(space)).hex() == data.hex(), example.name
    assert handwritten.write(handspaces.spec_of(space)).hex() == data.hex(), example.name
    assert from_spec(_DECODE(data)) == space, example.name


def _check_column(example: Example, data: bytes) -> None:
    space, lanes = python(example.lines["space"]), python(example.lines["lanes"])
    codec = column_codec(space, actions="actions" in example.lines)
    assert _ENCODE(codec.encode(lanes)).hex() == data.hex(), example.name
    assert same(codec.decode(_DECODE(data), len(lanes)), lanes), example.name
    spec = handspaces.spec_of(space)
    assert handwritten.write(handspaces.write_column(spec, lanes)).hex() == data.hex(), example.name


def _check_value(example: Example, data: bytes) -> None:
    value = python(example.lines["value"])
    assert _ENCODE(pack(value, opaque=True)).hex() == data.hex(), example.name
    arrives = python(example.lines.get("arrives", example.lines["value"]))
    with _quiet():
        assert same(_DECODE(data), arrives), example.name


_CHECKS = {"message": _check_message, "space": _check_space, "column": _check_column, "value": _check_value}


def examples(text: str) -> list[Example]:
    """Return the examples in the fenced blocks of a document, in order."""
    found = []
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 2
        for chunk in re.split(r"\n\n+", fence[2].rstrip("\n")):
            found.append(Example(f"line {line}", fence[1], dict(_labelled(chunk))))
            line += chunk.count("\n") + 2
    return found


def _labelled(chunk: str) -> Iterator[tuple[str, str]]:
    for entry in re.split(r"\n(?! )", chunk):
        label, _, text = entry.partition(":")
        yield label, " ".join(part.strip() for part in text.splitlines())


def tree_of(notation: str) -> Any:
    """Return the tree that the notation stands for."""
    source = _BIN.sub(lambda found: f"_bin('{found[1]}')", notation)
    names = {"null": None, "true": True, "false": False, "inf": inf, "nan": nan}
    return eval(source, {"__builtins__": {}}, {**names, "_bin": bytes.fromhex, "ext": _ext})


def _ext(code: int, data: Any) -> handwritten.Ext:
    return handwritten.Ext(code, data if isinstance(data, bytes) else handwritten.write(data))


def python(source: str) -> Any:
    """Return the value of an expression."""
    return eval(source, dict(_NAMES))
