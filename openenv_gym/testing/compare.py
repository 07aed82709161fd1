"""Equality that a test can trust: type, dtype, shape and bits all count."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

__all__ = ["canonical", "difference", "digest", "same"]

_LONGEST = 120


def canonical(value: Any) -> Any:
    """Return nested tuples that are equal exactly for values of equal types and equal bits.

    NaN equals itself when its payload does; ``0.0`` differs from ``-0.0``, ``1`` from ``True`` and from
    ``np.int64(1)``. The order of a dict's items counts, that of a set's does not. A value of any other class
    is known by its ``repr``.
    """
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return name, "object", value.shape, _each(value.ravel().tolist())
        return name, value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, np.generic):
        return name, value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return name, struct.pack("<d", value)
    if isinstance(value, complex):
        return name, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, GraphInstance):
        return name, canonical(value.nodes), canonical(value.edges), canonical(value.edge_links)
    if isinstance(value, Mapping):
        return name, tuple((canonical(key), canonical(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return name, tuple(sorted(map(repr, _each(value))))
    if isinstance(value, (list, tuple)):
        return name, _each(value)
    return name, repr(value)


def same(left: Any, right: Any) -> bool:
    """Return whether both values have the same types and the same bits, all the way down."""
    return bool(canonical(left) == canonical(right))


def digest(value: Any) -> str:
    """Return a short text that is equal for equal :func:`canonical` forms, in any process."""
    hasher = hashlib.sha256()
    _feed(hasher.update, canonical(value))
    return hasher.hexdigest()[:16]


def _feed(update: Callable[[bytes], object], part: Any) -> None:
    """Hash a part of a canonical form; the repr of big bytes would take several times their size."""
    if isinstance(part, tuple):
        update(b"(")
        for item in part:
            _feed(update, item)
        update(b")")
    elif isinstance(part, bytes):
        update(b"%d:" % len(part))
        update(part)
    else:
        update(repr(part).encode("utf-8", "backslashreplace") + b",")


def difference(left: Any, right: Any, path: str = "value") -> str | None:
    """Return where and how two values differ first, or ``None`` when they are the :func:`same`.

    Args:
        left: One value.
        right: The other.
        path: What the text calls them: ``"info['x'][2] is 1, not True"``.
    """
    if same(left, right):
        return None
    if type(left) is type(right):
        inner = _inner_difference(left, right, path)
        if inner is not None:
            return inner
    return f"{path} is {_shown(left)}, not {_shown(right)}"


def _inner_difference(left: Any, right: Any, path: str) -> str | None:
    if isinstance(left, Mapping):
        if not same(list(left), list(right)):
            return f"{path} has the keys {_cut(list(left))}, not {_cut(list(right))}"
        parts = [(f"[{key!r}]", left[key], right[key]) for key in left]
    elif isinstance(left, list | tuple) and len(left) == len(right):
        names = getattr(left, "_fields", None)
        keys = [f"[{index}]" for index in range(len(left))] if names is None else [f".{n}" for n in names]
        parts = list(zip(keys, left, right, strict=True))
    elif isinstance(left, np.ndarray) and left.dtype == right.dtype and left.shape == right.shape:
        return _array_difference(left, right, path)
    else:
        return None
    return next((text for key, a, b in parts if (text := difference(a, b, path + key))), None)


def _array_difference(left: Any, right: Any, path: str) -> str | None:
    places = [place for place in np.ndindex(left.shape) if not same(left[place], right[place])]
    if not places:
        return None
    key = ", ".join(map(str, places[0]))
    first = f"{path}[{key}] is {_cut(left[places[0]])}, not {_cut(right[places[0]])}"
    return f"{first} ({len(places)} of {left.size} elements differ)"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return _cut(value) if isinstance(value, np.generic) else f"{_cut(value)} ({type(value).__name__})"


def _cut(value: Any) -> str:
    # numpy 1 shows no type.
    text = f"np.{value.dtype}({value.item()!r})" if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _each(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(canonical(item) for item in values)
