"""Parts that have parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

from openenv_gym.errors import ValidationError
from openenv_gym.forms.containers import (
    Entry,
    ItemsPart,
    ObjectPart,
    OneOfPart,
    SinglePart,
    TuplePart,
)
from openenv_gym.forms.parts import BooleanPart, JsonPart, NullPart, Part, RangePart, RealPart, WholePart
from openenv_gym.testing.compare import same

_DIGIT = RangePart(0, 9)
_ANY_FLOAT = RealPart(-np.inf, np.inf)
_OBJECT = ObjectPart([Entry("a", BooleanPart()), Entry("b", _DIGIT, default=3)], tag=("type", "x"))


@pytest.mark.parametrize(
    ("part", "data", "value"),
    [
        (ItemsPart(_DIGIT), [1, 2], (np.int64(1), np.int64(2))),
        (TuplePart([_DIGIT, BooleanPart()]), [1, True], (np.int64(1), np.int64(1))),
        (_OBJECT, {"type": "x", "a": True, "b": 4}, {"a": np.int64(1), "b": np.int64(4)}),
        (SinglePart([Entry("a", _DIGIT)], tag=("type", "x")), {"type": "x", "a": 4}, np.int64(4)),
        (SinglePart([Entry("a", _DIGIT, optional=True)]), {}, (np.int64(1), np.int64(0))),
        (SinglePart([Entry("a", _DIGIT, optional=True)]), {"a": 4}, (np.int64(0), np.int64(4))),
        (OneOfPart([_ANY_FLOAT, WholePart(None, None)]), 3, (np.int64(1), np.array(3))),
        (OneOfPart([_ANY_FLOAT, WholePart(None, None)]), 3.0, (np.int64(0), np.array(3.0))),
        (OneOfPart([JsonPart({}), NullPart()]), None, (np.int64(1), np.int64(0))),
        (
            OneOfPart([JsonPart({"type": "string", "pattern": "^a"}), JsonPart({"type": "string"})]),
            "b",
            (np.int64(1), "b"),
        ),
    ],
)
def test_data_and_values_stand_for_each_other(part: Part, data: Any, value: Any) -> None:
    assert same(part.to_value(data, "$"), value)
    assert same(part.from_value(value, "$"), data)
    assert part.space.contains(value)


def test_a_default_and_ignored_names() -> None:
    assert same(_OBJECT.to_value({"a": False}, "$"), {"a": np.int64(0), "b": np.int64(3)})
    part = ObjectPart([Entry("a", _DIGIT)], ignored=frozenset({"metadata"}))
    assert same(part.to_value({"a": 1, "metadata": {}}, "$"), {"a": np.int64(1)})
    assert part.space == gs.Dict(a=gs.Discrete(10))


@pytest.mark.parametrize(
    ("part", "data", "path", "words"),
    [
        (ItemsPart(_DIGIT), "ab", "$", "an array"),
        (ItemsPart(_DIGIT), [1, 10], "$[1]", "from 0 to 9"),
        (TuplePart([_DIGIT]), [1, 1], "$", "an array of 1 items"),
        (_OBJECT, [], "$", "an object"),
        (_OBJECT, {"b": 1}, "$.a", "missing"),
        (_OBJECT, {"a": True, "c": 1}, "$.c", "the fields are a, b, type"),
        (_OBJECT, {"a": True, "type": "y"}, "$.type", "expected 'x'"),
        (OneOfPart([_DIGIT, NullPart()]), 10, "$", "from 0 to 9"),
        (OneOfPart([_DIGIT, BooleanPart()]), "a", "$", "fits none of 2 kinds"),
    ],
)
def test_other_data_is_refused(part: Part, data: Any, path: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        part.to_value(data, "$")
    assert caught.value.details == {"path": path}
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("part", "value", "path"),
    [
        (ItemsPart(_DIGIT), 1, "$"),
        (ItemsPart(_DIGIT), ("a",), "$[0]"),
        (TuplePart([_DIGIT]), (), "$"),
        (_OBJECT, {"a": 1}, "$"),
        (_OBJECT, {"a": 1, "c": 1}, "$"),
        (_OBJECT, {"a": 1, "b": "x"}, "$.b"),
        (OneOfPart([_DIGIT]), (1, 0), "$"),
        (OneOfPart([_DIGIT]), (True, 0), "$"),
        (OneOfPart([_DIGIT]), 0, "$"),
    ],
)
def test_other_values_are_refused(part: Part, value: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        part.from_value(value, "$")
    assert caught.value.details == {"path": path}
