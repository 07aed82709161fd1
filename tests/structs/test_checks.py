"""Types of which no value could be read are refused before there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest

from openenv_gym.client.typed import EnvClient
from openenv_gym.environment import Environment
from openenv_gym.errors import ConfigError
from openenv_gym.models import Action, Array, Observation, State
from openenv_gym.structs import check_readable, from_map
from openenv_gym.typed_env import TypedEnv

_Pixels = Annotated[np.ndarray, Array("uint8", (2,))]
_ADVICE = "; make each option of the union a Struct with a tag: class Left(msgspec.Struct, tag=True)"


class Plain(msgspec.Struct):
    x: int


class Other(msgspec.Struct):
    y: str


@dataclass
class Data:
    z: int


class Left(msgspec.Struct, tag=True):
    pixels: _Pixels


class Right(msgspec.Struct, tag=True):
    text: str


class Tree(msgspec.Struct):
    below: list[Tree] = []


_UNREADABLE = [
    (_Pixels | str, "custom type"),
    (list[_Pixels | int], "custom type"),
    (dict[str, _Pixels | Plain], "custom type"),
    (Plain | Other, "must be tagged"),
    (list[Plain | Other] | None, "must be tagged"),
    (Plain | Data, "dict-like"),
    (Plain | dict[str, int], "dict-like"),
    (dict[str, int] | dict[str, str], "dict"),
    (list[int] | tuple[int, ...], "array-like"),
    (str | bytes, "str-like"),
]


@pytest.mark.parametrize(("hint", "why"), _UNREADABLE, ids=str)
def test_a_union_whose_options_look_alike_is_refused_by_its_field(hint: Any, why: str) -> None:
    inner = msgspec.defstruct("Inner", [("number", int), ("either", hint)])
    outer = msgspec.defstruct("Outer", [("inners", list[inner])])  # type: ignore[valid-type]
    for cls in (inner, outer):
        with pytest.raises(ConfigError, match=r"^Inner\.either: no value of it could be read: ") as caught:
            check_readable(cls)
        assert why in caught.value.message
        assert caught.value.message.endswith(_ADVICE)
        with pytest.raises(ConfigError, match="cannot be decoded"):
            from_map(cls, {})


@pytest.mark.parametrize(
    "hint",
    [
        _Pixels | None,
        Left | Right,
        list[Left | Right | None],
        int | float | None,
        Literal["a"] | str,
        Tree,
        Any,
        complex,
        dict[str, Plain] | list[Plain] | str,
    ],
    ids=str,
)
def test_what_can_be_told_apart_is_not(hint: Any) -> None:
    check_readable(hint)
    check_readable(msgspec.defstruct("Inner", [("either", hint)]))


def test_structs_of_which_one_is_chosen_by_its_fields_need_no_tags() -> None:
    check_readable(Plain | Other)
    assert from_map(Plain | Other, {"y": "a"}) == Other("a")


def test_what_is_wrong_in_one_of_them_is_named() -> None:
    odd = msgspec.defstruct("Odd", [("either", str | bytes)])
    with pytest.raises(ConfigError, match=r"^Odd\.either: "):
        check_readable(Plain | odd)


def test_a_type_outside_any_struct_is_named_itself() -> None:
    with pytest.raises(ConfigError, match=r"^str \| bytes: no value of it"):
        check_readable(str | bytes)


# -- who looks


class Paint(Action):
    what: _Pixels | str


class Shown(Observation):
    what: Plain | Other | None = None


class Where(State):
    what: Plain | Other | None = None


class Painting(Environment[Paint, Observation, State]):
    """Takes pixels, or words for them."""


class Gallery(Environment[Action, Shown, State]):
    """Shows something, which nobody has to read back."""

    def reset(self, **options: Any) -> Shown:
        """Show it."""
        return Shown(Other("a"))

    def own_actions(self) -> bool:
        """Say that there are actions."""
        return True


def test_an_environment_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"^Paint\.what: no value of it could be read: .*custom type"):
        TypedEnv(Painting())


def test_observations_need_only_be_written() -> None:
    env = TypedEnv(Gallery())
    assert env.reset()[0] in env.observation_space


@pytest.mark.parametrize(
    ("observation", "state", "name"), [(Shown, State, "Shown"), (Observation, Where, "Where")]
)
def test_a_client_that_could_read_no_reply_is_refused(observation: Any, state: Any, name: str) -> None:
    class Client(EnvClient[Any, Any, Any]):
        observation_type = observation
        state_type = state

    with pytest.raises(ConfigError, match=rf"^{name}\.what: no value of it could be read"):
        Client("http://127.0.0.1:1")
