"""From kinds of values to parts of a form: the table of docs/howto/typed-spaces.md."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ConfigError
from ..models import Array
from ..structs.kinds import (
    MISSING,
    Choice,
    Either,
    Field,
    Fixed,
    Items,
    Kind,
    Limits,
    Numpy,
    Object,
    Other,
    Plain,
    walk,
)
from ..structs.schemas import kind_schema
from .containers import Entry, ItemsPart, ObjectPart, OneOfPart, SinglePart, TuplePart
from .parts import (
    ArrayPart,
    BooleanPart,
    ChoicePart,
    JsonPart,
    NullPart,
    Part,
    RangePart,
    RealPart,
    StackedPart,
    TextPart,
    WholePart,
)

__all__ = ["Builder"]

_NOTES = ("title", "description", "default", "examples")
_MOST_ITEMS = 2**24
"""Of an array that lists stand for. A space has bounds for every item, and schemas of others ask for any."""

_INT64 = np.iinfo(np.int64)


class Builder:
    """Builds the part of one form.

    Args:
        spelled: Maps are JSON, so they spell NaN and infinities.

    Attributes:
        names: The names behind each ``Discrete`` that stands for named values, by path.
    """

    def __init__(self, spelled: bool = False) -> None:
        self._spelled = spelled
        self.names: dict[str, list[str]] = {}
        self._open: list[Object] = []

    def build(self, kind: Kind, path: str = "$") -> Part:
        """Return the part for values of ``kind``."""
        match kind:
            case Plain():
                return self._plain(kind, path)
            case Choice():
                self.names[path] = list(kind.names)
                return ChoicePart(kind.values)
            case Numpy():
                return self._array(kind, path)
            case Items():
                return self._items(kind, path)
            case Fixed():
                return TuplePart([self.build(one, f"{path}[{at}]") for at, one in enumerate(kind.items)])
            case Either():
                options = kind.options
                return OneOfPart([self.build(one, f"{path}[{at}]") for at, one in enumerate(options)])
            case Object() if kind not in self._open:
                return self.object(kind, path)
        _check_json(kind, path)
        return _json(kind)

    def object(
        self, kind: Object, path: str, *, exclude: frozenset[str] = frozenset(), bare: bool = False
    ) -> ObjectPart:
        """Return the part for an object.

        Args:
            kind: The object.
            path: Where it is.
            exclude: Fields to leave out; maps may have them.
            bare: Let an only field stand for the object.
        """
        self._open.append(kind)
        fields = [each for each in kind.fields if each.name not in exclude]
        entries = [self._entry(each, path) for each in fields]
        self._open.pop()
        return (SinglePart if bare and len(entries) == 1 else ObjectPart)(entries, kind.tag, exclude)

    def _entry(self, each: Field, path: str) -> Entry:
        part = self.build(each.kind, f"{path}.{each.name}")
        return Entry(each.name, part, each.default, not each.required and each.default is MISSING)

    def _plain(self, kind: Plain, path: str) -> Part:
        limits = kind.limits
        match kind.name:
            case "null":
                return NullPart()
            case "boolean":
                return BooleanPart()
            case "integer" if limits.multiple_of is None:
                return _integer(kind, path)
            case "number" if limits.multiple_of is None:
                return self._number(limits, path)
            case "string" if limits.pattern is None and limits.max_length is not None:
                return TextPart(limits.min_length or 0, limits.max_length)
        return _json(kind)

    def _number(self, limits: Limits, path: str) -> Part:
        low, high = _ends(limits)
        if low > high:
            raise ConfigError(f"{path}: no float is from {low} to {high}; change its bounds")
        return RealPart(low, high, self._spelled)

    def _array(self, kind: Numpy, path: str) -> Part:
        spec = kind.spec
        if spec is None or spec.dtype.startswith("complex"):
            why = "no Array() says its dtype and shape" if spec is None else f"{spec.dtype} has none"
            raise ConfigError(
                f"{path}: there is no space for this array: {why}; change that, or give the space"
            )
        if kind.nested and abs(math.prod(spec.shape)) > _MOST_ITEMS:
            return _json(kind)
        if -1 not in spec.shape:
            return ArrayPart(kind)
        return StackedPart(kind) if -1 not in spec.shape[1:] else _json(kind)

    def _items(self, kind: Items, path: str) -> Part:
        array = _lists_as_array(kind)
        if array is not None:
            return ArrayPart(array)
        if kind.limits.min_length or kind.limits.max_length is not None:
            _check_json(kind, path)
            return _json(kind)
        return ItemsPart(self.build(kind.item, f"{path}[]"))


def _check_json(kind: Kind, path: str) -> None:
    """Raise ConfigError if there are values in ``kind`` that JSON has not."""
    for one in walk(kind):
        if isinstance(one, Other) and one.foreign:
            raise ConfigError(
                f"{path}: there is no space for the type {one.foreign}, of which JSON has no values; make it"
                " numbers, text, an array or a Struct of them, or give the space"
            )


def _json(kind: Kind) -> JsonPart:
    schema = kind_schema(kind, spelled=True)
    return JsonPart({word: value for word, value in schema.items() if word not in _NOTES})


def _whole(limits: Limits) -> tuple[int | None, int | None]:
    """Return the least and the greatest int."""
    lows = [math.ceil(limits.ge)] if limits.ge is not None else []
    lows += [math.floor(limits.gt) + 1] if limits.gt is not None else []
    highs = [math.floor(limits.le)] if limits.le is not None else []
    highs += [math.ceil(limits.lt) - 1] if limits.lt is not None else []
    return max(lows, default=None), min(highs, default=None)


def _integer(kind: Plain, path: str) -> Part:
    low, high = _whole(kind.limits)
    if low is not None and high is not None:
        if low > high:
            raise ConfigError(f"{path}: no int is from {low} to {high}; change its bounds")
        fits = low >= _INT64.min and high <= _INT64.max and high - low < _INT64.max
        return RangePart(low, high) if fits else _json(kind)
    outside = any(end is not None and not _INT64.min <= end <= _INT64.max for end in (low, high))
    return _json(kind) if outside else WholePart(low, high)


def _ends(limits: Limits) -> tuple[float, float]:
    """Return the least and the greatest float64."""
    lows, highs = [-math.inf], [math.inf]
    if limits.ge is not None:
        lows.append(float(limits.ge))
    if limits.gt is not None:
        lows.append(math.nextafter(limits.gt, math.inf))
    if limits.le is not None:
        highs.append(float(limits.le))
    if limits.lt is not None:
        highs.append(math.nextafter(limits.lt, -math.inf))
    return max(lows), min(highs)


def _lists_as_array(kind: Kind) -> Numpy | None:
    """Return nested lists of fixed lengths of numbers as an array."""
    shape = []
    while isinstance(kind, Items) and kind.limits.min_length == kind.limits.max_length is not None:
        shape.append(kind.limits.max_length)
        kind = kind.item
    if not shape or not isinstance(kind, Plain) or kind.name not in ("integer", "number"):
        return None
    if kind.limits.multiple_of is not None or not 0 < math.prod(shape) <= _MOST_ITEMS:
        return None
    sizes = tuple(size for size in shape if size is not None)
    if kind.name == "integer":
        low, high = _whole(kind.limits)
        if any(end is not None and not _INT64.min <= end <= _INT64.max for end in (low, high)):
            return None
        return Numpy(Array("int64", sizes, low, high), nested=True)
    ends = _ends(kind.limits)
    return Numpy(Array("float64", sizes, *(None if math.isinf(end) else end for end in ends)), nested=True)
