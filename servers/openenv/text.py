"""JSON text to values and back.

Python's ``json`` writes ``NaN``, ``Infinity`` and ``-Infinity``, which are no JSON; clients that use it may
send them. What is sent to clients is JSON: those numbers are spelled as in :mod:`..jsonform`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from openenv_gym.errors import ValueNotCarriedError

from ..jsonform import jsonable

__all__ = ["MOST_VALUES", "read_json", "write_json"]

MOST_VALUES = 1 << 22
"""Values in a text. An empty object is three bytes of text and some seventy of memory."""
_DECODE = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode


def read_json(data: bytes | str) -> Any:
    """Return the value that ``data`` spells.

    Raises:
        ValueError: It is not JSON, and the message says where; or it may have more than
            :data:`MOST_VALUES` values.
    """
    if (data.count(",") if isinstance(data, str) else data.count(b",")) >= MOST_VALUES:
        raise ValueError(f"it has {MOST_VALUES} commas or more; large arrays go by the binary protocol")
    try:
        return _DECODE(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        pass
    try:
        return json.loads(data, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_json(value: Any) -> bytes:
    """Return ``value`` as JSON.

    Raises:
        ValueNotCarriedError: Two keys have the same text, or an integer has more digits than Python writes.
    """
    form = jsonable(value)
    try:
        return _ENCODE(form)
    except UnicodeEncodeError:  # a text with lone surrogates, which JSON can escape and UTF-8 cannot hold
        return json.dumps(form, separators=(",", ":")).encode()
    except ValueError as exc:
        raise ValueNotCarriedError(f"the answer has no form in JSON: {exc}") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large for a float; write Infinity if that is meant")
    return number
