"""Parts of a form that have parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ..errors import ValidationError
from ..structs.kinds import MISSING
from .parts import JsonPart, NullPart, Part, RealPart, number_of, wrong

__all__ = ["Entry", "ItemsPart", "ObjectPart", "OneOfPart", "SinglePart", "TuplePart", "chosen"]


class ItemsPart(Part):
    """Any number of values: ``Sequence``."""

    def __init__(self, item: Part) -> None:
        self.item = item
        self.space = spaces.Sequence(item.space, stack=False)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`.Part`."""
        if not isinstance(data, list | tuple):
            raise wrong(path, "an array", data)
        return tuple(self.item.to_value(item, f"{path}[{at}]") for at, item in enumerate(data))

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`.Part`."""
        if not isinstance(value, list | tuple):
            raise wrong(path, "a tuple", value)
        return [self.item.from_value(item, f"{path}[{at}]") for at, item in enumerate(value)]


class TuplePart(Part):
    """A fixed number of values: ``Tuple``."""

    def __init__(self, items: Sequence[Part]) -> None:
        self.items = items
        self.space = spaces.Tuple([item.space for item in items])

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`.Part`."""
        return tuple(one.to_value(item, where) for one, item, where in self._pairs(data, path))

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`.Part`."""
        return [one.from_value(item, where) for one, item, where in self._pairs(value, path)]

    def _pairs(self, data: Any, path: str) -> list[tuple[Part, Any, str]]:
        if not isinstance(data, list | tuple) or len(data) != len(self.items):
            raise wrong(path, f"an array of {len(self.items)} items", data)
        return [
            (one, item, f"{path}[{at}]") for at, (one, item) in enumerate(zip(self.items, data, strict=True))
        ]


@dataclass(frozen=True)
class Entry:
    """A field of an object.

    Attributes:
        name: What maps and the space call it.
        part: Its values.
        default: What a map without it means, or :data:`.MISSING`.
        optional: Whether maps may be without it where it has no default. Then the space is a ``OneOf`` of its
            own and of ``Discrete(1)``, which says that it is not there.
    """

    name: str
    part: Part
    default: Any = MISSING
    optional: bool = False

    @property
    def space(self) -> Any:
        """Return the space of its values."""
        return spaces.OneOf([self.part.space, spaces.Discrete(1)]) if self.optional else self.part.space

    def to_value(self, data: dict[str, Any], path: str) -> Any:
        """Return the value of the space for what ``data`` has under this name."""
        place = f"{path}.{self.name}"
        found = data.get(self.name, self.default)
        if self.optional:
            absent = found is MISSING
            value = np.int64(0) if absent else self.part.to_value(found, place)
            return np.int64(absent), value
        if found is MISSING:
            raise ValidationError(f"{place}: missing; it is required", path=place)
        return self.part.to_value(found, place)

    def from_value(self, value: Any, path: str) -> Any:
        """Return what a map has under this name, or :data:`.MISSING`."""
        place = f"{path}.{self.name}"
        if not self.optional:
            return self.part.from_value(value, place)
        which, inner = chosen(value, 2, place)
        return MISSING if which else self.part.from_value(inner, place)


class ObjectPart(Part):
    """A value with named fields: ``Dict``.

    Args:
        entries: The fields.
        tag: (name, value) of the field that tells which of several objects it is; it is not in the space.
        ignored: Names that maps may have besides.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        tag: tuple[str, Any] | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self.entries = entries
        self.tag = tag
        self.ignored = ignored
        self.names = frozenset(one.name for one in entries) | ({tag[0]} if tag else set())
        self.space: Any = spaces.Dict([(one.name, one.space) for one in entries])

    def check(self, data: Any, path: str) -> None:
        """Raise :class:`.ValidationError` unless ``data`` is a map of these names."""
        if not isinstance(data, dict):
            raise wrong(path, "an object", data)
        unknown = next((name for name in data if name not in self.names | self.ignored), None)
        if unknown is not None:
            place = f"{path}.{unknown}"
            known = ", ".join(sorted(self.names))
            raise ValidationError(f"{place}: there is no such field; the fields are {known}", path=place)
        if self.tag is not None and data.get(self.tag[0], self.tag[1]) != self.tag[1]:
            raise wrong(f"{path}.{self.tag[0]}", repr(self.tag[1]), data[self.tag[0]])

    def tagged(self) -> dict[str, Any]:
        """Return the beginning of a map: the tag."""
        return {self.tag[0]: self.tag[1]} if self.tag else {}

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`.Part`."""
        self.check(data, path)
        return {one.name: one.to_value(data, path) for one in self.entries}

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`.Part`."""
        if not isinstance(value, dict) or len(value) != len(self.entries):
            raise wrong(path, f"a dict of {', '.join(one.name for one in self.entries) or 'nothing'}", value)
        data = self.tagged()
        for one in self.entries:
            if one.name not in value:
                raise wrong(path, f"a dict with the key {one.name!r}", value)
            found = one.from_value(value[one.name], path)
            if found is not MISSING:
                data[one.name] = found
        return data


class SinglePart(ObjectPart):
    """An object whose only field stands for it: that field's space."""

    def __init__(
        self,
        entries: Sequence[Entry],
        tag: tuple[str, Any] | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(entries, tag, ignored)
        (self.entry,) = entries
        self.space = self.entry.space

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`.Part`."""
        self.check(data, path)
        return self.entry.to_value(data, path)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`.Part`."""
        found = self.entry.from_value(value, path)
        return self.tagged() if found is MISSING else {**self.tagged(), self.entry.name: found}


class OneOfPart(Part):
    """One of several kinds of values: ``OneOf``."""

    def __init__(self, options: Sequence[Part]) -> None:
        self.options = options
        self.space = spaces.OneOf([one.space for one in options])
        # Several JSON values are told apart by their whole schemas, one by its type.
        self._doubtful = sum(isinstance(one, JsonPart) for one in options) > 1

    @staticmethod
    def _breadth(option: Part, whole: bool) -> int:
        """Return how much an option takes: an int is rather an int than a float, and anything comes last."""
        if isinstance(option, JsonPart) and option.type is None:
            return 2
        return int(whole and isinstance(option, RealPart))

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`.Part`; the option that takes ``data``, the more special ones first."""
        whole = type(number_of(data)) is int
        order = sorted(enumerate(self.options), key=lambda pair: self._breadth(pair[1], whole))
        others = []
        for at, option in order:
            try:
                value = option.to_value(data, path)
                if not self._doubtful or not isinstance(option, JsonPart) or option.space.contains(value):
                    return np.int64(at), value
                raise wrong(path, f"a value of {option.space}", data)
            except ValidationError as exc:
                others += [] if isinstance(option, NullPart) else [exc]
        if len(others) == 1:
            raise others[0]
        raise ValidationError(
            f"{path}: fits none of {len(order)} kinds: {'; '.join(map(str, others))}", path=path
        )

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`.Part`."""
        which, inner = chosen(value, len(self.options), path)
        return self.options[which].from_value(inner, path)


def chosen(value: Any, count: int, path: str) -> tuple[int, Any]:
    """Return index and inner value of a value of ``OneOf``."""
    if isinstance(value, tuple | list) and len(value) == 2:
        which = number_of(value[0])
        if type(which) is int and 0 <= which < count:
            return which, value[1]
    raise wrong(path, f"(index below {count}, value)", value)
