"""numpy arrays in maps. numpy is imported when there is one: a client without arrays does not pay for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..errors import ValidationError, ValueNotCarriedError
from ..models import Array
from .kinds import NOT_FINITE, Kind, Numpy, Object, walk

__all__ = ["exactness", "is_finite", "is_numpy", "numpy_array", "plain_numpy", "shape_fits"]


def is_numpy(value: Any) -> bool:
    """Return whether ``value`` is an array or a scalar of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def is_finite(value: Any) -> bool:
    """Return whether an array or a scalar has nothing but numbers and bools that JSON has, too."""
    import numpy as np

    kind = value.dtype.kind
    return kind in "biu" or (kind == "f" and bool(np.isfinite(value).all()))


def plain_numpy(value: Any, path: str) -> Any:
    """Return an array as nested lists, a scalar as Python's own.

    Raises:
        ValueNotCarriedError: Its items are complex, dates, records or the like.
    """
    if value.dtype.kind not in "biufSUO":
        raise ValueNotCarriedError(
            f"{path} has no form in JSON: an array of dtype {value.dtype}; use numbers or text", path=path
        )
    return value.tolist()


def shape_fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether ``shape`` is ``wanted``, in which -1 is any size."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(size == want or want == -1 for size, want in pairs)


def exactness(kind: Kind) -> Callable[[Any], bool] | None:
    """Return what tells of a map whether its arrays are exactly as ``kind`` wants them: the common case.

    ``None``: a look at shapes and dtypes is not enough for that.
    """
    fields = kind.fields if isinstance(kind, Object) else ()
    arrays = {each.name: each.kind for each in fields if isinstance(each.kind, Numpy)}
    specs = [one.spec for one in arrays.values() if not one.nested]
    if len(specs) < sum(isinstance(one, Numpy) for one in walk(kind)):
        return None
    if any(spec is None or _is_bounded(spec) or -1 in spec.shape for spec in specs):
        return None
    import numpy as np

    due = [(name, spec.shape, np.dtype(spec.dtype)) for name, spec in zip(arrays, specs, strict=True) if spec]

    def are_exact(data: Any) -> bool:
        if type(data) is not dict:
            return False
        for name, shape, dtype in due:
            array = data.get(name)
            if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return False
        return True

    return are_exact


def numpy_array(kind: Numpy, data: Any, path: str) -> Any:
    """Return ``data``, an array or nested lists of numbers, as the array that ``kind`` describes.

    Raises:
        ValidationError: It is none, or has another shape, other numbers or numbers out of bounds.
    """
    import numpy as np

    spec = kind.spec
    number = type(data) in (int, float, bool) or (isinstance(data, str) and data in NOT_FINITE)
    if not number and not isinstance(data, np.ndarray | np.generic | list | tuple):
        return data
    given = isinstance(data, np.ndarray | np.generic)
    array = np.asarray(data) if given else _from_lists(data, spec, path)
    if spec is None:
        return array
    wanted = np.dtype(spec.dtype)
    if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "safe"):
        raise _wrong(path, spec, f"an array of {array.dtype}")
    if not shape_fits(array.shape, spec.shape):
        raise _wrong(path, spec, f"one of shape {array.shape}")
    _check_bounds(array, spec, path)
    return array.astype(wanted, copy=False)


def _is_bounded(spec: Array) -> bool:
    return spec.low is not None or spec.high is not None


def _from_lists(data: Any, spec: Array | None, path: str) -> Any:
    import numpy as np

    flat: list[Any] = []
    rows = _undone(data, flat)
    if spec is None:
        try:
            return np.array(rows)
        except ValueError as exc:
            raise ValidationError(
                f"{path}: expected an array, got lists of unequal lengths", path=path
            ) from exc
    wanted = np.dtype(spec.dtype)
    allowed = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "c": (int, float)}[wanted.kind]
    odd = [item for item in flat if type(item) not in allowed]
    if odd:
        raise _wrong(path, spec, f"{str(odd[0])[:40]!r} in it")
    if wanted.kind in "iu" and flat:
        info = np.iinfo(wanted)
        if min(flat) < info.min or max(flat) > info.max:
            raise _wrong(path, spec, f"numbers from {min(flat)} to {max(flat)}")
    try:
        with np.errstate(over="raise"):
            array = np.array(rows, wanted)
    except (ValueError, OverflowError, FloatingPointError) as exc:
        raise _wrong(path, spec, "lists of unequal lengths, or numbers too large") from exc
    empty = array.size == 0 and len(spec.shape) == array.ndim + _lost_axes(array, spec)
    return array.reshape(_empty_shape(array.shape, spec.shape)) if empty else array


def _undone(data: Any, flat: list[Any]) -> Any:
    """Return nested lists with the spellings of NaN and infinities undone, and collect their items."""
    if isinstance(data, list | tuple):
        return [_undone(item, flat) for item in data]
    value = NOT_FINITE.get(data, data) if isinstance(data, str) else data
    flat.append(value)
    return value


def _lost_axes(array: Any, spec: Array) -> int:
    """Return how many axes nested lists of no items do not show: ``[]`` may be of shape (0, 3)."""
    return len(spec.shape) - array.ndim if 0 in array.shape else 0


def _empty_shape(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    return shape + tuple(0 if size == -1 else size for size in wanted[len(shape) :])


def _check_bounds(array: Any, spec: Array, path: str) -> None:
    low = spec.low is None or bool((array >= spec.low).all())
    high = spec.high is None or bool((array <= spec.high).all())
    if not (low and high):
        raise _wrong(path, spec, "numbers out of its bounds")


def _wrong(path: str, spec: Array, found: str) -> ValidationError:
    bounds = "" if not _is_bounded(spec) else f", items from {spec.low} to {spec.high}"
    return ValidationError(
        f"{path}: expected an array of {spec.dtype}, shape {spec.shape}{bounds}, got {found}", path=path
    )
