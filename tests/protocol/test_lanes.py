"""What all columns have in common: several lanes, batches, errors."""

from __future__ import annotations

import struct
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import utils
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import InvalidActionError, RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.lanes import lane_bytes, read_lanes, spell
from openenv_gym.spaces import Unicode
from tests.support.compare import same

from .strategies import over_wire, sampled, spaces_of_any_kind

BOX = spaces.Box(-1, 1, (2,))
LANES = 3


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return (
        [found for part in parts for found in _arrays(part)] if isinstance(value, dict | tuple | list) else []
    )


@given(spaces_of_any_kind(), st.integers(0, 2**31), st.booleans())
def test_samples_arrive_bit_for_bit(space: Any, seed: int, actions: bool) -> None:
    samples = sampled(space, seed, LANES)
    column = column_codec(space, actions=actions)
    for value in samples:
        packed = column.encode_one(value, "x")
        assert same(over_wire(packed), over_wire(column.encode([value], "x")))
        assert same(column.decode_one(over_wire(packed)), value)
        assert same(column.decode(over_wire(packed), 1), [value])
    assert same(column.decode(over_wire(column.encode(samples, "x")), LANES), samples)
    assert column.decode(over_wire(column.encode([], "x")), 0) == []


@given(spaces_of_any_kind(), st.integers(0, 2**31))
def test_a_batch_is_written_as_concatenate_does(space: Any, seed: int) -> None:
    samples = sampled(space, seed, LANES)
    column = column_codec(space)
    expected = utils.concatenate(space, samples, utils.create_empty_array(space, LANES))
    out = utils.create_empty_array(space, LANES)
    out = column.decode_into(over_wire(column.encode(samples[1:], "x")), LANES - 1, out, 1)
    out = column.decode_into(over_wire(column.encode(samples[:1], "x")), 1, out)
    assert same(out, expected)
    whole = column.decode_batch(over_wire(column.encode(samples, "x")), LANES)
    assert whole is None or (same(whole, expected) and whole.flags.writeable)


@given(spaces_of_any_kind(), st.integers(0, 2**31))
def test_a_batch_is_split_as_iterate_does(space: Any, seed: int) -> None:
    batched = utils.batch_space(space, LANES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sampling
        (batch,) = sampled(batched, seed)
    try:
        expected = list(utils.iterate(batched, batch))
    except (TypeError, ValueError):
        return  # Gymnasium cannot split a batch without parts
    if len(expected) != LANES:
        return
    column = column_codec(space, actions=True)
    assert same(column.decode(over_wire(column.encode_batch(batch, LANES, "x")), LANES), expected)


@given(spaces_of_any_kind(), st.integers(0, 2**31))
def test_arrays_are_writable_and_share_nothing(space: Any, seed: int) -> None:
    samples = sampled(space, seed, 2)
    column = column_codec(space)
    packed = column.encode(samples, "x")
    arrays = _arrays([column.decode(over_wire(packed), 2) for _ in range(2)])
    assert all(array.flags.writeable and array.flags.owndata for array in arrays)
    assert not any(np.shares_memory(one, other) for at, one in enumerate(arrays) for other in arrays[:at])


_JUNK = st.recursive(
    st.none() | st.integers() | st.floats() | st.binary(max_size=24) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({"values": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"order": inner, "columns": inner})
        | st.tuples(st.integers(), inner).map(list)
    ),
    max_leaves=6,
)


def _mutated(wire: Any, data: st.DataObject) -> Any:
    """Return ``wire`` with junk somewhere in it."""
    if isinstance(wire, list) and wire and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(wire) - 1))
        return [*wire[:at], _mutated(wire[at], data), *wire[at + 1 :]]
    return data.draw(_JUNK)


@given(spaces_of_any_kind(), st.integers(0, 2**31), st.booleans(), st.data())
def test_mutated_columns_give_values_or_a_protocol_error(
    space: Any, seed: int, actions: bool, data: st.DataObject
) -> None:
    column = column_codec(space, actions=actions)
    wire = _mutated(over_wire(column.encode(sampled(space, seed, 2), "x")), data)
    for read in (
        lambda: column.decode(wire, 2),
        lambda: column.decode_one(wire),
        lambda: column.decode_batch(wire, 2),
        lambda: column.decode_into(wire, 2, utils.create_empty_array(space, 2)),
    ):
        try:
            read()
        except RemoteProtocolError:
            continue


def test_an_error_names_the_lane() -> None:
    column = column_codec(spaces.Dict(x=spaces.Tuple((BOX,))))
    good, bad = {"x": (np.zeros(2, "f4"),)}, {"x": (np.zeros(3, "f4"),)}
    with pytest.raises(ValueNotCarriedError, match=r"^lane 1: obs\['x'\]\[0\] is float32 of shape \(3,\)"):
        column.encode([good, bad], "obs")
    with pytest.raises(ValueNotCarriedError, match=r"^obs\['x'\]\[0\] is") as caught:
        column.encode_one(bad, "obs")
    assert caught.value.details["path"] == "obs['x'][0]"
    assert "Box(-1.0, 1.0, (2,), float32)" in str(caught.value)


@pytest.mark.parametrize("batch", [np.zeros((2, 2), "f4"), np.zeros(3, "f4"), None, 5, "abc", [[1, 2]] * 4])
def test_a_batch_that_is_none_is_refused(batch: Any) -> None:
    with pytest.raises(InvalidActionError, match="action"):
        column_codec(BOX, actions=True).encode_batch(batch, LANES, "action")


def test_a_batch_of_another_dtype_arrives_lane_by_lane() -> None:
    column = column_codec(BOX, actions=True)
    batch = np.arange(6.0).reshape(3, 2)
    assert same(column.decode(over_wire(column.encode_batch(batch, 3)), 3), [*batch])
    assert same(column.decode(over_wire(column.encode_batch([[0.5, 1]] * 2, 2)), 2), [[0.5, 1]] * 2)


def test_lanes_may_have_different_forms() -> None:
    values = [np.zeros(2, "f4"), np.ones(2, "f2")]
    column = column_codec(BOX)
    assert same(column.decode(over_wire(column.encode(values)), 2), values)


def test_a_batch_of_an_unknown_kind_may_start_as_none() -> None:
    column = column_codec(Unicode(9))
    wire = over_wire(column.encode(["a", "b"]))
    assert column.decode_into(wire, 2, None, 1) == (None, "a", "b")


def test_paths_are_spelled_like_python() -> None:
    assert spell((("obs", "x"), 2)) == "obs['x'][2]"


@given(st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_lanes_travel_as_little_endian_numbers(lanes: list[int]) -> None:
    assert lane_bytes(lanes) == struct.pack(f"<{len(lanes)}I", *lanes)
    assert read_lanes(lane_bytes(lanes)) == lanes
