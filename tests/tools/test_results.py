from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.protocol.values import pack
from openenv_gym.tools.results import ToolResult, error_form, plain, result_form


class Point(msgspec.Struct):
    x: float


@pytest.mark.parametrize(
    ("value", "text", "structured", "data"),
    [
        ("hi", "hi", {"result": "hi"}, "hi"),
        (7, "7", {"result": 7}, 7),
        ({"a": [1]}, '{"a":[1]}', {"a": [1]}, {"a": [1]}),
        (np.float64(0.5), "0.5", {"result": 0.5}, 0.5),
        (np.arange(3), "[0,1,2]", {"result": [0, 1, 2]}, [0, 1, 2]),
        (Point(float("nan")), '{"x":"NaN"}', {"x": "NaN"}, {"x": "NaN"}),
        ((1, b"ab"), '[1,"YWI="]', {"result": [1, "YWI="]}, [1, "YWI="]),
    ],
)
def test_a_result_has_text_a_json_object_and_the_value(
    value: Any, text: str, structured: dict[str, Any], data: Any
) -> None:
    assert result_form(value) == {
        "content": [{"type": "text", "text": text}],
        "structured_content": structured,
        "data": data,
        "is_error": False,
        "meta": None,
    }


def test_nothing_has_no_text() -> None:
    form = result_form(None)
    assert form["content"] == [] and form["structured_content"] == {"result": None} and form["data"] is None


def test_a_tool_result_says_itself_what_it_is() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    form = result_form(ToolResult(content=[picture], data=np.int64(3), meta={"size": 1}))
    assert form == {
        "content": [picture],
        "structured_content": None,
        "data": 3,
        "is_error": False,
        "meta": {"size": 1},
    }


def test_an_error_is_its_message() -> None:
    form = error_form("no")
    assert form["is_error"] is True and form["content"] == [{"type": "text", "text": "no"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("inf"), "Infinity"),
        ([float("-inf"), {"a": float("nan")}], ["-Infinity", {"a": "NaN"}]),
        ({1: "a"}, {"1": "a"}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (np.array([np.nan, 1.0]), ["NaN", 1.0]),
        (complex(1, 2), "(1+2j)"),
    ],
)
def test_plain_values_are_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_every_form_can_be_written_as_strict_json(value: Any) -> None:
    assert json.loads(json.dumps(result_form(value), allow_nan=False)) == result_form(value)


def test_plain_values_are_copies() -> None:
    value = {"a": [1]}
    plain(value)["a"].append(2)
    assert value == {"a": [1]}


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (_nested(49), "nested more than 48 deep"),
        (_nested(100_000), "recursion"),
        (ToolResult(content=["no block"]), r"content\[0\]"),  # type: ignore[list-item]
        (ToolResult(structured_content=[1]), "structured_content"),  # type: ignore[arg-type]
        ({"a": "\ud800"}, "surrogates"),
    ],
)
def test_what_cannot_be_passed_on_is_a_failure(value: Any, why: str) -> None:
    form = result_form(value)
    assert form["is_error"] and form["data"] is None
    (block,) = form["content"]
    assert re.search(why, block["text"])


def test_a_deep_result_that_still_can_be_told_fits_the_wire() -> None:
    form = result_form(_nested(48))
    assert not form["is_error"]
    pack({"fields": {"result": form}}, "obs")
