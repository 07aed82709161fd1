"""Hypothesis strategies for spaces and values, and the way over the wire that tests take."""

from __future__ import annotations

import datetime as dt
import inspect
import math
import warnings
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

from openenv_gym.protocol.values import pack, unpack_ext
from openenv_gym.spaces import Json, Unicode

__all__ = ["carried", "leaf_spaces", "over_wire", "sampled", "spaces_of_any_kind", "values"]

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ext_hook=unpack_ext)

_HAS_DTYPE = "dtype" in inspect.signature(spaces.Discrete).parameters
INTS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS = ("f2", "f4", "f8")
SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (0,), (2, 0, 2), (1, 2, 1, 2)])


def over_wire(packed: Any) -> Any:
    """Return a packed value as the peer decodes it."""
    return _DECODER.decode(_ENCODER.encode(packed))


def _ordered(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    low, high = sorted(pair, key=lambda bound: (bound, math.copysign(1, bound)))
    return (0, 1) if low == np.inf or high == -np.inf else (low, high)


@st.composite
def _boxes(draw: st.DrawFn) -> spaces.Box:
    dtype = np.dtype(draw(st.sampled_from((*INTS, *FLOATS, "?", ">f4", ">i2"))))
    shape = draw(SHAPES)
    if dtype.kind == "b":
        return spaces.Box(0, 1, shape, dtype.type)
    if dtype.kind == "f":
        bounds = st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, np.inf])
    else:
        # Gymnasium's sampling works in float64 and int64 and overflows at the very limits.
        info = np.iinfo(dtype)
        bounds = st.integers(max(int(info.min), -(2**52)), min(int(info.max) - 1, 2**52))
    count = int(np.prod(shape))
    pairs = draw(st.lists(st.tuples(bounds, bounds).map(_ordered), min_size=count, max_size=count))
    if pairs and draw(st.booleans()):
        pairs = pairs[:1] * count
    low = np.array([pair[0] for pair in pairs], dtype).reshape(shape)
    high = np.array([pair[1] for pair in pairs], dtype).reshape(shape)
    return spaces.Box(low, high, dtype=dtype)


@st.composite
def _discretes(draw: st.DrawFn) -> spaces.Discrete:
    name = draw(st.sampled_from(INTS if _HAS_DTYPE else ("i8",)))
    info = np.iinfo(name)
    n = draw(st.integers(1, min(int(info.max), 2**31)))
    start = draw(st.integers(max(int(info.min), -(2**40)), min(int(info.max) - n, 2**40)))
    return spaces.Discrete(n, start=start, **({} if name == "i8" else {"dtype": np.dtype(name).type}))


@st.composite
def _multi_discretes(draw: st.DrawFn) -> spaces.MultiDiscrete:
    dtype = np.dtype(draw(st.sampled_from(INTS)))
    shape = draw(st.sampled_from([(1,), (3,), (2, 2)]))
    count = int(np.prod(shape))
    nvec = draw(st.lists(st.integers(1, 50), min_size=count, max_size=count))
    low = 0 if dtype.kind == "u" else -9
    start = draw(st.lists(st.integers(low, 9), min_size=count, max_size=count))
    return spaces.MultiDiscrete(np.reshape(nvec, shape), dtype=dtype.type, start=np.reshape(start, shape))


@st.composite
def _texts(draw: st.DrawFn) -> spaces.Text:
    charset = draw(st.lists(st.sampled_from("zabAé漢😀\x00\ud800 "), min_size=1, unique=True))
    low, high = sorted((draw(st.integers(0, 5)), draw(st.integers(0, 5))))
    return spaces.Text(high, min_length=low, charset="".join(charset))


def leaf_spaces() -> st.SearchStrategy[Any]:
    """Return spaces without parts."""
    return st.one_of(
        _boxes(),
        _discretes(),
        _multi_discretes(),
        st.sampled_from([1, 3, (2, 3), [2]]).map(spaces.MultiBinary),
        _texts(),
        st.builds(Unicode, st.integers(3, 40), st.integers(0, 3)),
        st.builds(Json),
    )


@st.composite
def _graphs(draw: st.DrawFn) -> spaces.Graph:
    parts = st.one_of(_boxes().filter(lambda box: box.dtype.isnative), _discretes())
    return spaces.Graph(draw(parts), draw(st.none() | parts))


def spaces_of_any_kind(depth: int = 3) -> st.SearchStrategy[Any]:
    """Return spaces of every kind, at most ``depth`` deep."""
    if depth == 0:
        return leaf_spaces()
    inner = spaces_of_any_kind(depth - 1)
    keys = st.sampled_from(["a", "z", "b", "é"])
    return st.one_of(
        leaf_spaces(),
        st.lists(st.tuples(keys, inner), max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda pairs: spaces.Dict(OrderedDict(pairs))
        ),
        st.lists(inner, max_size=3).map(spaces.Tuple),
        st.builds(spaces.Sequence, inner, stack=st.booleans()),
        st.lists(inner, min_size=1, max_size=3).map(spaces.OneOf),
        _graphs(),
    )


def sampled(space: Any, seed: int, count: int = 1) -> list[Any]:
    """Return seeded samples of ``space``."""
    space.seed(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [space.sample() for _ in range(count)]


_NUMPY = st.one_of(
    st.sampled_from(["f2", "f4", "f8", ">f4", "c8", "c16"]).flatmap(
        lambda name: st.lists(st.floats(width=16), max_size=4).map(lambda items: np.array(items, name))
    ),
    st.sampled_from(INTS).map(lambda name: np.arange(6, dtype=name).reshape(2, 3)),
    st.sampled_from(
        [
            np.array(True),
            np.array([["ab", "c"]]),
            np.array([b"x\x00y"]),
            np.zeros((0, 3), np.float32),
            np.array(["2020-02-29", "NaT"], "M8[s]"),
            np.array([1, 2], "m8[25us]"),
            np.float16(0.1),
            np.float32("nan"),
            np.float64(-0.0),
            np.uint64(2**64 - 1),
            np.int8(-128),
            np.bool_(False),
            np.str_("é\ud800\x00"),
            np.str_(""),
            np.bytes_(b"\x00\xff\x00"),
            np.complex64(1 - 2j),
            np.datetime64("2020-01-01T00:00:00.000000001"),
            np.timedelta64(3, "W"),
        ]
    ),
)
_ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, seconds=7, microseconds=9))])
_HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.binary(max_size=8),
    st.complex_numbers(),
    st.decimals(),
    st.uuids(),
    st.datetimes(timezones=_ZONES),
    st.dates(),
    st.times(timezones=_ZONES),
    st.timedeltas(),
    st.sampled_from([2**64, -(2**63) - 1, 10**400, "\ud800", Decimal("1.10"), Decimal("-NaN12")]),
)
#: Elements of sets: whatever equals itself, so that a set is the same set on the other side.
_ELEMENTS = st.one_of(st.integers(), st.text(max_size=4), st.binary(max_size=4), st.tuples(st.integers()))


def values() -> st.SearchStrategy[Any]:
    """Return self-described values that arrive as they are."""
    return st.recursive(
        _HASHABLE | _NUMPY,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=4), inner, max_size=3),
            st.dictionaries(_ELEMENTS, inner, max_size=3),
            st.sets(_ELEMENTS, max_size=3),
            st.frozensets(_ELEMENTS, max_size=3),
        ),
        max_leaves=12,
    )


def carried(value: Any, **kwargs: Any) -> Any:
    """Return ``value`` packed and unpacked."""
    return over_wire(pack(value, **kwargs))
