"""The table of types and spaces, row by row."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest
from gymnasium import spaces as gs
from msgspec import Meta

from openenv_gym.errors import ConfigError
from openenv_gym.forms import form_of
from openenv_gym.forms.building import Builder
from openenv_gym.models import Array
from openenv_gym.spaces import Json, Unicode
from openenv_gym.structs.hints import kind_of
from openenv_gym.structs.kinds import Numpy
from tests.structs.zoo import Tree

_REAL = gs.Box(-np.inf, np.inf, (), np.float64)
_WHOLE = gs.Box(-np.inf, np.inf, (), np.int64)
_TEXT = Json({"type": "string"})


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Point(msgspec.Struct):
    x: float


class Nothing(msgspec.Struct):
    pass


class One(msgspec.Struct, tag=True):
    a: bool


class Two(msgspec.Struct, tag=True):
    b: bool


@dataclasses.dataclass
class Size:
    width: Annotated[int, Meta(ge=0, le=9)]


def _box(low: Any, high: Any, dtype: Any = np.float64, shape: tuple[int, ...] = ()) -> gs.Box:
    return gs.Box(low, high, shape, dtype)


TABLE: list[tuple[Any, Any]] = [
    (bool, gs.Discrete(2)),
    (None, gs.Discrete(1)),
    (Annotated[int, Meta(ge=1, le=100)], gs.Discrete(100, start=1)),
    (Annotated[int, Meta(gt=-3, lt=3)], gs.Discrete(5, start=-2)),
    (Annotated[int, Meta(ge=-(2**62), le=2**62 - 2)], gs.Discrete(2**63 - 1, start=-(2**62))),
    (Annotated[int, Meta(ge=1, le=9, description="one digit")], gs.Discrete(9, start=1)),
    (int, _WHOLE),
    (Annotated[int, Meta(ge=0)], _box(0, np.inf, np.int64)),
    (Annotated[int, Meta(lt=0)], _box(-np.inf, -1, np.int64)),
    (
        Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
        Json({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}),
    ),
    (Annotated[int, Meta(ge=2**63)], Json({"type": "integer", "minimum": 2**63})),
    (
        Annotated[int, Meta(ge=0, le=9, multiple_of=3)],
        Json({"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 3}),
    ),
    (float, _REAL),
    (Annotated[float, Meta(ge=0, le=1)], _box(0, 1)),
    (Annotated[float, Meta(gt=0, lt=1)], _box(np.nextafter(0, 1), np.nextafter(1, 0))),
    (Annotated[float, Meta(multiple_of=0.5)], Json({"type": "number", "multipleOf": 0.5})),
    (Annotated[str, Meta(max_length=5, min_length=2)], Unicode(5, min_length=2)),
    (str, _TEXT),
    (Annotated[str, Meta(min_length=2)], Json({"type": "string", "minLength": 2})),
    (
        Annotated[str, Meta(max_length=5, pattern="^a")],
        Json({"type": "string", "maxLength": 5, "pattern": "^a"}),
    ),
    (Literal["a", 3, None], gs.Discrete(3)),
    (Colour, gs.Discrete(2)),
    (float | None, gs.OneOf([_REAL, gs.Discrete(1)])),
    (int | str | bool, gs.OneOf([_WHOLE, _TEXT, gs.Discrete(2)])),
    (One | Two, gs.OneOf([gs.Dict(a=gs.Discrete(2)), gs.Dict(b=gs.Discrete(2))])),
    (list[float], gs.Sequence(_REAL)),
    (tuple[bool, ...], gs.Sequence(gs.Discrete(2))),
    (Sequence[bool], gs.Sequence(gs.Discrete(2))),
    (list, gs.Sequence(Json())),
    (tuple[bool, float], gs.Tuple([gs.Discrete(2), _REAL])),
    (tuple[()], gs.Tuple([])),
    (Annotated[list[float], Meta(min_length=3, max_length=3)], _box(-np.inf, np.inf, shape=(3,))),
    (
        Annotated[list[Annotated[int, Meta(ge=0, le=9)]], Meta(min_length=2, max_length=2)],
        _box(0, 9, np.int64, (2,)),
    ),
    (
        Annotated[list[bool], Meta(max_length=2)],
        Json({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}),
    ),
    (Point, gs.Dict(x=_REAL)),
    (Size, gs.Dict(width=gs.Discrete(10))),
    (Nothing, gs.Dict({})),
    (Annotated[np.ndarray, Array("uint8", (4, 5, 3))], _box(0, 255, np.uint8, (4, 5, 3))),
    (Annotated[np.ndarray, Array("int64", (2,), 0, 7)], _box(0, 7, np.int64, (2,))),
    (Annotated[np.ndarray, Array("int64", (2,))], _box(-np.inf, np.inf, np.int64, (2,))),
    (Annotated[np.ndarray, Array("float32", (2,), -1)], _box(-1, np.inf, np.float32, (2,))),
    (Annotated[np.ndarray, Array("bool", (2,))], _box(0, 1, np.bool_, (2,))),
    (
        Annotated[np.ndarray, Array("float32", (-1, 2))],
        gs.Sequence(_box(-np.inf, np.inf, np.float32, (2,)), stack=True),
    ),
    (
        Annotated[np.ndarray, Array("float32", (-1,))],
        gs.Sequence(_box(-np.inf, np.inf, np.float32, (1,)), stack=True),
    ),
    (dict[str, bool], Json({"type": "object", "additionalProperties": {"type": "boolean"}})),
    (dict, Json({"type": "object"})),
    (Any, Json()),
    (dt.datetime, Json({"type": "string", "format": "date-time"})),
    (
        set[int],
        Json({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    ),
]


@pytest.mark.parametrize(("hint", "space"), TABLE, ids=[str(hint)[:60] for hint, _ in TABLE])
def test_a_type_has_its_documented_space(hint: Any, space: Any) -> None:
    found = Builder().build(kind_of(hint)).space
    assert found == space
    assert found.dtype == space.dtype
    if isinstance(found, gs.Box):
        assert (found.bounded_below == space.bounded_below).all()
        assert (found.bounded_above == space.bounded_above).all()


def test_fields_keep_their_order_and_their_names_on_the_wire() -> None:
    class Odd(msgspec.Struct, rename="camel"):
        last_first: bool
        a: bool

    assert list(form_of(Odd).space.spaces) == ["lastFirst", "a"]


def test_lists_of_any_length_take_no_memory_for_bounds() -> None:
    hint = Annotated[list[float], Meta(min_length=10**12, max_length=10**12)]
    assert isinstance(Builder().build(kind_of(hint)).space, Json)
    big = Numpy(Array("float32", (10**6, 10**6)), nested=True)
    assert isinstance(Builder().build(big).space, Json)


def test_bytes_are_json_of_the_right_lengths() -> None:
    space = Builder().build(kind_of(Annotated[bytes, Meta(min_length=1, max_length=2)])).space
    space.seed(1)
    assert {len(space.sample()) for _ in range(20)} == {4}
    assert space.contains("QUI=")
    assert not space.contains("QUJD")
    assert not space.contains("")


def test_a_struct_that_holds_itself_ends_in_json() -> None:
    space = form_of(Tree).space
    inner = space["children"].feature_space
    assert isinstance(inner, Json)
    assert inner.schema is not None
    assert inner.schema["$ref"] == "#/$defs/Tree"
    space.seed(2)
    for _ in range(10):
        assert space.contains(form_of(Tree).to_value(form_of(Tree).from_value(space.sample())))


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Annotated[int, Meta(ge=5, le=3)], r"^\$: no int is from 5 to 3"),
        (Annotated[float, Meta(ge=5, lt=5)], r"^\$: no float is from 5"),
        (np.ndarray, r"no Array\(\) says its dtype"),
        (Annotated[np.ndarray, Array("complex64", (2,))], "complex64 has none"),
        (complex, r"^\$: there is no space for the type complex, of which JSON has no values; make it"),
        (list[np.float32], r"^\$\[\]: there is no space for the type float32"),
        (dict[str, PurePath], "there is no space for the type PurePath"),
        (Annotated[list[PurePath], Meta(max_length=2)], "there is no space for the type PurePath"),
        (Annotated[np.ndarray, Array("uint8", (2,), low=-1)], "there is no space for Array"),
        (Annotated[np.ndarray, Array("float32", (2,), low=1, high=0)], "there is no space for Array"),
    ],
)
def test_what_can_have_no_space_is_refused(hint: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Builder().build(kind_of(hint))
