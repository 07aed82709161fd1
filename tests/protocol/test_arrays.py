"""Arrays and scalars as bytes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.protocol.arrays import (
    dtype_name,
    dump_array,
    dump_scalar,
    load_array,
    load_scalar,
    parse_dtype,
)
from tests.support.compare import same

GOLDEN = bytes.fromhex("03 3c6634 02 0200000000000000 0100000000000000 0000c03f 000000c0")


def _header(name: str, *dims: int) -> bytes:
    lengths = b"".join(dim.to_bytes(8, "little") for dim in dims)
    return bytes([len(name)]) + name.encode() + bytes([len(dims)]) + lengths


def test_layout_is_the_documented_one() -> None:
    assert dump_array(np.array([[1.5], [-2.0]], np.float32)) == GOLDEN
    assert same(load_array(memoryview(GOLDEN)), np.array([[1.5], [-2.0]], np.float32))
    assert dump_scalar(np.int16(-2)) == bytes.fromhex("03 3c6932 00 feff")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4).T,
        np.asfortranarray(np.ones((2, 3), np.float16)),
        np.arange(10)[::-3],
        np.arange(3, dtype=">u2"),
        np.array(5.0),
        np.zeros((0, 7), np.complex64),
        np.array([True, False]),
        np.array(["é", "\ud800"]),
        np.array(["2020-01-01"], "M8[D]"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_arrive_as_they_are_and_own_their_memory(array: np.ndarray) -> None:
    data = dump_array(array)
    first, second = load_array(memoryview(data)), load_array(memoryview(data))
    assert same(first, np.ascontiguousarray(array).reshape(array.shape))
    assert first.flags.writeable
    assert first.flags.owndata
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("value", [np.str_("a\x00"), np.str_(""), np.bytes_(b"\x00"), np.bytes_(b"")])
def test_text_scalars_keep_trailing_nuls(value: np.generic) -> None:
    assert same(load_scalar(memoryview(dump_scalar(value))), value)


def test_every_integer_and_float_dtype_travels() -> None:
    for name in (
        "|b1",
        "|i1",
        "|u1",
        "<i2",
        ">u4",
        "<i8",
        "<f2",
        "<f4",
        ">f8",
        "<c8",
        "<c16",
        "<M8[ns]",
        "<U3",
    ):
        assert dtype_name(np.dtype(name)) == name
        assert parse_dtype(name) == np.dtype(name)


@pytest.mark.parametrize(
    "name",
    ["|O", "object", "O8", "|V8", "i4,f4", "f4", "<f16", "(2,)i4", "<U9999999999", "", "<M8[0s]", "<f4 "],
)
def test_other_dtypes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"not a dtype"):
        parse_dtype(name)


@pytest.mark.parametrize(
    "array", [np.array([None]), np.zeros(2, "i4,f4"), np.zeros(2, np.longdouble), np.zeros(2, "V3")]
)
def test_arrays_of_other_dtypes_are_not_written(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="no form on the wire"):
        dump_array(array)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x03<f4",
        b"\x03<f4\x01",
        _header("<f4", 3) + bytes(11),
        _header("<f4", 2**62) + bytes(16),
        _header("<f4", *[2**63] * 40) + bytes(16),
        _header("<f4", 0, 2**63),
        _header("<U0", 2**40),
        _header("|O", 1) + bytes(8),
        _header("|b1", 2) + b"\x00\x02",
        _header("<U1", 1) + b"\xff\xff\xff\x7f",
        _header(">U1", 1) + b"\x7f\xff\xff\xff",
    ],
)
def test_lies_take_no_memory(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises((ValueError, IndexError)):
        load_array(memoryview(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@given(st.binary(max_size=60))
def test_random_bytes_give_an_array_or_an_error(data: bytes) -> None:
    for load in (load_array, load_scalar):
        try:
            value = load(memoryview(data))
        except (ValueError, IndexError):
            continue
        assert value.nbytes <= len(data)


def test_a_scalar_has_no_axes() -> None:
    with pytest.raises(ValueError, match="no axes"):
        load_scalar(memoryview(GOLDEN))
