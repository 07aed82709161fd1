"""Columns of arrays, integers, text and JSON: exact forms, policies, limits."""

from __future__ import annotations

import enum
import inspect
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import InvalidActionError, RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.leaves import json_flaw
from openenv_gym.spaces import Json, Unicode
from tests.support.compare import same

from .strategies import over_wire

F32 = spaces.Box(-1, 1, (2,), np.float32)
U8 = spaces.Box(0, 255, (2,), np.uint8)
SCALAR = spaces.Box(-1, 1, (), np.float32)
D5 = spaces.Discrete(5)


class Move(enum.IntEnum):
    UP = 1


def _kind(value: Any) -> str:
    return type(value).__name__


def _arrives(space: Any, value: Any, actions: bool = False) -> tuple[Any, list[str]]:
    warned: list[str] = []
    column = column_codec(space, actions=actions)
    wire = over_wire(column.encode_one(value, "x", warned.append))
    return column.decode_one(wire), warned


@pytest.mark.parametrize(
    ("space", "values", "wire"),
    [
        (F32, [np.array([1, -2], "f4")], bytes.fromhex("0000803f000000c0")),
        (spaces.Box(0, 1, (1,), ">f4"), [np.array([1], ">f4")], bytes.fromhex("3f800000")),
        (SCALAR, [np.array(1, "f4")], bytes.fromhex("0000803f")),
        (SCALAR, [np.float32(1)], [bytes.fromhex("0000803f")]),
        (spaces.Box(0, 1, (0,)), [np.zeros(0, "f4")] * 3, bytes(3)),
        (D5, [np.int64(1), np.int64(2)], b"\x01" + bytes(7) + b"\x02" + bytes(7)),
        (D5, [1], [b"\x01" + bytes(7)]),
        (spaces.Discrete(5, start=-3), [np.int64(-3)], b"\xfd" + b"\xff" * 7),
        (spaces.MultiBinary(3), [np.array([1, 0, 1], "i1")], b"\x01\x00\x01"),
        (spaces.Text(3), ["ab"], ["ab"]),
        (Unicode(3), ["\ud800", ""], ["\ud800", ""]),
        (Json(), [{"a": [None]}, 2], [{"a": [None]}, 2]),
        (F32, [np.zeros(2, "f2")], {"values": [np.zeros(2, "f2")]}),
    ],
)
def test_columns_are_pinned(space: Any, values: list[Any], wire: Any) -> None:
    column = column_codec(space)
    assert same(over_wire(column.encode(values)), wire)
    assert same(column.decode(wire, len(values)), values)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (F32, np.array([np.nan, -np.inf], "f4")),
        (F32, np.array([-0.0, 7.0], "f4")),
        (F32, np.zeros(2, "f2")),
        (F32, np.zeros(2, np.uint8)),
        (F32, np.asfortranarray(np.ones((2, 2), "f4"))[:, 0]),
        (SCALAR, np.float32(0.5)),
        (SCALAR, np.float16(0.5)),
        (SCALAR, 0.5),
        (SCALAR, 1),
        (spaces.Box(0, 9, (), np.int8), True),
        (U8, np.zeros(2, bool)),
        (spaces.MultiBinary(2), np.array([True, False])),
        (spaces.MultiBinary(2), np.array([1, 0])),
        (spaces.MultiDiscrete([300, 3]), np.zeros(2, np.uint8)),
        (D5, np.int8(3)),
        (D5, True),
        (D5, np.array(3)),
        (D5, np.int64(77)),
        (D5, -77),
        (spaces.Text(3), "too long and ühm"),
        (spaces.Text(3), np.str_("ab")),
        (Json(), [1.5, {"a": None, "b": [True, "é\ud800"]}]),
    ],
    ids=_kind,
)
def test_observations_the_space_has_arrive_as_they_are(space: Any, value: Any) -> None:
    arrived, warned = _arrives(space, value)
    assert same(arrived, np.ascontiguousarray(value) if type(value) is np.ndarray and value.ndim else value)
    assert warned == []


@pytest.mark.parametrize(
    ("space", "value", "arrives"),
    [
        (F32, np.array([0.1, 0.2]), np.array([0.1, 0.2], "f4")),
        (F32, np.array([1, 2]), np.array([1, 2], "f4")),
        (F32, [0.1, 1], np.array([0.1, 1], "f4")),
        (F32, (np.float64(0.1), 0), np.array([0.1, 0], "f4")),
        (F32, np.array([np.inf, np.nan]), np.array([np.inf, np.nan], "f4")),
        (SCALAR, np.float64(0.1), np.array(0.1, "f4")),
        (U8, np.array([1, 255]), np.array([1, 255], "u1")),
        (U8, [1, 255], np.array([1, 255], "u1")),
        (spaces.MultiBinary(2), [1, 0], np.array([1, 0], "i1")),
        (spaces.MultiDiscrete([3, 3], dtype=np.int32), np.array([1, 2]), np.array([1, 2], "i4")),
        (D5, np.uint64(3), np.int64(3)),
    ],
    ids=_kind,
)
def test_lossy_observations_are_cast_with_a_warning(space: Any, value: Any, arrives: Any) -> None:
    arrived, warned = _arrives(space, value)
    assert same(arrived, arrives)
    assert len(warned) == 1
    assert str(np.asarray(value).dtype) in warned[0]
    assert str(space.dtype) in warned[0]
    with pytest.raises(ValueNotCarriedError, match="was due"):
        column_codec(space).encode_one(value, "x")


@pytest.mark.parametrize(
    ("space", "value", "why"),
    [
        (F32, np.zeros(3, "f4"), r"float32 of shape \(3,\); float32 of shape \(2,\) was due"),
        (F32, np.zeros((2, 1), "f4"), "shape"),
        (F32, [1.0], "shape"),
        (F32, [[1], [2, 3]], "not an array"),
        (F32, np.zeros(2, complex), "complex128"),
        (F32, np.array([None, 1]), "object"),
        (F32, np.array(["a", "b"]), "<U1"),
        (F32, np.array([1e300, 0]), "too large"),
        (F32, np.ma.zeros(2), "MaskedArray"),
        (F32, None, "NoneType"),
        (F32, {"a": 1}, "dict"),
        (F32, 2**70, "object"),
        (U8, np.array([0.0, 1.0]), "float64 of shape"),
        (U8, np.array([1, 256]), "uint8 was due"),
        (U8, [-1, 0], "uint8 was due"),
        (spaces.Box(0, 9, (), np.int8), 2.0, "int8 was due"),
        (spaces.Box(0, 9, (), np.uint8), 300, "uint8 was due"),
        (spaces.Box(0, 1, (2,), bool), np.zeros(2, np.uint8), "bool was due"),
        (D5, 1.0, "float 1.0"),
        (D5, np.float32(1), "float32 1.0"),
        (D5, np.bool_(True), "bool"),
        (D5, [1], "a list"),
        (D5, np.array([1]), r"shape \(1,\)"),
        (D5, 2**70, "fits int64"),
        (D5, 10**5000, "a int"),
        (spaces.Text(3), b"ab", "bytes; a str was due"),
        (Unicode(3), None, "NoneType"),
        (Json(), {"a": (1,)}, r"x\['a'\] is a tuple"),
        (Json(), {1: 2}, "key 1"),
        (Json(), [np.float64(1)], r"x\[0\] is a float64"),
    ],
    ids=_kind,
)
def test_other_observations_are_refused(space: Any, value: Any, why: str) -> None:
    with pytest.raises(ValueNotCarriedError, match=why) as caught:
        column_codec(space).encode_one(value, "x", lambda text: None)
    assert caught.value.details["path"] == "x"


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (F32, np.array([5.0, -9.0])),
        (F32, [0.5, 1]),
        (F32, (np.float32(1), 2)),
        (F32, np.array([1e300, np.nan])),
        (SCALAR, 0.25),
        (U8, np.array([0, 255])),
        (U8, np.array([1.0, 2.0])),
        (U8, [True, 2]),
        (spaces.Box(-128, 127, (1,), np.int8), [5]),
        (spaces.Box(0, 2**64 - 1, (1,), np.uint64), np.array([2**63 + 1], np.uint64)),
        (spaces.MultiDiscrete([3, 3]), [1, 2]),
        (spaces.MultiBinary(2), [0, 1]),
        (D5, np.int8(3)),
        (D5, True),
        (D5, np.array(4)),
        (spaces.Text(3), "not in the charset: ü"),
        (Json(), {"a": 1}),
    ],
    ids=_kind,
)
def test_actions_travel_as_they_are(space: Any, value: Any) -> None:
    assert same(_arrives(space, value, actions=True)[0], value)


def test_tensors_travel_as_their_arrays() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.ones(2, np.float32)

    assert same(_arrives(F32, Tensor(), actions=True)[0], np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (F32, np.zeros(3, "f4")),
        (F32, 0.5),
        (F32, [2**70, 0]),
        (F32, "ab"),
        (F32, [[1], [2, 3]]),
        (F32, np.array([None, 1])),
        (F32, np.zeros(2, complex)),
        (F32, np.ma.zeros(2)),
        (U8, np.array([300, 0])),
        (U8, [-1, 0]),
        (U8, [1.7, 0]),
        (U8, [np.nan, 0]),
        (U8, [np.inf, 0]),
        (spaces.Box(0, 1, (1,), bool), [2]),
        (spaces.MultiDiscrete([3, 3], dtype=np.int8), [1, 1000]),
        (D5, 1.7),
        (D5, [1]),
        (D5, None),
        (spaces.Text(3), 5),
        (Unicode(3), b"a"),
        (Json(), {"a": {1, 2}}),
    ],
    ids=_kind,
)
def test_actions_that_no_cast_could_save_are_refused(space: Any, value: Any) -> None:
    with pytest.raises(InvalidActionError, match="^act") as caught:
        column_codec(space, actions=True).encode_one(value, "act")
    assert caught.value.details["path"] == "act"
    assert isinstance(caught.value, ValueError)


_DISCRETES = [D5, spaces.Discrete(10, start=-3), spaces.Discrete(2**62, start=2**62)]
HAS_DTYPE = "dtype" in inspect.signature(spaces.Discrete).parameters
if HAS_DTYPE:
    _DISCRETES += [
        spaces.Discrete(10, dtype=np.uint8),
        spaces.Discrete(120, start=100, dtype=np.int8),
        spaces.Discrete(2**64 - 1, dtype=np.uint64),
        spaces.Discrete(5, start=-3, dtype=np.int32),
    ]
_NUMBERS = st.one_of(
    st.integers(-12, 12),
    st.integers(-(2**70), 2**70),
    st.sampled_from([300, -1, 2**70, True, False, Move.UP, 2**63, 2**64 - 1, -(2**63)]),
)
_CANDIDATES = st.one_of(
    _NUMBERS,
    st.integers(-128, 127).map(np.int8),
    st.integers(0, 255).map(np.uint8),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-9, 9).map(np.array),
    st.sampled_from(
        [[5], (5,), 5.0, np.float64(5), np.bool_(True), "5", b"5", None, np.array([5]), np.array(5.0)]
    ),
)


if HAS_DTYPE:  # the rules are those of Gymnasium 1.4, which has it

    @pytest.mark.parametrize("space", _DISCRETES, ids=str)
    @given(value=_CANDIDATES)
    def test_discrete_actions_are_those_that_gymnasium_contains(space: Any, value: Any) -> None:
        column = column_codec(space, actions=True)
        if not space.contains(value):
            with pytest.raises(InvalidActionError):
                column.encode_one(value, "action")
            return
        arrives = value.value if isinstance(value, enum.Enum) else value
        assert same(column.decode_one(over_wire(column.encode_one(value, "action"))), arrives)


@pytest.mark.parametrize("dtype", ["u1", "<f2", "<f4", ">f8", "?"])
def test_a_view_of_a_batch_is_its_column(dtype: str) -> None:
    column = column_codec(spaces.Box(0, 1, (2, 3), np.dtype(dtype).type))
    batch = np.ones((4, 2, 3), column.dtype)
    view = column.view_batch(batch, 4)
    assert view is not None and bytes(view) == column.encode_batch(batch, 4)
    batch[:] = 0
    assert bytes(view) == bytes(batch.nbytes)


@pytest.mark.parametrize(
    ("space", "batch"),
    [
        (spaces.Box(0, 1, (2, 2)), np.ones((4, 2, 2), np.float32).transpose(0, 2, 1)),
        (spaces.Box(0, 1, (2, 2)), np.ones((3, 2, 2), np.float32)),
        (spaces.Box(0, 1, (2, 2)), np.ones((4, 2, 2))),
        (spaces.Box(0, 1, (2, 2)), [[[1.0, 1.0]] * 2] * 4),
        (spaces.Box(0, 1, (0,)), np.ones((4, 0), np.float32)),
        (D5, np.ones(4, np.int64)),
        (spaces.Text(3), ("a",) * 4),
    ],
    ids=str,
)
def test_no_view_of_a_batch_that_is_not_its_column(space: Any, batch: Any) -> None:
    assert column_codec(space).view_batch(batch, 4) is None


def test_a_discrete_batch_outside_is_refused_by_lane() -> None:
    with pytest.raises(InvalidActionError, match="lane 2: action is the int64 9"):
        column_codec(D5, actions=True).encode_batch(np.array([0, 1, 9]), 3, "action")


@pytest.mark.parametrize(
    ("space", "wire"),
    [
        (F32, bytes(7)),
        (F32, bytearray(8)),
        (F32, "x"),
        (F32, None),
        (F32, [bytes(8)]),
        (F32, {"values": [np.zeros(3, "f4")]}),
        (F32, {"values": [None]}),
        (F32, {"values": []}),
        (F32, {"values": [np.zeros(2, "f2")], "more": 1}),
        (F32, {}),
        (spaces.Box(0, 1, (2,), bool), b"\x00\x02"),
        (spaces.Box(0, 1, (0,)), b""),
        (SCALAR, [bytes(3)]),
        (D5, bytes(7)),
        (D5, [bytes(9)]),
        (D5, []),
        (D5, [5]),
        (D5, {"values": [1.5]}),
        (spaces.Text(3), ["a", "b"]),
        (spaces.Text(3), [b"a"]),
        (spaces.Text(3), "a"),
        (Json(), [(1,)]),
        (Json(), 5),
    ],
    ids=_kind,
)
def test_malformed_columns_are_refused(space: Any, wire: Any) -> None:
    for actions in (False, True):
        with pytest.raises(RemoteProtocolError, match="do not fit"):
            column_codec(space, actions=actions).decode_one(wire)


def test_a_peer_may_not_send_what_would_be_cast() -> None:
    wire = {"values": [np.zeros(2)]}
    assert same(column_codec(F32, actions=True).decode_one(wire), np.zeros(2))
    with pytest.raises(RemoteProtocolError, match="float32 was due"):
        column_codec(F32).decode_one(wire)


def test_lengths_are_compared_before_memory_is_taken() -> None:
    big = column_codec(spaces.Box(0, 1, (1000, 1000)))
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError):
        big.decode(bytes(16), 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_json_values_have_a_deepest_level() -> None:
    value: Any = 1
    for _ in range(70):
        value = [value]
    assert "nested" in json_flaw(value)
    assert json_flaw(value[0][0][0][0][0][0]) == ""


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "|u1", "|b1", "<i8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_arrays_travel_in_c_order_however_they_lie_in_memory(dtype: str, shape: tuple[int, ...]) -> None:
    plain = (np.arange(6, dtype=np.float32) % 2).astype(dtype)[: math.prod(shape)].reshape(shape)
    wide = np.repeat(plain[..., np.newaxis], 2, -1)
    frozen = plain.copy()
    frozen.flags.writeable = False
    column = column_codec(spaces.Box(0, 1, shape, np.dtype(dtype)))
    lanes = [plain, frozen, plain.copy("F"), wide[..., 0]]
    for some in (lanes, lanes[2:3], lanes[3:]):
        assert column.encode(some) == b"".join(lane.tobytes() for lane in some)
