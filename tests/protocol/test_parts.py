"""Columns of Dict and Tuple."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import utils

from openenv_gym.errors import InvalidActionError, RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol.columns import column_codec
from tests.support.compare import same

from .strategies import over_wire

BOX = spaces.Box(-1, 1, (1,))
DICT = spaces.Dict(OrderedDict(b=spaces.Discrete(5), a=BOX))
TUPLE = spaces.Tuple((spaces.Discrete(5), BOX))
NESTED = spaces.Dict(x=spaces.Tuple((DICT, spaces.Text(3))))
ZERO = np.zeros(1, "f4")
ITEM = bytes(4)
Pair = namedtuple("Pair", "n box")


def _wire(space: Any, *values: Any, actions: bool = False) -> Any:
    return over_wire(column_codec(space, actions=actions).encode(values, "obs"))


def _arrives(space: Any, value: Any, actions: bool = False) -> Any:
    return column_codec(space, actions=actions).decode_one(_wire(space, value, actions=actions))


def test_parts_are_columns_in_the_spaces_order() -> None:
    assert _wire(DICT, {"b": 1, "a": ZERO}) == [[b"\x01" + bytes(7)], ITEM]
    assert _wire(TUPLE, (np.int64(1), ZERO), (np.int64(2), ZERO)) == [
        b"\x01" + bytes(7) + b"\x02" + bytes(7),
        ITEM * 2,
    ]
    assert _wire(spaces.Dict({}), {}, {}) == _wire(spaces.Tuple(()), (), ()) == bytes(2)


def test_another_order_of_keys_is_kept() -> None:
    value = {"a": ZERO, "b": np.int64(1)}
    wire = _wire(DICT, value, value)
    assert wire == {"order": [1, 0], "columns": [b"\x01" + bytes(7) + b"\x01" + bytes(7), ITEM * 2]}
    assert same(column_codec(DICT).decode(wire, 2), [value, value])
    out = utils.create_empty_array(DICT, 2)
    out = column_codec(DICT).decode_into(wire, 2, out)
    assert same(out, {"b": np.array([1, 1]), "a": np.zeros((2, 1), "f4")})


def test_lanes_with_different_orders_are_kept() -> None:
    values = [{"a": ZERO, "b": 1}, {"b": 2, "a": ZERO}]
    wire = _wire(DICT, *values)
    assert same(column_codec(DICT).decode(wire, 2), values)
    out = column_codec(DICT).decode_into(wire, 2, utils.create_empty_array(DICT, 2))
    assert same(out, {"b": np.array([1, 2]), "a": np.zeros((2, 1), "f4")})


@pytest.mark.parametrize(
    ("space", "value", "arrives"),
    [
        (DICT, OrderedDict(a=ZERO, b=1), {"a": ZERO, "b": 1}),
        (TUPLE, Pair(1, ZERO), (1, ZERO)),
        (NESTED, {"x": (OrderedDict(b=1, a=ZERO), "é")}, {"x": ({"b": 1, "a": ZERO}, "é")}),
        (TUPLE, [1, ZERO], [1, ZERO]),
    ],
)
@pytest.mark.parametrize("actions", [False, True])
def test_subclasses_and_lists_arrive_as_their_base(
    space: Any, value: Any, arrives: Any, actions: bool
) -> None:
    assert same(_arrives(space, value, actions), arrives)


def test_an_array_may_be_a_tuple() -> None:
    space = spaces.Tuple((spaces.Discrete(5), spaces.Discrete(5)))
    assert same(_arrives(space, np.array([1, 2]), actions=True), np.array([1, 2]))


def test_an_array_for_a_tuple_is_cast_part_by_part() -> None:
    space = spaces.Tuple((BOX, BOX))
    warned: list[str] = []
    column = column_codec(space)
    wire = over_wire(column.encode_one(np.zeros((2, 1)), "obs", warned.append))
    assert same(column.decode_one(wire), (ZERO, ZERO))
    assert len(warned) == 2


def test_only_the_part_that_is_not_exact_is_self_described() -> None:
    wire = _wire(DICT, {"b": np.int64(1), "a": np.zeros(1, "f2")})
    assert wire[0] == b"\x01" + bytes(7)
    assert same(wire[1], {"values": [np.zeros(1, "f2")]})


def test_a_cast_in_a_part_warns_by_path() -> None:
    warned: list[str] = []
    column = column_codec(NESTED)
    for inner in ({"b": 1, "a": np.zeros(1)}, OrderedDict(b=1, a=np.zeros(1))):
        wire = over_wire(column.encode_one({"x": (inner, "")}, "obs", warned.append))
        assert same(column.decode_one(wire), {"x": ({"b": 1, "a": ZERO}, "")})
    assert len(warned) == 2
    assert all(text.startswith("obs['x'][0]['a'] is a ndarray of float64") for text in warned)


@pytest.mark.parametrize(
    ("space", "value", "path", "why"),
    [
        (DICT, {"b": 1}, "obs", r"lacks the keys \['a'\]"),
        (DICT, {"b": 1, "a": ZERO, "c": 2}, "obs", r"the keys \['c'\] beyond"),
        (DICT, [1, ZERO], "obs", "a dict was due"),
        (DICT, {"b": 1.5, "a": ZERO}, "obs['b']", "float"),
        (TUPLE, (1,), "obs", "tuple of 2"),
        (TUPLE, {"a": 1}, "obs", "tuple of 2"),
        (TUPLE, (1, None), "obs[1]", "NoneType"),
        (TUPLE, [1, None], "obs[1]", "NoneType"),
        (NESTED, {"x": ({"b": 1, "a": ZERO}, b"")}, "obs['x'][1]", "a str was due"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_path(space: Any, value: Any, path: str, why: str) -> None:
    for actions, error in ((False, ValueNotCarriedError), (True, InvalidActionError)):
        with pytest.raises(error, match=why) as caught:
            column_codec(space, actions=actions).encode_one(value, "obs")
        assert caught.value.details["path"] == path


@pytest.mark.parametrize(
    ("space", "wire"),
    [
        (DICT, [bytes(8)]),
        (DICT, [bytes(8), ITEM, ITEM]),
        (DICT, {"order": [0, 0], "columns": [bytes(8), ITEM]}),
        (DICT, {"order": [0], "columns": [bytes(8), ITEM]}),
        (DICT, {"order": 5, "columns": [bytes(8), ITEM]}),
        (DICT, {"order": [1, 0], "columns": {}}),
        (DICT, {"order": [1, 0]}),
        (DICT, {"order": [1, 0], "columns": [bytes(8), ITEM], "more": 1}),
        (DICT, {"values": [{"b": 1}]}),
        (TUPLE, bytes(12)),
        (TUPLE, [bytes(8), bytes(5)]),
        (TUPLE, {"values": [5]}),
        (spaces.Tuple(()), []),
        (spaces.Tuple(()), bytes(2)),
        (spaces.Dict({}), []),
    ],
    ids=str,
)
def test_malformed_columns_are_refused(space: Any, wire: Any) -> None:
    column = column_codec(space)
    with pytest.raises(RemoteProtocolError, match="do not fit"):
        column.decode_one(wire)
    with pytest.raises(RemoteProtocolError, match="do not fit"):
        column.decode_into(wire, 1, utils.create_empty_array(space, 1))


def test_batches_of_parts() -> None:
    space = spaces.Dict(a=BOX, b=spaces.Discrete(5))
    column = column_codec(space, actions=True)
    batch = {"a": np.zeros((2, 1), "f4"), "b": np.array([1, 2])}
    assert over_wire(column.encode_batch(batch, 2)) == [ITEM * 2, b"\x01" + bytes(7) + b"\x02" + bytes(7)]
    listed = {"b": [1, 2], "a": np.zeros((2, 1))}
    expected = list(utils.iterate(utils.batch_space(space, 2), listed))
    assert same(column.decode(over_wire(column.encode_batch(listed, 2)), 2), expected)
    for broken in ({"b": np.array([1, 2])}, {"b": np.array([1]), "a": np.zeros((2, 1), "f4")}, None):
        with pytest.raises(InvalidActionError, match="no batch of 2"):
            column.encode_batch(broken, 2)


def test_a_batch_is_split_in_the_order_of_gymnasiums_batched_space() -> None:
    batch = {"b": np.array([1, 2]), "a": np.zeros((2, 1), "f4")}
    column = column_codec(DICT, actions=True)
    expected = list(utils.iterate(utils.batch_space(DICT, 2), batch))
    assert same(column.decode(over_wire(column.encode_batch(batch, 2)), 2), expected)


def test_a_batch_without_parts_is_as_long_as_you_like() -> None:
    for space, batch in ((spaces.Dict({}), {}), (spaces.Tuple(()), ())):
        column = column_codec(space)
        wire = over_wire(column.encode_batch(batch, 3))
        assert wire == bytes(3)
        assert column.decode(wire, 3) == [batch] * 3
