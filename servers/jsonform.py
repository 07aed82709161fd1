"""Values as JSON, whatever they are.

Arrays become nested lists, numbers numbers with ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` where JSON has
none, tuples and sets lists, bytes base64 text, dates and times ISO 8601, keys text, and anything else its
repr. Values of spaces have the same spelling (:mod:`openenv_gym.forms`), but there what has none is an error.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from openenv_gym.errors import ValueNotCarriedError

__all__ = ["jsonable"]

_TEXTS = (dt.datetime, dt.date, dt.time, dt.timedelta, UUID, Decimal)


def jsonable(value: Any) -> Any:
    """Return ``value`` in JSON's types; see the top of this module for the spelling.

    Raises:
        ValueNotCarriedError: Two keys of a map have the same text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return _map(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if type(value) in _TEXTS:
        return msgspec.to_builtins(value)
    return repr(value)


def _map(value: Mapping[Any, Any]) -> dict[str, Any]:
    form = {str(key): jsonable(item) for key, item in value.items()}
    if len(form) != len(value):
        raise ValueNotCarriedError(
            f"two keys of {list(value)!r:.200} are the same text in JSON; use texts as keys"
        )
    return form


def _array(value: np.ndarray[Any, Any] | np.generic) -> Any:
    kind = value.dtype.kind
    if kind == "f" and value.dtype.itemsize > 8:
        value = value.astype(np.float64)
    if kind in "biu" or (kind == "f" and np.isfinite(value).all()):
        return value.tolist()  # no look at each number of an image
    return jsonable(value.tolist()) if kind in "fSU" else repr(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
