"""Parts of a form: one kind of value each, as a space, and the way there and back.

``to_value`` takes what a map has (:mod:`openenv_gym.structs`) and returns a value of ``space``;
``from_value`` returns what a map has. Values are checked on the way to the space, so that what Gymnasium sees
is in it. On the way back only what could not be turned into a map is refused here: the map itself is checked
as a whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ..errors import ConfigError, ValidationError
from ..spaces import Json, Unicode, has_json_type
from ..structs.arrays import numpy_array
from ..structs.kinds import NOT_FINITE, Numpy
from ..structs.maps import jsonable

__all__ = [
    "ArrayPart",
    "BooleanPart",
    "ChoicePart",
    "JsonPart",
    "NullPart",
    "Part",
    "RangePart",
    "RealPart",
    "StackedPart",
    "TextPart",
    "WholePart",
    "number_of",
    "wrong",
]


class Part:
    """A kind of value and its space."""

    space: Space[Any]

    def to_value(self, data: Any, path: str) -> Any:
        """Return the value of the space that ``data`` is.

        Raises:
            ValidationError: It is none.
        """
        raise AssertionError(type(self))

    def from_value(self, value: Any, path: str) -> Any:
        """Return what a map has for ``value``.

        Raises:
            ValidationError: It cannot be told.
        """
        raise AssertionError(type(self))


def wrong(path: str, expected: str, found: Any) -> ValidationError:
    """Return the error for ``found`` where something else was expected."""
    text = repr(found)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    kind = type(found).__name__
    return ValidationError(f"{path}: expected {expected}, got {kind}: {shown}", path=path)


def number_of(value: Any) -> Any:
    """Return a number of numpy, or an array without axes, as Python's own; anything else as it is."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.shape == ()):
        return value.item()
    return value


def _int(value: Any, path: str, expected: str = "an int") -> int:
    number = number_of(value)
    if type(number) is not int:
        raise wrong(path, expected, value)
    return number


class NullPart(Part):
    """``None``: the one value of ``Discrete(1)``."""

    def __init__(self) -> None:
        self.space = spaces.Discrete(1)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        if data is not None:
            raise wrong(path, "null", data)
        return np.int64(0)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        if _int(value, path) != 0:
            raise wrong(path, "0, which stands for None", value)
        return None


class BooleanPart(Part):
    """A bool: ``Discrete(2)``."""

    def __init__(self) -> None:
        self.space = spaces.Discrete(2)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        if not isinstance(data, bool | np.bool_):
            raise wrong(path, "bool", data)
        return np.int64(data)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = number_of(value)
        if type(number) not in (int, bool) or number not in (0, 1):
            raise wrong(path, "0 or 1", value)
        return bool(number)


class RangePart(Part):
    """An int from ``low`` to ``high``: ``Discrete``."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.space = spaces.Discrete(high - low + 1, start=low)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = number_of(data)
        if type(number) is not int or not self.low <= number <= self.high:
            raise wrong(path, f"an int from {self.low} to {self.high}", data)
        return np.int64(number)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        return _int(value, path)


class WholePart(Part):
    """An int without an end: an int64 ``Box`` of no axis."""

    def __init__(self, low: int | None, high: int | None) -> None:
        info = np.iinfo(np.int64)
        self.low, self.high = low if low is not None else info.min, high if high is not None else info.max
        bounds = -np.inf if low is None else low, np.inf if high is None else high
        self.space = spaces.Box(*bounds, (), np.int64)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = number_of(data)
        if type(number) is not int or not self.low <= number <= self.high:
            raise wrong(path, f"an int from {self.low} to {self.high}, as int64", data)
        return np.array(number, np.int64)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        return _int(value, path)


class RealPart(Part):
    """A float: a float64 ``Box`` of no axis. NaN is in no bounds, and otherwise goes through.

    Args:
        low, high: The bounds.
        spelled: Maps spell what JSON has no number for.
    """

    def __init__(self, low: float, high: float, spelled: bool = False) -> None:
        self.low, self.high = low, high
        self.spelled = spelled
        self.free = low == -math.inf and high == math.inf
        self.space = spaces.Box(low, high, (), np.float64)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = number_of(data)
        if self.spelled and isinstance(number, str):
            number = NOT_FINITE.get(number)
        if type(number) not in (float, int):
            raise wrong(path, "float", data)
        try:
            number = float(number)
        except OverflowError as exc:
            raise wrong(path, "float", data) from exc
        if not (self.low <= number <= self.high or (self.free and math.isnan(number))):
            raise wrong(path, f"a float from {self.low} to {self.high}", data)
        return np.array(number, np.float64)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = number_of(value)
        if type(number) not in (float, int):
            raise wrong(path, "float", value)
        return jsonable(float(number), path) if self.spelled else float(number)


class TextPart(Part):
    """Text up to a length: ``Unicode``."""

    def __init__(self, fewest: int, most: int) -> None:
        self.space: Unicode = Unicode(most, fewest)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        if not self.space.contains(data):
            fewest, most = self.space.min_length, self.space.max_length
            raise wrong(path, f"str of {fewest} to {most} characters", data)
        return data

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        if not isinstance(value, str):
            raise wrong(path, "str", value)
        return str(value)


class ChoicePart(Part):
    """One of several values: ``Discrete``, counted in their order."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.index = {_distinct(value): at for at, value in enumerate(values)}
        self.space = spaces.Discrete(len(values))

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        found = self.index.get(_distinct(number_of(data)))
        if found is None:
            raise wrong(path, f"one of {', '.join(map(repr, self.values))}", data)
        return np.int64(found)

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        number = _int(value, path)
        if not 0 <= number < len(self.values):
            raise wrong(path, f"an int from 0 to {len(self.values) - 1}", value)
        return self.values[number]


def _distinct(value: Any) -> tuple[str, str]:
    """Return a key that tells 1, 1.0 and True apart, and can be one for lists and dicts."""
    return type(value).__name__, repr(value)


class JsonPart(Part):
    """Whatever has no other space: ``Json``. Of its schema only ``type`` is checked here."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.type = schema.get("type") if isinstance(schema.get("type"), str) else None
        self.space = Json(schema or None)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        value = jsonable(data, path)
        if self.type is not None and not has_json_type(value, self.type):
            raise wrong(path, self.type, data)
        return value

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        return jsonable(value, path)


class ArrayPart(Part):
    """An array of one shape: ``Box``. ``nested``: maps have lists for it."""

    def __init__(self, kind: Numpy) -> None:
        assert kind.spec is not None
        self.kind = kind
        self.space: spaces.Box = _box(kind, kind.spec.shape)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        array = numpy_array(self.kind, data, path)
        if not isinstance(array, np.ndarray):
            raise wrong(path, f"an array for {self.space}", data)
        return array

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        array = self.to_value(value, path)
        return jsonable(array, path) if self.kind.nested else array


class StackedPart(ArrayPart):
    """An array whose first axis has any length: a stacked ``Sequence``.

    Its elements have an axis even where the array has only one, because Gymnasium's ``Box.contains``
    complains of elements that are numpy scalars.
    """

    def __init__(self, kind: Numpy) -> None:
        assert kind.spec is not None
        self.kind = kind
        self.flat = len(kind.spec.shape) == 1
        rest = (1,) if self.flat else kind.spec.shape[1:]
        self.space: Any = spaces.Sequence(_box(kind, rest), stack=True)

    def to_value(self, data: Any, path: str) -> Any:
        """See :class:`Part`."""
        array = super().to_value(data, path)
        return array.reshape(-1, 1) if self.flat else array

    def from_value(self, value: Any, path: str) -> Any:
        """See :class:`Part`."""
        array = np.asarray(value)
        if self.flat and (array.ndim != 2 or array.shape[1] != 1):
            raise wrong(path, "an array of shape (n, 1)", value)
        array = super().to_value(array.reshape(-1) if self.flat else array, path)
        array = array.reshape(-1) if self.flat else array
        return jsonable(array, path) if self.kind.nested else array


def _box(kind: Numpy, shape: tuple[int, ...]) -> spaces.Box:
    """Return the space of arrays of ``kind``, in another shape."""
    assert kind.spec is not None
    dtype = np.dtype(kind.spec.dtype)
    low, high = _bounds(dtype, kind.spec.low, kind.spec.high)
    try:
        return spaces.Box(low, high, shape, dtype.type)
    except (ValueError, TypeError, OverflowError) as exc:
        raise ConfigError(f"there is no space for {kind.spec}: {exc}; change its bounds") from exc


def _bounds(dtype: np.dtype[Any], low: Any, high: Any) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return -np.inf if low is None else low, np.inf if high is None else high
    info: Any = np.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    if dtype == np.int64:
        # Gymnasium samples the whole range of int64 only where it counts as unbounded.
        return -np.inf if low == info.min else low, np.inf if high == info.max else high
    return low, high
