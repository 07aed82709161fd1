"""Type hints as kinds."""

from __future__ import annotations

import enum
from typing import Annotated, Any, NewType, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from msgspec import Meta

from openenv_gym.errors import ConfigError
from openenv_gym.models import Array
from openenv_gym.structs.hints import kind_of
from openenv_gym.structs.kinds import (
    MISSING,
    Choice,
    Either,
    Fixed,
    Items,
    Limits,
    Numpy,
    Object,
    Other,
    Plain,
)
from tests.structs.zoo import Cat, Dog, Everything, Level, Size, Tree

_Natural = NewType("_Natural", int)
_T = TypeVar("_T", bound=int)
_Positive = Annotated[int, Meta(gt=0)]


class Flags(enum.Flag):
    A = 1


class Listed(msgspec.Struct, array_like=True):
    a: int


@pytest.mark.parametrize("hint", [int, _Natural, _T, Annotated[int, "a note"]])
def test_what_wraps_a_type_is_taken_off(hint: Any) -> None:
    found = kind_of(hint)
    assert isinstance(found, Plain)
    assert found.name == "integer"
    assert found.limits == Limits()


def test_constraints_add_up() -> None:
    found = kind_of(Annotated[_Positive, Meta(le=9, title="A digit", extra_json_schema={"x": 1})])
    assert (found.limits.gt, found.limits.le) == (0, 9)
    assert dict(found.limits.notes) == {"title": "A digit", "x": 1}
    either = kind_of(Annotated[int | None, Meta(ge=3)])
    assert isinstance(either, Either)
    assert either.options[0].limits.ge == 3


def test_structs_and_dataclasses_are_objects() -> None:
    found = kind_of(Everything)
    assert isinstance(found, Object)
    assert found.fields[1].name == "boundedInt"
    assert all(not each.required for each in found.fields)
    size = kind_of(Size)
    assert isinstance(size, Object)
    assert [(each.name, each.required, each.default) for each in size.fields] == [
        ("width", True, MISSING),
        ("height", False, 1),
    ]
    assert size.about == ""
    assert [kind_of(one).tag for one in (Cat, Dog)] == [("type", "cat"), ("type", "dog")]  # type: ignore[attr-defined]


def test_a_struct_may_hold_itself() -> None:
    found = kind_of(Tree)
    assert isinstance(found, Object)
    children = found.fields[1].kind
    assert isinstance(children, Items)
    assert children.item is found


@pytest.mark.parametrize("hint", [np.ndarray, npt.NDArray[np.float32], np.ndarray[Any, Any]])
def test_arrays_are_arrays_however_they_are_spelled(hint: Any) -> None:
    assert isinstance(kind_of(hint), Numpy)
    found = kind_of(Annotated[hint, Array("uint8", (-1, 3))])
    assert isinstance(found, Numpy)
    assert found.spec == Array("uint8", (-1, 3))


def test_choices_have_names() -> None:
    found = kind_of(Level)
    assert isinstance(found, Choice)
    assert (found.values, found.names) == ((1, 5), ("LOW", "HIGH"))


@pytest.mark.parametrize(("hint", "size"), [(tuple[()], 0), (tuple[int], 1), (tuple[int, str], 2)])
def test_fixed_tuples(hint: Any, size: int) -> None:
    found = kind_of(hint)
    assert isinstance(found, Fixed)
    assert len(found.items) == size


def test_any_other_type_keeps_its_schema() -> None:
    found = kind_of(set[int])
    assert isinstance(found, Other)
    assert found.schema["uniqueItems"] is True
    for hint in (Flags, Listed, frozenset[str]):
        assert isinstance(kind_of(hint), Other)


def test_a_type_that_json_has_not_is_known_by_its_name() -> None:
    found = kind_of(complex)
    assert isinstance(found, Other)
    assert (found.schema, found.foreign) == ({}, "complex")


def test_an_object_is_anything() -> None:
    found = kind_of(object)
    assert isinstance(found, Plain)
    assert found.name == "any"


def test_a_field_that_may_be_unset_may_be_absent() -> None:
    found = kind_of(msgspec.defstruct("Odd", [("a", int | msgspec.UnsetType, msgspec.UNSET)]))
    assert isinstance(found, Object)
    (field,) = found.fields
    assert isinstance(field.kind, Plain)
    assert (field.required, field.default) == (False, MISSING)


def test_unions_in_unions_are_one() -> None:
    found = kind_of(int | None | Annotated[bool | str, Meta(title="x")])
    assert isinstance(found, Either)
    assert [one.name for one in found.options] == ["integer", "null", "boolean", "string"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "bounded",
    [
        Annotated[str, Meta(max_length=4)],
        Annotated[int, Meta(ge=0)],
        Annotated[float, Meta(lt=1)],
        Annotated[dict[str, int], Meta(min_length=1)],
    ],
)
def test_a_union_that_msgspec_cannot_read_is_refused(bounded: Any) -> None:
    cls = msgspec.defstruct("Odd", [("field", bounded | tuple[int, int] | None)])
    with pytest.raises(ConfigError, match=r"instead of the tuple$"):
        kind_of(cls)
    kind_of(bounded | Annotated[list[int], Meta(min_length=2, max_length=2)])
    kind_of(str | tuple[int, int])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Array("object", (2,)), "names no dtype that travels; they are bool, complex128"),
        (Array("uint8", (-2,)), "must be a tuple of sizes"),
        (Array("uint8", [2]), "must be a tuple of sizes"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_array_is_refused(spec: Array, words: str) -> None:
    cls = msgspec.defstruct("Odd", [("array", Annotated[np.ndarray, spec])])
    with pytest.raises(ConfigError, match=words):
        kind_of(cls)


def test_a_name_that_leads_nowhere_is_refused() -> None:
    cls = type("Lost", (msgspec.Struct,), {"__annotations__": {"a": "Nowhere"}, "__module__": __name__})
    with pytest.raises(ConfigError, match="a type of a field of Lost cannot be resolved: name 'Nowhere'"):
        kind_of(cls)


def test_a_pydantic_model_is_refused_wherever_it_stands() -> None:
    model: Any = type("Guess", (), {"model_fields": {}})
    for hint in (model, list[model], model | None):
        with pytest.raises(ConfigError, match="Guess is a pydantic model; derive it from"):
            kind_of(hint)


def test_a_field_of_pydantic_is_no_default() -> None:
    info = type("FieldInfo", (), {"__module__": "pydantic.fields"})()
    guess = msgspec.defstruct("Guess", [("number", int, info)])
    with pytest.raises(ConfigError, match=r"default of Guess.number is pydantic's Field\(...\); write"):
        kind_of(guess)
