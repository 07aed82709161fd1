"""Scores in the words of a model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["find_score"]

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w%])")

_LONGEST = 64 * 1024


def find_score(text: str, pattern: re.Pattern[str] | None = None) -> float:
    """Return the score in ``text``.

    With ``pattern``: its first match, or the first group of that. Without: the ``"score"`` of the only JSON
    object that has one, else the only number.

    Raises:
        ValueError: There is none, there are several, or it is not finite.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    if pattern is not None:
        match = pattern.search(text)
        if match is None:
            raise ValueError(f"nothing matches {pattern.pattern!r}")
        return _finite(match[1] if pattern.groups else match[0])
    objects = [found["score"] for found in _objects(text) if "score" in found]
    if len(objects) > 1:
        raise ValueError(f"{len(objects)} JSON objects have a score")
    if objects:
        return _finite(objects[0])
    numbers = _NUMBER.findall(text)
    if len(numbers) != 1:
        raise ValueError(f"there are {len(numbers)} numbers" if numbers else "there is no number")
    return _finite(numbers[0])


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Find the JSON objects in ``text``, the outermost only."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        except RecursionError:
            return
        else:
            yield found
        at = text.find("{", end)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"the score is {value!r}")
    try:
        score = float(value)
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(f"the score is {value!r}, not a finite number")
    return score
