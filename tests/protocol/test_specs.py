"""Spaces as wire specs."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol.specs import from_spec, to_spec
from tests.support.compare import same
from tests.support.spacezoo import SPACES

from .strategies import over_wire, sampled, spaces_of_any_kind

DISCRETE = {"type": "discrete", "n": 2}
BOX = {"type": "box", "dtype": "<f4", "shape": [2], "low": bytes(4), "high": b"\x00\x00\x80?"}


def _arrived(space: Any) -> Any:
    return from_spec(over_wire(to_spec(space)))


@given(spaces_of_any_kind(), st.integers(0, 2**31))
def test_spaces_arrive_equal_and_sample_the_same(space: Any, seed: int) -> None:
    arrived = _arrived(space)
    assert type(arrived) is type(space)
    assert arrived == space
    assert repr(arrived) == repr(space)
    assert same(sampled(arrived, seed, 3), sampled(space, seed, 3))


@pytest.mark.parametrize("kind", SPACES)
def test_every_kind_of_the_zoo_arrives(kind: str) -> None:
    space = SPACES[kind]()
    assert _arrived(space) == space
    assert same(sampled(_arrived(space), 7, 5), sampled(space, 7, 5))


def test_bounds_arrive_bit_for_bit() -> None:
    low = np.array([-np.inf, -0.0, -4.8000002, 1e-45], np.float32)
    high = np.array([np.inf, 0.0, 4.8000002, 1e-45], np.float32)
    space = spaces.Box(low, high, dtype=np.float32)
    arrived = _arrived(space)
    assert same((arrived.low, arrived.high), (low, high))
    assert same(arrived.bounded_below, space.bounded_below)


@pytest.mark.parametrize("low", [-np.inf, -128])
def test_a_bound_that_counts_as_none_stays_one(low: float) -> None:
    space = spaces.Box(low, 5, (3,), np.int8)
    arrived = _arrived(space)
    assert same(arrived.bounded_below, space.bounded_below)
    assert arrived.is_bounded() == space.is_bounded()


def test_equal_bounds_are_sent_once() -> None:
    assert len(msgspec.msgpack.encode(to_spec(spaces.Box(0, 255, (210, 160, 3), np.uint8)))) < 64


def test_the_order_of_keys_is_kept() -> None:
    space = spaces.Dict(OrderedDict(b=spaces.Discrete(2), a=spaces.Discrete(3)))
    assert list(_arrived(space).spaces) == ["b", "a"]
    assert list(_arrived(spaces.Dict({2: spaces.Discrete(2), "a": spaces.Discrete(3)})).spaces) == [2, "a"]


if "sort_keys" in inspect.signature(spaces.Dict).parameters:

    def test_whether_keys_are_sorted_is_kept() -> None:
        space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Discrete(3)}, sort_keys=False)
        assert _arrived(space).sort_keys is False
        assert list(_arrived(space).spaces) == ["b", "a"]


def test_the_order_of_characters_is_kept() -> None:
    assert _arrived(spaces.Text(3, charset="zé\ud800a")).character_list == ("z", "é", "\ud800", "a")


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (spaces.Discrete(2), {"type": "discrete", "n": 2}),
        (spaces.Discrete(2, start=-3), {"type": "discrete", "n": 2, "start": -3}),
        (
            spaces.Box(0, 1, (2,)),
            {"type": "box", "dtype": "<f4", "shape": [2], "low": bytes(4), "high": b"\x00\x00\x80?"},
        ),
        (spaces.MultiBinary([2, 3]), {"type": "multi_binary", "n": [2, 3]}),
        (
            spaces.MultiDiscrete([2, 3], dtype=np.uint8),
            {"type": "multi_discrete", "dtype": "|u1", "shape": [2], "nvec": b"\x02\x03", "start": b"\x00"},
        ),
        (spaces.Text(3, charset="ba"), {"type": "text", "min_length": 1, "max_length": 3, "charset": "ba"}),
        (spaces.Dict(a=spaces.Discrete(2)), {"type": "dict", "spaces": [["a", DISCRETE]]}),
        (spaces.Tuple((spaces.Discrete(2),)), {"type": "tuple", "spaces": [DISCRETE]}),
        (spaces.OneOf((spaces.Discrete(2),)), {"type": "one_of", "spaces": [DISCRETE]}),
        (spaces.Sequence(spaces.Discrete(2)), {"type": "sequence", "space": DISCRETE, "stack": False}),
        (spaces.Graph(spaces.Discrete(2), None), {"type": "graph", "nodes": DISCRETE, "edges": None}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_specs_are_pinned(space: Any, spec: Any) -> None:
    assert over_wire(to_spec(space)) == spec


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        "discrete",
        {},
        {"type": "cube"},
        {"type": ["box"]},
        {"type": "discrete"},
        {**DISCRETE, "colour": 1},
        {**DISCRETE, "n": 0},
        {**DISCRETE, "n": "2"},
        {**DISCRETE, "n": 2**64},
        {**DISCRETE, "start": 2**63},
        {**DISCRETE, "dtype": "<f4"},
        {**DISCRETE, "dtype": "|O"},
        {**DISCRETE, "dtype": "|u1", "n": 300},
        {**BOX, "dtype": "<M8[s]"},
        {**BOX, "shape": [-2]},
        {**BOX, "shape": [1] * 100},
        {**BOX, "shape": 2},
        {**BOX, "low": bytes(5)},
        {**BOX, "low": "AAAAAA=="},
        {**BOX, "low": b"\x00\x00\xc0\x7f"},
        {**BOX, "low": b"\x00\x00\x80?", "high": bytes(4)},
        {**BOX, "below": b"\x02"},
        {"type": "multi_binary", "n": 0},
        {"type": "multi_binary", "n": [2**40, 2**40]},
        {"type": "multi_discrete", "dtype": "|u1", "shape": [2], "nvec": b"\x00", "start": b"\x00"},
        {"type": "text", "min_length": 2, "max_length": 1, "charset": "a"},
        {"type": "text", "min_length": -1, "max_length": 1, "charset": "a"},
        {"type": "dict", "spaces": [[["a"], DISCRETE]]},
        {"type": "dict", "spaces": [["a", DISCRETE], ["a", DISCRETE]]},
        {"type": "dict", "spaces": {"a": DISCRETE}},
        {"type": "tuple", "spaces": [1]},
        {"type": "one_of", "spaces": []},
        {"type": "sequence", "space": None, "stack": False},
        {"type": "graph", "nodes": None, "edges": None},
    ],
    ids=str,
)
def test_malformed_specs_are_refused(spec: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="makes no space"):
        from_spec(spec)


_JUNK = st.recursive(
    st.none()
    | st.integers()
    | st.binary(max_size=9)
    | st.sampled_from(["<f4", "|u1", "box", "dict", "discrete"]),
    lambda inner: st.lists(inner, max_size=3) | st.just(DISCRETE),
    max_leaves=4,
)


@given(spaces_of_any_kind(2), st.data())
def test_mutated_specs_give_a_space_or_a_protocol_error(space: Any, data: st.DataObject) -> None:
    spec = over_wire(to_spec(space))
    spec[data.draw(st.sampled_from([*spec, "more"]))] = data.draw(_JUNK)
    try:
        arrived = from_spec(spec)
    except RemoteProtocolError:
        return
    assert isinstance(arrived, spaces.Space)


def test_a_dtype_without_a_form_is_refused() -> None:
    if np.dtype(np.longdouble).itemsize == 8:
        return
    with pytest.raises(ValueNotCarriedError, match="float"):
        to_spec(spaces.Box(0, 1, (1,), np.longdouble))
