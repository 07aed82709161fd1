"""Extensions read from bytes that a peer chose."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from openenv_gym.protocol import extensions
from openenv_gym.protocol.extensions import MAX_DEPTH, Code, Opaque, unpack_ext
from openenv_gym.protocol.values import pack

from .strategies import over_wire, values

encode = msgspec.msgpack.encode
CODES = sorted(value for name, value in vars(Code).items() if not name.startswith("_"))


def _nested(depth: int) -> bytes:
    data = encode([])
    for _ in range(depth):
        data = encode([Ext(Code.TUPLE, data)])
    return data


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (0, b""),
        (99, b"x"),
        (Code.TUPLE, b"\x01"),
        (Code.TUPLE, b"\xdd\xff\xff\xff\xff"),
        (Code.SET, encode([[1]])),
        (Code.PAIRS, encode([1])),
        (Code.PAIRS, encode([[1], 2])),
        (Code.TEXT, b"\xff"),
        (Code.COMPLEX, bytes(15)),
        (Code.DECIMAL, b"1.x"),
        (Code.DECIMAL, b"\xff"),
        (Code.UUID, bytes(15)),
        (Code.DATETIME, encode([2020, 13, 1, 0, 0, 0, 0, 0, None])),
        (Code.DATETIME, encode([2020, 1, 1, 0, 0, 0, 0, 0, 10**18])),
        (Code.DATETIME, encode([2020, 1, 1])),
        (Code.DATE, encode([2020.5, 1, 1])),
        (Code.TIME, encode(["a", 0, 0, 0, 0, None])),
        (Code.TIMEDELTA, encode([10**15, 0, 0])),
        (Code.ARRAY, b"\x80\x04\x95"),
        (Code.SCALAR, b""),
        (Code.OBJECTS, encode([[2, 2], [1, 2, 3]])),
        (Code.OBJECTS, encode([[-1], []])),
        (Code.OBJECTS, encode([[2**63] * 1000, []])),
        (Code.OBJECTS, encode([[2**40, 0, 2**40], []])),
        (Code.OPAQUE, encode([1, "x"])),
    ],
)
def test_malformed_extensions_are_one_kind_of_error(code: int, data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(msgspec.DecodeError):
        unpack_ext(code, memoryview(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


def test_nesting_ends_where_it_is_said_to() -> None:
    value = unpack_ext(Code.TUPLE, memoryview(_nested(MAX_DEPTH - 1)))
    depth = 0
    while value:
        (value,), depth = value, depth + 1
    assert depth == MAX_DEPTH - 1
    with pytest.raises(msgspec.ValidationError, match="nested"):
        unpack_ext(Code.TUPLE, memoryview(_nested(MAX_DEPTH)))


@given(st.sampled_from(CODES), st.binary(max_size=40))
def test_random_data_gives_a_value_or_a_validation_error(code: int, data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            unpack_ext(code, memoryview(data))
        except msgspec.DecodeError:
            return


@given(values(), st.data())
def test_mutated_values_give_a_value_or_a_decode_error(value: Any, data: st.DataObject) -> None:
    frame = bytearray(encode(pack(value)))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decoder = msgspec.msgpack.Decoder(ext_hook=unpack_ext)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder.decode(frame)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return


def test_an_opaque_value_warns_once_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_WARNED", set())
    packed = Ext(Code.OPAQUE, encode(["some.Type", "<x>"]))
    with pytest.warns(UserWarning, match=r"some\.Type"):
        assert over_wire([packed]) == [Opaque("some.Type", "<x>")]
    assert over_wire([packed, packed]) == [Opaque("some.Type", "<x>")] * 2
