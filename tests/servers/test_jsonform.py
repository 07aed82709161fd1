"""Values of any kind as JSON."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.servers.jsonform import jsonable


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (2**70, 2**70),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (np.float32("inf"), "Infinity"),
        (np.array([1.0, np.nan]), [1.0, "NaN"]),
        (np.array("x"), "x"),
        (b"\x00\xff", "AP8="),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (1 + 2j, "(1+2j)"),
        (np.array([None]), "array([None], dtype=object)"),
        (np.array([[1, 2]], np.uint8), [[1, 2]]),
        (np.array([1.5, -0.0], np.float16), [1.5, -0.0]),
        (np.array([True]), [True]),
        (np.float64("-inf"), "-Infinity"),
        (np.longdouble(1.5), 1.5),
        (np.array([np.inf], np.longdouble), ["Infinity"]),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00Z"),
        (datetime.timedelta(seconds=1.5), "PT1.5S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
    ],
)
def test_values_have_one_spelling(value: Any, spelling: Any) -> None:
    result = jsonable(value)
    assert result == spelling
    assert type(result) is type(spelling)
    json.dumps(result, allow_nan=False)


def test_keys_that_are_the_same_text_are_an_error() -> None:
    with pytest.raises(ValueNotCarriedError, match=r"two keys of \[1, '1'\]"):
        jsonable({"a": {1: "one", "1": "another"}})
