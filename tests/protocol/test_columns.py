"""Which column a space gets."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.protocol import columns
from openenv_gym.protocol.columns import column_codec, register_column
from openenv_gym.protocol.leaves import IntColumn, TextColumn
from openenv_gym.protocol.values import pack
from tests.support.compare import same
from tests.support.spacezoo import SPACES

from .strategies import over_wire, sampled


@pytest.mark.parametrize("kind", SPACES)
def test_every_kind_of_the_zoo_travels(kind: str) -> None:
    space = SPACES[kind]()
    samples = sampled(space, 3, 4)
    for actions in (False, True):
        column = column_codec(space, actions=actions)
        assert same(column.decode(over_wire(column.encode(samples)), 4), samples)


def test_a_subclass_has_the_column_of_its_base() -> None:
    class Die(spaces.Discrete):
        pass

    assert type(column_codec(Die(6))) is IntColumn


def test_an_unknown_space_has_none() -> None:
    class Odd(gym.Space[Any]):
        def __repr__(self) -> str:
            return "Odd()"

    with pytest.raises(ValueNotCarriedError, match=r"Odd\(\)"):
        column_codec(spaces.Dict(a=Odd()))


def test_a_dtype_without_a_form_has_none() -> None:
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(ValueNotCarriedError, match="no form on the wire"):
            column_codec(spaces.Tuple((spaces.Box(0, 1, (1,), np.longdouble),)))


def test_a_column_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Words(gym.Space[str]):
        pass

    monkeypatch.setattr(columns, "_MAKERS", dict(columns._MAKERS))
    register_column(Words, TextColumn)
    assert over_wire(column_codec(Words()).encode(["a"])) == ["a"]


@pytest.mark.parametrize(
    "parts", [[np.zeros((1, 1)), None, None], [np.zeros(2), np.ones(1), np.zeros((1, 2), int)]]
)
def test_graphs_travel_in_info_too(parts: list[Any]) -> None:
    value = {"g": [spaces.GraphInstance(*parts)]}
    assert same(over_wire(pack(value)), value)
