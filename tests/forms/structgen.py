"""Random Struct types, with strategies for their instances."""

from __future__ import annotations

import datetime as dt
import enum
import math
import string
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from msgspec import Meta

from openenv_gym.models import Action, Array, Observation

__all__ = ["Case", "fields_of", "struct_cases"]

_INT64 = st.integers(-(2**63), 2**63 - 1)
_LIMIT = 1e300
_DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 7


class Case(NamedTuple):
    """A type, and what its values may be."""

    hint: Any
    values: st.SearchStrategy[Any]


def fields_of(value: Any) -> Any:
    """Return a form that :func:`same` compares: Structs as dicts that name their classes."""
    if isinstance(value, msgspec.Struct):
        inner = {name: fields_of(getattr(value, name)) for name in value.__struct_fields__}
        return {"class": type(value).__name__, **inner}
    if isinstance(value, list | tuple):
        return type(value)(map(fields_of, value))
    if isinstance(value, dict):
        return {key: fields_of(item) for key, item in value.items()}
    if isinstance(value, enum.Enum | dt.datetime | dt.date | Decimal):
        return repr(value)
    return value


def _one_nan(value: float) -> float:
    """Return ``value``; JSON has one NaN only."""
    return math.nan if math.isnan(value) else value


@st.composite
def _ints(draw: Any) -> Case:
    kind = draw(st.sampled_from(["free", "below", "above", "both", "huge", "multiple"]))
    low, high = sorted((draw(_INT64), draw(_INT64)))
    if kind == "free":
        return Case(int, _INT64)
    if kind == "multiple":
        step = draw(st.integers(1, 10))
        return Case(Annotated[int, Meta(multiple_of=step)], st.integers(-50, 50).map(lambda n: n * step))
    if kind == "below":
        return Case(Annotated[int, Meta(ge=low)], st.integers(low, 2**63 - 1))
    if kind == "above":
        return Case(Annotated[int, Meta(le=high)], st.integers(-(2**63), high))
    if kind == "both":
        low, high = draw(st.integers(-1000, 1000)), draw(st.integers(1001, 3000))
        return Case(Annotated[int, Meta(gt=low - 1, lt=high + 1)], st.integers(low, high))
    return Case(Annotated[int, Meta(ge=low, le=high)], st.integers(low, high))


@st.composite
def _floats(draw: Any) -> Case:
    low, high = sorted((draw(st.floats(-_LIMIT, _LIMIT)), draw(st.floats(-_LIMIT, _LIMIT))))
    kind = draw(st.sampled_from(["free", "ge", "le", "both", "open"]))
    if kind == "free":
        return Case(float, st.floats().map(_one_nan))
    if kind == "ge":
        return Case(Annotated[float, Meta(ge=low)], st.floats(low, allow_nan=False))
    if kind == "le":
        return Case(Annotated[float, Meta(le=high)], st.floats(None, high, allow_nan=False))
    if kind == "both" or math.nextafter(low, high) >= high:
        return Case(Annotated[float, Meta(ge=low, le=high)], st.floats(low, high))
    values = st.floats(low, high, exclude_min=True, exclude_max=True)
    return Case(Annotated[float, Meta(gt=low, lt=high)], values)


@st.composite
def _texts(draw: Any) -> Case:
    if draw(st.booleans()):
        return Case(str, st.text())
    low, high = sorted((draw(st.integers(0, 10)), draw(st.integers(0, 10))))
    return Case(Annotated[str, Meta(min_length=low, max_length=high)], st.text(min_size=low, max_size=high))


@st.composite
def _bytes(draw: Any) -> Case:
    if draw(st.booleans()):
        return Case(bytes, st.binary())
    low, high = sorted((draw(st.integers(0, 10)), draw(st.integers(0, 10))))
    return Case(
        Annotated[bytes, Meta(min_length=low, max_length=high)], st.binary(min_size=low, max_size=high)
    )


@st.composite
def _arrays(draw: Any) -> Case:
    dtype = draw(st.sampled_from(_DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    open_first = draw(st.booleans())
    open_last = draw(st.booleans()) and len(shape) > 1
    spec = (-1, *shape[1:]) if shape and open_first else shape
    spec = (*spec[:-1], -1) if open_last else spec
    elements = None
    if dtype.startswith("float"):
        width: Any = int(dtype[5:])
        elements = st.floats(width=width).map(_one_nan)
    return Case(
        Annotated[np.ndarray, Array(dtype, spec)], hnp.arrays(np.dtype(dtype), shape, elements=elements)
    )


_MOMENTS = st.datetimes(timezones=st.just(dt.UTC)).map(lambda moment: moment.replace(fold=0))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_SIMPLE: list[st.SearchStrategy[Case]] = [
    _ints(),
    _floats(),
    _texts(),
    _bytes(),
    _arrays(),
    st.just(Case(bool, st.booleans())),
    st.just(Case(None, st.none())),
    st.just(Case(Any, _JSON)),
    st.just(Case(Literal["a", "b", 3, None], st.sampled_from(["a", "b", 3, None]))),
    st.just(Case(Colour, st.sampled_from(Colour))),
    st.just(Case(Level, st.sampled_from(Level))),
    st.just(Case(dt.datetime, _MOMENTS)),
    st.just(Case(dt.date, st.dates())),
    st.just(Case(Decimal, st.decimals(allow_nan=False, allow_infinity=False))),
    st.just(Case(set[int], st.sets(st.integers()))),
]


def _deeper(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    makers: list[Callable[[Any], Case]] = [
        lambda case: Case(list[case.hint], st.lists(case.values, max_size=3)),
        lambda case: Case(tuple[case.hint, ...], st.lists(case.values, max_size=3).map(tuple)),
        lambda case: Case(dict[str, case.hint], st.dictionaries(st.text(), case.values, max_size=3)),
    ]
    one = st.tuples(st.sampled_from(makers), inner).map(lambda pair: pair[0](pair[1]))
    fixed = st.lists(inner, max_size=3).map(
        lambda cases: Case(tuple[tuple(case.hint for case in cases)], st.tuples(*(c.values for c in cases)))
    )
    return one | fixed | _optional(inner) | _structs(inner) | _sized(inner) | _unions(inner)


def _sized(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def make(parts: tuple[Case, int, int]) -> Case:
        case, low, more = parts
        hint = Annotated[list[case.hint], Meta(min_length=low, max_length=low + more)]
        return Case(hint, st.lists(case.values, min_size=low, max_size=low + more))

    return st.tuples(inner, st.integers(1, 2), st.integers(0, 1)).map(make)


def _optional(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    plain = inner.filter(lambda case: case.hint is not Any)
    return plain.map(lambda case: Case(Union[case.hint, None], st.none() | case.values))  # noqa: UP007


@st.composite
def _structs(draw: Any, inner: st.SearchStrategy[Case], base: Any = msgspec.Struct, **config: Any) -> Case:
    names = draw(st.lists(st.sampled_from(string.ascii_lowercase), unique=True, max_size=4))
    cases = {name: draw(inner) for name in names}
    config.setdefault("forbid_unknown_fields", draw(st.booleans()))
    hints = [(name, case.hint) for name, case in cases.items()]
    title = f"Made{draw(st.integers(0, 10**9))}"
    bases = None if base is msgspec.Struct else (base,)
    cls = msgspec.defstruct(title, hints, bases=bases, kw_only=True, **config)
    return Case(cls, st.builds(cls, **{name: case.values for name, case in cases.items()}))


@st.composite
def _unions(draw: Any, inner: st.SearchStrategy[Case]) -> Case:
    first, second = (draw(_structs(inner, tag=tag)) for tag in ("one", "two"))
    more = draw(
        st.lists(st.sampled_from([Case(int, _INT64), Case(bool, st.booleans()), Case(str, st.text())]))
    )
    cases = [first, second, *{case.hint: case for case in more}.values()]
    hint = Union[tuple(draw(st.permutations([case.hint for case in cases])))]  # noqa: UP007
    return Case(hint, st.one_of([case.values for case in cases]))


def struct_cases() -> st.SearchStrategy[Case]:
    """Return a strategy for Struct types."""
    inner = st.recursive(st.one_of(_SIMPLE), _deeper, max_leaves=4)
    bases = st.sampled_from([msgspec.Struct, Action, Observation])
    return bases.flatmap(lambda base: _structs(inner, base=base))
