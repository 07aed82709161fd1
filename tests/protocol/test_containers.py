"""Columns of Sequence, Graph and OneOf."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import InvalidActionError, RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol.columns import column_codec
from tests.support.compare import same

from .strategies import over_wire

BOX = spaces.Box(-1, 1, (1,))
SEQUENCE = spaces.Sequence(BOX)
STACKED = spaces.Sequence(BOX, stack=True)
STACKED_DICT = spaces.Sequence(spaces.Dict(OrderedDict(n=spaces.Discrete(3), t=spaces.Text(2))), stack=True)
GRAPH = spaces.Graph(BOX, spaces.Discrete(3))
BARE = spaces.Graph(spaces.Discrete(3), None)
ONE_OF = spaces.OneOf((spaces.Discrete(3), BOX))
ZERO = np.zeros(1, "f4")
ITEM = bytes(4)
NODES = np.zeros((2, 1), "f4")
LINKS = np.array([[0, 1]], np.int32)


def _wire(space: Any, *values: Any, actions: bool = False, warn: Any = None) -> Any:
    return over_wire(column_codec(space, actions=actions).encode(values, "obs", warn))


def test_layouts_are_pinned() -> None:
    assert _wire(SEQUENCE, (), (ZERO, ZERO)) == [[0, b""], [2, ITEM * 2]]
    assert _wire(STACKED, NODES) == [[2, ITEM * 2]]
    assert _wire(STACKED_DICT, {"n": np.array([1]), "t": ("é",)}) == [[1, [b"\x01" + bytes(7), ["é"]]]]
    assert _wire(BARE, GraphInstance(np.array([2]), None, None)) == [[1, b"\x02" + bytes(7)]]
    (lane,) = _wire(GRAPH, GraphInstance(NODES, np.array([2]), LINKS))
    assert lane[:4] == [2, ITEM * 2, 1, b"\x02" + bytes(7)]
    assert same(lane[4], LINKS)
    assert _wire(ONE_OF, (np.int64(1), ZERO), (np.int64(0), 2)) == [[1, ITEM], [0, [b"\x02" + bytes(7)]]]


@pytest.mark.parametrize("actions", [False, True])
@pytest.mark.parametrize(
    ("space", "value"),
    [
        (SEQUENCE, (ZERO, np.zeros(1, "f2"))),
        (STACKED, np.zeros((0, 1), "f4")),
        (STACKED, np.zeros((3, 1), "f2")),
        (STACKED_DICT, {"t": ("a", "b"), "n": np.array([1, 2], np.int8)}),
        (spaces.Sequence(spaces.Dict({}), stack=True), {}),
        (spaces.Sequence(spaces.Sequence(BOX), stack=True), ((ZERO,), ())),
        (GRAPH, GraphInstance(NODES, np.array([2]), LINKS.astype(np.uint8))),
        (GRAPH, GraphInstance(np.zeros((1, 1), "f2"), None, None)),
        (GRAPH, GraphInstance(NODES, np.array([2], np.int8), LINKS)),
        (spaces.Dict(g=GRAPH), OrderedDict(g=GraphInstance(NODES, np.array([2]), LINKS))),
        (ONE_OF, (1, ZERO)),
        (ONE_OF, (np.int64(1), np.zeros(1, "f2"))),
        (ONE_OF, (True, ZERO)),
    ],
    ids=str,
)
def test_every_value_of_the_space_arrives_as_it_is(space: Any, value: Any, actions: bool) -> None:
    column = column_codec(space, actions=actions)
    arrived = column.decode_one(_wire(space, value, actions=actions))
    assert same(arrived, dict(value) if isinstance(value, OrderedDict) else value)


@pytest.mark.parametrize(
    ("space", "value", "arrives"),
    [
        (SEQUENCE, (np.zeros(1), ZERO), (ZERO, ZERO)),
        (STACKED, np.zeros((2, 1)), NODES),
        (STACKED, [[0.0], [0.0]], NODES),
        (GRAPH, GraphInstance([[0], [0]], np.array([2]), LINKS), GraphInstance(NODES, np.array([2]), LINKS)),
        (ONE_OF, (np.int64(1), [0.0]), (np.int64(1), ZERO)),
    ],
    ids=str,
)
def test_lossy_parts_of_observations_are_cast(space: Any, value: Any, arrives: Any) -> None:
    warned: list[str] = []
    wire = _wire(space, value, warn=warned.append)
    assert same(column_codec(space).decode_one(wire), arrives)
    assert warned


@pytest.mark.parametrize(
    ("space", "value", "path", "why"),
    [
        (SEQUENCE, None, "obs", "a tuple of elements was due"),
        (SEQUENCE, (ZERO, np.zeros(2, "f4")), "obs[1]", "shape"),
        (STACKED, 5, "obs", "array of values"),
        (STACKED, np.zeros((2, 2), "f4"), "obs", "shape"),
        (STACKED_DICT, {"n": np.array([1, 2]), "t": ("a",)}, "obs", r"parts of \[1, 2\]"),
        (STACKED_DICT, {"n": np.array([1]), "t": ["a"]}, "obs['t']", "a tuple of values was due"),
        (STACKED_DICT, {"n": np.array([1])}, "obs", "lacks"),
        (GRAPH, (NODES, None, None), "obs", "GraphInstance was due"),
        (GRAPH, GraphInstance(NODES, np.array([2]), None), "obs", "without links"),
        (BARE, GraphInstance(np.array([2]), np.array([2]), LINKS), "obs", "where there are none"),
        (GRAPH, GraphInstance(NODES, np.array([2]), LINKS * 1.0), "obs['edge_links']", "integers"),
        (GRAPH, GraphInstance(NODES, np.array([2, 1]), LINKS), "obs['edge_links']", r"shape \(2, 2\)"),
        (GRAPH, GraphInstance(np.zeros((1, 2), "f4"), None, None), "obs['nodes']", "shape"),
        (ONE_OF, (2, ZERO), "obs[0]", "no index below 2"),
        (ONE_OF, (1.0, ZERO), "obs[0]", "no index below 2"),
        (ONE_OF, (np.int64(-1), ZERO), "obs[0]", "no index below 2"),
        (ONE_OF, ZERO, "obs", "index and value"),
        (ONE_OF, (np.int64(1), None), "obs[1]", "NoneType"),
        (ONE_OF, (1, None), "obs[1]", "NoneType"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_path(space: Any, value: Any, path: str, why: str) -> None:
    for actions, error in ((False, ValueNotCarriedError), (True, InvalidActionError)):
        with pytest.raises(error, match=why) as caught:
            column_codec(space, actions=actions).encode_one(value, "obs", lambda text: None)
        assert caught.value.details["path"] == path


def test_an_action_may_be_a_list() -> None:
    column = column_codec(SEQUENCE, actions=True)
    assert same(column.decode_one(over_wire(column.encode_one([ZERO]))), [ZERO])
    with pytest.raises(ValueNotCarriedError, match="tuple of elements"):
        column_codec(SEQUENCE).encode_one([ZERO], "obs", lambda text: None)


@pytest.mark.parametrize(
    ("space", "wire"),
    [
        (SEQUENCE, [5]),
        (SEQUENCE, [[1]]),
        (SEQUENCE, [[1, ITEM, 1]]),
        (SEQUENCE, [[-1, b""]]),
        (SEQUENCE, [[True, ITEM]]),
        (SEQUENCE, [[2**60, ITEM]]),
        (STACKED, [[2**60, ITEM]]),
        (STACKED, [[1, {"values": [ZERO]}]]),
        (spaces.Sequence(spaces.Tuple(())), [[2**60, b""]]),
        (spaces.Sequence(spaces.Box(0, 1, (0,))), [[2**60, b""]]),
        (spaces.Sequence(spaces.Box(0, 1, (0,)), stack=True), [[2**60, b""]]),
        (spaces.Sequence(spaces.Text(2)), [[2**60, []]]),
        (GRAPH, [[2, ITEM]]),
        (GRAPH, [[1, ITEM, 1]]),
        (GRAPH, [[1, ITEM, 1, bytes(8), None]]),
        (GRAPH, [[1, ITEM, 1, bytes(8), np.zeros((2, 2), int)]]),
        (GRAPH, [[1, ITEM, 2**60, bytes(8), LINKS]]),
        (BARE, [[1, bytes(8), 1, bytes(8), LINKS]]),
        (GRAPH, {"values": [(NODES, None, None)]}),
        (ONE_OF, [[2, ITEM]]),
        (ONE_OF, [[-1, ITEM]]),
        (ONE_OF, [[0, ITEM]]),
        (ONE_OF, [["0", ITEM]]),
        (ONE_OF, {"values": [(2, ZERO)]}),
    ],
    ids=str,
)
def test_malformed_columns_are_refused_and_take_no_memory(space: Any, wire: Any) -> None:
    column = column_codec(space)
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match="do not fit"):
        column.decode_one(wire)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
