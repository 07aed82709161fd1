"""Kinds of values: what a type or a JSON Schema says, in one form that both share.

Type hints become kinds in :mod:`.hints`, kinds become JSON Schemas in :mod:`.schemas` and Gymnasium spaces in
:mod:`openenv_gym.forms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..models import Array

__all__ = [
    "MISSING",
    "NOT_FINITE",
    "Choice",
    "Either",
    "Field",
    "Fixed",
    "Items",
    "Kind",
    "Limits",
    "Mapping",
    "Numpy",
    "Object",
    "Other",
    "Plain",
    "walk",
]

MISSING: Any = object()
"""In place of a default: there is none."""

NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""How JSON texts spell the numbers that JSON has not."""


@dataclass(frozen=True)
class Limits:
    """Constraints, named as in ``msgspec.Meta``, and what a schema tells people."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    notes: tuple[tuple[str, Any], ...] = ()


@dataclass(eq=False)
class Kind:
    """A kind of values. Compared by identity, so that recursive ones can be."""

    limits: Limits = field(default=Limits(), kw_only=True)


@dataclass(eq=False)
class Plain(Kind):
    """A value without parts: ``name`` is null, boolean, integer, number, string, binary or any."""

    name: str


@dataclass(eq=False)
class Choice(Kind):
    """One of several values: ``values`` on the wire, ``names`` for people."""

    values: tuple[Any, ...]
    names: tuple[str, ...]


@dataclass(eq=False)
class Numpy(Kind):
    """A numpy array; ``spec`` is ``None`` where nothing is known of it. ``nested``: lists in Python, too."""

    spec: Array | None
    nested: bool = False


@dataclass(eq=False)
class Items(Kind):
    """Any number of values of one kind."""

    item: Kind


@dataclass(eq=False)
class Fixed(Kind):
    """As many values as there are kinds."""

    items: tuple[Kind, ...]


@dataclass(eq=False)
class Mapping(Kind):
    """A dict of values of one kind, with keys of one kind; ``None``: any text."""

    item: Kind
    key: Kind | None = None


@dataclass(eq=False)
class Either(Kind):
    """A value of one of several kinds."""

    options: tuple[Kind, ...]


@dataclass(eq=False)
class Other(Kind):
    """Whatever else msgspec knows, or any JSON Schema: only ``schema`` is known of it.

    ``foreign`` is the name of a type that JSON has no values for.
    """

    schema: dict[str, Any]
    foreign: str = ""


@dataclass(eq=False)
class Field:
    """A field of an object.

    Attributes:
        name: What it is called in a map.
        kind: Its values.
        required: Whether a map must have it.
        default: As it travels, or :data:`MISSING`.
    """

    name: str
    kind: Kind
    required: bool = True
    default: Any = MISSING


@dataclass(eq=False)
class Object(Kind):
    """A value with named fields; ``fields`` is filled in after the object exists, since it may hold itself.

    Attributes:
        name: Its title.
        cls: The Struct or dataclass, or ``None``: a dict.
        fields: Its fields.
        tag: (name of the tag's field, the tag) or ``None``.
        closed: Whether other fields are refused.
        about: What a schema tells people.
    """

    name: str
    cls: type | None
    fields: tuple[Field, ...] = ()
    tag: tuple[str, Any] | None = None
    closed: bool = False
    about: str = ""

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """Return the kinds of the fields by name."""
        return {each.name: each.kind for each in self.fields}


def walk(kind: Kind) -> Iterator[Kind]:
    """Yield ``kind`` and every kind in it, each once."""
    seen: set[int] = set()
    todo = [kind]
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            todo.extend(_parts(one))
            yield one


def _parts(kind: Kind) -> tuple[Kind, ...]:
    match kind:
        case Object():
            return tuple(each.kind for each in kind.fields)
        case Items() | Mapping():
            return (kind.item,)
        case Fixed():
            return kind.items
        case Either():
            return kind.options
    return ()
