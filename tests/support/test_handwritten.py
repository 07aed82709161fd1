"""The second implementation of the protocol against the package's: the same bytes both ways."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.protocol.codec import decode_reply, decode_request, encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.messages import LaneFailure, Limits, Reply, Request
from openenv_gym.protocol.specs import from_spec, to_spec
from openenv_gym.protocol.values import pack
from openenv_gym.spaces import Json
from tests.protocol.strategies import over_wire, sampled, spaces_of_any_kind, values
from tests.support import handspaces, handwritten
from tests.support.compare import same
from tests.support.spacezoo import SPACES

_encode = msgspec.msgpack.encode
_BOX = gs.Box(-1, 1, (2,))


@given(values())
def test_values_are_the_same_bytes(value: Any) -> None:
    data = _encode(pack(value))
    assert handwritten.write(handwritten.to_tree(value)) == data
    assert same(handwritten.from_tree(handwritten.read(data)), value)


# -- messages

_SPANS = st.floats(0.5, 1e6)


def _in_order(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in cls.__struct_fields__ if name in fields}


_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    "int": st.integers(2, 2**64 - 1),
    "float": _SPANS,
    "str": st.text(min_size=1, max_size=40),
    "bytes": st.binary(max_size=300),
    "bool": st.booleans(),
    "list[str]": st.lists(st.text(max_size=5), max_size=3),
    "list[int]": st.lists(st.integers(0, 2**63), max_size=3),
    "list[Any]": st.lists(values(), max_size=3),
    "dict[str, Any]": st.dictionaries(st.text(max_size=5), values(), max_size=3),
    "list[LaneFailure]": st.lists(
        st.fixed_dictionaries(
            {"lane": st.integers(0, 99), "code": st.text(max_size=5), "message": st.text(max_size=5)},
            optional={"details": st.dictionaries(st.text(max_size=3), values(), min_size=1, max_size=2)},
        ).map(lambda fields: _in_order(LaneFailure, fields)),
        max_size=2,
    ),
    "Any": values(),
    "Limits": st.fixed_dictionaries(
        {"message": st.integers(1, 2**40), "lanes": st.integers(1, 9), "step": _SPANS, "threads": st.just(3)}
    ).map(lambda fields: _in_order(Limits, fields)),
}


def _packed(kind: str, value: Any) -> Any:
    """Return what a field holds in the package's message."""
    if kind == "Limits":
        return Limits(**value)
    if kind == "list[LaneFailure]":
        return [_failure(part, _packed("dict[str, Any]", part.get("details", {}))) for part in value]
    if kind == "list[Any]":
        return [pack(part) for part in value]
    if kind == "dict[str, Any]":
        return {key: pack(part) for key, part in value.items()}
    return pack(value) if kind == "Any" else value


def _failure(fields: dict[str, Any], details: dict[str, Any]) -> LaneFailure:
    return LaneFailure(**{**fields, "details": details})


@st.composite
def _messages(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    cls = draw(st.sampled_from((*get_args(Request), *get_args(Reply))))
    fields = {}
    packed = {}
    for field in msgspec.structs.fields(cls):
        kind = cls.__annotations__[field.name].removesuffix(" | None")
        if field.required or draw(st.booleans()):
            value = fields[field.name] = draw(_BY_TYPE[kind])
            packed[field.name] = _packed(kind, value)
    return cls(**packed), fields


@given(_messages())
def test_messages_are_the_same_bytes(pair: tuple[Any, dict[str, Any]]) -> None:
    message, fields = pair
    tag = type(message).__struct_config__.tag
    data = handwritten.message(tag, {name: handwritten.to_tree(value) for name, value in fields.items()})
    assert data == handwritten.shortest(encode(message))
    decode = decode_request if isinstance(message, Request) else decode_reply
    read = decode(handwritten.write(handwritten.read(data)))
    for name, value in fields.items():
        got = getattr(read, name)
        if name == "failed":
            value = [_failure(part, part.get("details", {})) for part in value]
        assert same(got, Limits(**value) if isinstance(got, Limits) else value)


# -- spaces


def _check(space: Any, lanes: list[Any], actions: bool) -> None:
    """Check the column of ``lanes``, written and read."""
    codec, spec = column_codec(space, actions=actions), handwritten.read(_encode(to_spec(space)))
    column = codec.encode(lanes)
    data = _encode(column)
    assert handwritten.write(handspaces.write_column(spec, lanes)) == data
    by_hand = handspaces.read_column(spec, handwritten.read(data), len(lanes))
    assert same(by_hand, codec.decode(over_wire(column), len(lanes)))
    assert same(by_hand, lanes)


def _check_space(space: Any, seed: int) -> None:
    assert handwritten.write(handspaces.spec_of(space)) == _encode(to_spec(space))
    assert from_spec(over_wire(msgspec.Raw(handwritten.write(handspaces.spec_of(space))))) == space
    for count in (0, 1, 3):
        for actions in (False, True):
            _check(space, sampled(space, seed, count), actions)


@pytest.mark.parametrize("kind", SPACES)
def test_each_space_of_the_zoo_and_its_values_are_the_same_bytes(kind: str) -> None:
    _check_space(SPACES[kind](), 7)


@given(spaces_of_any_kind(3), st.integers(0, 2**31))
def test_spaces_nested_three_deep_and_their_values_are_the_same_bytes(space: Any, seed: int) -> None:
    _check_space(space, seed)


_ONE_OF = gs.OneOf((gs.Discrete(3), _BOX))


@pytest.mark.parametrize(
    ("space", "lanes"),
    [
        (gs.Discrete(9, start=-2), [1, -2, 6]),
        (gs.Discrete(9), [np.int64(1), 2]),
        (gs.Discrete(9), [np.int8(1), np.int8(2)]),
        (gs.Discrete(9), [np.array(3)]),
        (gs.Box(0, 1, ()), [np.float32(0.5), np.float32(1)]),
        (gs.Box(0, 1, ()), [np.array(0.5, np.float32), np.float32(1)]),
        (gs.Box(0, 9, (2,), np.int32), [np.array([1, 2], np.int8)]),
        (_BOX, [np.array([1, 2], np.float16), np.zeros(2, np.float32)]),
        (gs.MultiBinary(2), [np.array([True, False])]),
        (gs.Dict(a=gs.Discrete(2), b=_BOX), [{"b": np.zeros(2, np.float32), "a": np.int64(1)}] * 2),
        (gs.Dict(a=gs.Discrete(2), b=gs.Discrete(2)), [{"a": 1, "b": 0}, {"b": 1, "a": 0}]),
        (gs.Dict(a=gs.Discrete(2), b=_BOX), [{"a": np.int8(1), "b": np.zeros(2, np.float32)}]),
        (gs.Tuple((gs.Discrete(2), gs.Discrete(2))), [[1, np.int64(1)]]),
        (gs.Tuple((gs.Discrete(2), gs.Discrete(2))), [(1, np.int8(1)), (0, np.int64(1))]),
        (gs.Sequence(gs.Discrete(5)), [(1, 2), (), (np.int64(3),), (np.int8(3), 2)]),
        (_ONE_OF, [(np.int64(0), 2), (np.int64(1), np.zeros(2, np.float32))]),
        (_ONE_OF, [(0, np.int64(2))]),
        (Json(), [{"a": [1, None, "\ud800", 2**70, -0.0]}, "x"]),
    ],
    ids=str,
)
def test_other_forms_of_values_are_the_same_bytes(space: Any, lanes: list[Any]) -> None:
    _check(space, lanes, actions=False)
