"""Parts without parts: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ValidationError
from openenv_gym.forms.parts import (
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
    number_of,
)
from openenv_gym.models import Array
from openenv_gym.structs.kinds import Numpy
from openenv_gym.testing.compare import same

_INF = float("inf")
_PAIR = ArrayPart(Numpy(Array("float32", (2,))))
_LISTS = ArrayPart(Numpy(Array("float64", (2,)), nested=True))
_ROWS = StackedPart(Numpy(Array("int8", (-1, 2))))
_ROW = StackedPart(Numpy(Array("int8", (-1,))))


@pytest.mark.parametrize(
    ("part", "data", "value"),
    [
        (NullPart(), None, np.int64(0)),
        (BooleanPart(), True, np.int64(1)),
        (RangePart(1, 9), 9, np.int64(9)),
        (WholePart(0, None), 3, np.array(3)),
        (RealPart(-_INF, _INF), -0.0, np.array(-0.0)),
        (RealPart(-_INF, _INF), float("nan"), np.array(float("nan"))),
        (RealPart(-_INF, _INF, spelled=True), "-Infinity", np.array(-_INF)),
        (TextPart(1, 3), "é", "é"),
        (ChoicePart(("a", 1, True, None, [1])), True, np.int64(2)),
        (ChoicePart(("a", 1, True, None, [1])), [1], np.int64(4)),
        (JsonPart({}), {"a": [None]}, {"a": [None]}),
        (_PAIR, np.array([1, 2], np.float32), np.array([1, 2], np.float32)),
        (_LISTS, [1.0, "NaN"], np.array([1.0, np.nan])),
        (_ROWS, np.zeros((0, 2), np.int8), np.zeros((0, 2), np.int8)),
        (_ROW, np.arange(3, dtype=np.int8), np.array([[0], [1], [2]], np.int8)),
    ],
)
def test_data_and_values_stand_for_each_other(part: Part, data: Any, value: Any) -> None:
    assert same(part.to_value(data, "$"), value)
    assert same(part.from_value(value, "$"), data)


@pytest.mark.parametrize(
    ("part", "data"),
    [
        (NullPart(), 0),
        (BooleanPart(), 1),
        (RangePart(1, 9), 10),
        (RangePart(1, 9), 1.0),
        (RangePart(0, 1), True),
        (WholePart(0, None), -1),
        (WholePart(None, None), 2**63),
        (RealPart(0, 1), 1.5),
        (RealPart(0, 1), float("nan")),
        (RealPart(-_INF, _INF), "NaN"),
        (RealPart(-_INF, _INF), 10**400),
        (RealPart(-_INF, _INF), True),
        (TextPart(1, 3), ""),
        (TextPart(1, 3), b"a"),
        (ChoicePart(("a", 1)), True),
        (JsonPart({"type": "object"}), []),
        (_PAIR, [1, 2, 3]),
        (_PAIR, None),
        (_PAIR, np.array([1, 2], np.float64)),
        (_ROWS, np.zeros((2, 3), np.int8)),
    ],
)
def test_other_data_is_refused(part: Part, data: Any) -> None:
    with pytest.raises(ValidationError, match=r"^\$\.here: expected ") as caught:
        part.to_value(data, "$.here")
    assert caught.value.details == {"path": "$.here"}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (NullPart(), 1),
        (BooleanPart(), 2),
        (BooleanPart(), 1.0),
        (RangePart(1, 9), "1"),
        (RangePart(1, 9), np.array([1])),
        (WholePart(None, None), 1.0),
        (RealPart(0, 1), "1"),
        (TextPart(0, 3), 1),
        (ChoicePart(("a",)), 1),
        (ChoicePart(("a",)), 2**70),
        (ChoicePart(("a",)), -1),
        (ChoicePart(("a",)), True),
        (_PAIR, np.zeros(3, np.float32)),
        (_ROW, np.zeros((2, 2), np.int8)),
        (_ROW, np.zeros(2, np.int8)),
    ],
)
def test_other_values_are_refused(part: Part, value: Any) -> None:
    with pytest.raises(ValidationError, match=r"^\$\.here: expected ") as caught:
        part.from_value(value, "$.here")
    assert caught.value.details == {"path": "$.here"}


@pytest.mark.parametrize("value", [3, np.int64(3), np.array(3), np.array(3, np.uint8)])
def test_ints_are_ints_whoever_made_them(value: Any) -> None:
    assert same(RangePart(0, 5).from_value(value, "$"), 3)
    assert same(WholePart(0, None).from_value(value, "$"), 3)
    assert same(RealPart(0, 5).from_value(value, "$"), 3.0)
    assert same(ChoicePart((1, 3, 5)).to_value(value, "$"), np.int64(1))
    assert same(number_of(value), 3)


def test_a_long_value_is_cut_in_messages() -> None:
    with pytest.raises(ValidationError) as caught:
        RangePart(0, 1).to_value("a" * 1000, "$")
    assert len(str(caught.value)) < 150
