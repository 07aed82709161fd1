"""Equality that tests can trust: type, dtype, shape and bits all count."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

__all__ = ["canonical", "digest", "same"]


def canonical(value: Any) -> Any:
    """Return nested tuples that are equal exactly for values of equal types and equal bits.

    NaN equals itself when its payload does; ``0.0`` differs from ``-0.0``, ``1`` from ``True`` and from
    ``np.int64(1)``. The order of a dict's items counts, that of a set's does not.
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
    return hashlib.sha256(repr(canonical(value)).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _each(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(canonical(item) for item in values)
