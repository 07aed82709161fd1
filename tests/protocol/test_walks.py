"""Limits on what a spec may describe, and registration."""

from __future__ import annotations

import tracemalloc
from typing import Any

import gymnasium as gym
import msgspec
import pytest
from gymnasium import spaces

from openenv_gym.errors import RemoteProtocolError, ValueNotCarriedError
from openenv_gym.protocol import specs, walks
from openenv_gym.protocol.values import MAX_DEPTH
from openenv_gym.protocol.walks import NODE_COST, SPEC_LIMIT, from_spec, register_space, to_spec

from .strategies import over_wire

DISCRETE = {"type": "discrete", "n": 2}


def _deep(depth: int) -> Any:
    space: Any = spaces.Discrete(2)
    for _ in range(depth):
        space = spaces.Tuple((space,))
    return space


def _peak_of_refusal(spec: Any, match: str) -> int:
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match=match):
        from_spec(spec)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_spaces_travel_to_the_deepest_level() -> None:
    assert from_spec(over_wire(to_spec(_deep(MAX_DEPTH)))) == _deep(MAX_DEPTH)
    with pytest.raises(ValueNotCarriedError, match="nested") as caught:
        to_spec(_deep(MAX_DEPTH + 1))
    assert caught.value.details["path"] == "space" + "[0]" * (MAX_DEPTH + 1)


def test_a_spec_deeper_than_that_is_refused() -> None:
    spec: Any = DISCRETE
    for _ in range(MAX_DEPTH + 1):
        spec = {"type": "tuple", "spaces": [spec]}
    assert _peak_of_refusal(spec, "nested") < 500_000


@pytest.mark.parametrize("shape", [[2**40], [2**20, 2**20], [2**63, 0, 2**63, 3], [2**30]])
def test_a_huge_box_takes_no_memory(shape: list[int]) -> None:
    box = {"type": "box", "dtype": "|u1", "shape": shape, "low": b"\x00", "high": b"\x01"}
    assert _peak_of_refusal(box, r"take more than|no space|bytes are not") < 500_000


def test_many_boxes_share_one_limit() -> None:
    box = {"type": "box", "dtype": "|u1", "shape": [SPEC_LIMIT // 4], "low": b"\x00", "high": b"\x01"}
    assert (
        _peak_of_refusal({"type": "tuple", "spaces": [{**box, "shape": [SPEC_LIMIT]}]}, "take more") < 500_000
    )
    many = {"type": "tuple", "spaces": [DISCRETE] * (SPEC_LIMIT // NODE_COST)}
    with pytest.raises(RemoteProtocolError, match="take more"):
        from_spec(many)


def test_copies_that_gymnasium_makes_are_counted() -> None:
    spec: Any = DISCRETE
    for _ in range(40):
        spec = {"type": "sequence", "space": spec, "stack": True}
    with pytest.raises(RemoteProtocolError, match="take more"):
        from_spec(spec)


def test_an_unknown_space_is_refused_by_path() -> None:
    class Odd(gym.Space[Any]):
        pass

    with pytest.raises(ValueNotCarriedError, match="Odd") as caught:
        to_spec(spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), Odd()))}), "observation_space")
    assert caught.value.details["path"] == "observation_space['a'][1]"


def test_a_subclass_travels_as_its_base_with_one_warning() -> None:
    class Die(spaces.Discrete):
        pass

    with pytest.warns(UserWarning, match="Die travels as its base Discrete"):
        spec = to_spec(Die(6))
    assert type(from_spec(over_wire(to_spec(Die(6))))) is spaces.Discrete
    assert from_spec(spec) == spaces.Discrete(6)


def test_a_space_of_ones_own_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sides(gym.Space[int]):
        def __init__(self, sides: int) -> None:
            self.sides = sides
            super().__init__()

    class Fields(msgspec.Struct, forbid_unknown_fields=True):
        sides: int

    monkeypatch.setattr(walks, "_BY_CLASS", dict(walks._BY_CLASS))
    monkeypatch.setattr(walks, "_BY_NAME", dict(walks._BY_NAME))
    register_space(
        Sides,
        "sides",
        Fields,
        lambda space, walk: {"sides": space.sides},
        lambda fields, walk: Sides(fields.sides),
    )
    assert from_spec(over_wire(to_spec(Sides(6)))).sides == 6
    with pytest.raises(RemoteProtocolError, match="sides"):
        from_spec({"type": "sides", "sides": "6"})
    assert specs.to_spec is to_spec
