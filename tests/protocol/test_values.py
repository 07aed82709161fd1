"""Self-described values."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import subprocess
import sys
import types
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.protocol.values import MAX_DEPTH, Opaque, pack
from tests.support.compare import same

from .strategies import carried, over_wire, values

encode = msgspec.msgpack.encode


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Point:
    x: int
    more: Any = None


class Record(msgspec.Struct):
    y: float


class Shout(str):
    __slots__ = ()


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Moment(dt.datetime):
    """Like pandas' Timestamp: a datetime that may hold more."""


class Zone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        if when is None:
            return None
        raise RuntimeError("no")


class Tensor:
    """Looks like torch's to whoever does not import torch."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        if self.data.dtype == np.float16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.data


Tensor.__module__ = "torch"
Pair = collections.namedtuple("Pair", "a b")


@given(values())
def test_values_arrive_bit_for_bit(value: Any) -> None:
    assert same(carried(value), value)
    assert same(carried(value, opaque=True), value)


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (bytearray(b"\x00"), b"\x00"),
        (memoryview(np.arange(4, dtype=np.uint8)[::2]), b"\x00\x02"),
        (Pair(1, (2,)), (1, (2,))),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Mode.FAST, "fast"),
        ({Level.HIGH: Mode.FAST}, {3: "fast"}),
        (Point(1, [Point(2)]), {"x": 1, "more": [{"x": 2, "more": None}]}),
        (Record(0.5), {"y": 0.5}),
        (Shout("hé\ud800"), "hé\ud800"),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (types.MappingProxyType({"a": (1,)}), {"a": (1,)}),
        (np.longlong(3), np.int64(3)),
        (np.asfortranarray(np.eye(2)), np.eye(2)),
        (Tensor([1, 2]), np.array([1, 2])),
        ([Tensor(1.5)], [np.array(1.5)]),
        (
            dt.datetime(2021, 3, 28, 2, 30, fold=1, tzinfo=dt.timezone(dt.timedelta(hours=1), "X")),
            dt.datetime(2021, 3, 28, 2, 30, fold=1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_arrive_as_the_table_says(value: Any, arrives: Any) -> None:
    assert same(carried(value), arrives)


def test_nan_payloads_and_signs_survive() -> None:
    for bits in (0x7FF8000000000001, 0xFFF8DEADBEEF0000, 0x8000000000000000, 0x0000000000000001):
        number = float(np.array(bits, np.uint64).view(np.float64))
        assert np.float64(carried(number)).tobytes() == bits.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        (None, "c0"),
        (2**63, "cf8000000000000000"),
        (2**64, "c70905 000000000000000001"),
        (-(2**63) - 1, "c70905 ffffffffffffff7fff"),
        ("\ud800", "c70306 eda080"),
        ((1, "a"), "d601 9201a161"),
        ({1: 2}, "c70304 920102"),
        (frozenset([1]), "d503 9101"),
        (1j, "d807 0000000000000000 000000000000f03f"),
        (Decimal("1.10"), "d608 312e3130"),
        (UUID(int=1), "d809 00000000000000000000000000000001"),
        (dt.date(2020, 1, 2), "c7060b 93cd07e40102"),
        (dt.timedelta(1, 2, 3), "d60d 93010203"),
        (dt.time(1, 2, 3, 4, dt.UTC), "c7070c 960102030400 00"),
        (np.int8(-1), "c7060f 037c6931 00 ff"),
        (np.array([7], np.uint8), "c70e0e 037c7531 01 0100000000000000 07"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_are_pinned(value: Any, golden: str) -> None:
    assert encode(pack(value)).hex() == golden.replace(" ", "")


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _cycle() -> Any:
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"x": [1, 2, object()]}, "obs['x'][2]", "builtins.object"),
        ((1, {"k": {2: {object}}}), "obs[1]['k'][2][0]", "builtins.type"),
        (Point(1, Unprintable()), "obs['more']", "Unprintable"),
        (_cycle(), "obs['me'][0]", "contains itself"),
        (_deep(MAX_DEPTH + 1), "obs" + "[0]" * MAX_DEPTH, "nested"),
        (np.array([None]), "obs", "info only"),
        (np.zeros(1, "i4,O"), "obs", "no form"),
        (np.ma.array([1], mask=[True]), "obs", "MaskedArray"),
        (np.longdouble(1), "obs", "no form"),
        (Moment(2020, 1, 1), "obs", "Moment"),
        (dt.datetime(2020, 1, 1, tzinfo=Zone()), "obs", "time zone"),
        (dt.time(1, tzinfo=Zone()), "obs", "fixed offset"),
        (Tensor(np.float16(1)), "obs", "BFloat16"),
        ({Unprintable(): 1}, "obs[<Unprintable>]", "Unprintable"),
        ({Mode.FAST: 1, Colour.RED: 2, (1,): 3, "red": 4}, "obs", "same form"),
        (Opaque("a", "b"), "obs", "did not travel"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused_by_path(value: Any, path: str, why: str) -> None:
    with pytest.raises(ValueNotCarriedError, match=why) as caught:
        pack(value, "obs")
    assert caught.value.details["path"] == path
    assert str(caught.value).startswith(path)


def test_the_deepest_value_that_may_travels() -> None:
    assert carried(_deep(MAX_DEPTH)) == _deep(MAX_DEPTH)


@pytest.mark.filterwarnings("ignore:a value of type")
@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        ({"a": [1, object]}, {"a": [1, Opaque("builtins.type", "<class 'object'>")]}),
        ({"a": Unprintable()}, {"a": Opaque(f"{__name__}.Unprintable", "<repr raised RuntimeError>")}),
        (_cycle(), {"me": [Opaque("builtins.dict", "<contains itself>")]}),
        ([Opaque("x.Y", "z")], [Opaque("x.Y", "z")]),
        (np.array([[1, "a"], [(2,), None]], object), np.array([[1, "a"], [(2,), None]], object)),
    ],
)
def test_info_carries_what_has_no_form_as_opaque(value: Any, arrives: Any) -> None:
    assert same(carried(value, opaque=True), arrives)


@pytest.mark.filterwarnings("ignore:a value of type")
def test_the_text_of_an_opaque_value_is_short_and_clean() -> None:
    long = types.SimpleNamespace(x="\ud800" + "y" * 1000)
    arrived = carried([long], opaque=True)[0]
    assert len(arrived.repr) < 250
    assert arrived.repr.encode()


def test_the_bottom_of_a_deep_info_arrives_as_opaque() -> None:
    with pytest.warns(UserWarning, match="Opaque"):
        value = carried({"other": 1, "deep": _deep(MAX_DEPTH + 5), "set": {frozenset([b"x"])}}, opaque=True)
    assert value["other"] == 1
    assert value["set"] == {frozenset([b"x"])}


def test_nothing_is_shared_between_the_value_and_what_was_packed() -> None:
    array = np.zeros(3)
    packed = pack([array])
    array += 1
    assert same(over_wire(packed), [np.zeros(3)])


def test_numpy_is_imported_when_a_value_of_it_comes_and_not_before() -> None:
    code = (
        "import sys, msgspec\n"
        "from openenv_gym.protocol.values import pack, unpack_ext\n"
        "decode = msgspec.msgpack.Decoder(ext_hook=unpack_ext).decode\n"
        "plain = decode(msgspec.msgpack.encode(pack({'a': [1, (2.5, 3j)], 'b': {1: b'x'}})))\n"
        "print(plain, 'numpy' in sys.modules)\n"
        "scalar = msgspec.msgpack.Ext(15, b'\\x03<i2\\x00\\x07\\x00')\n"
        "print(type(decode(msgspec.msgpack.encode(scalar))).__name__, 'numpy' in sys.modules)\n"
        "import numpy as np\n"
        "there = decode(msgspec.msgpack.encode(pack([np.float64(-0.0), np.str_('s'), np.arange(3)])))\n"
        "print(*(type(value).__name__ for value in there))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "{'a': [1, (2.5, 3j)], 'b': {1: b'x'}} False",
        "int16 True",
        "float64 str_ ndarray",
    ]
