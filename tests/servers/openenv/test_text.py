"""JSON is read as clients write it, and written as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ValueNotCarriedError
from openenv_gym.servers.openenv import text as module
from openenv_gym.servers.openenv.text import read_json, write_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert read_json(write_json(value)) == value


@given(_VALUES)
def test_what_the_standard_library_writes_is_read(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


def test_numbers_that_json_has_not_are_read_as_python_writes_them() -> None:
    nan, high, low = read_json("[NaN, Infinity, -Infinity]")
    assert math.isnan(nan)
    assert (high, low) == (math.inf, -math.inf)


def test_numbers_that_json_has_not_are_written_by_name() -> None:
    value = {"reward": float("nan"), "x": np.array([np.inf, -np.inf, 1.5, -0.0])}
    assert write_json(value) == b'{"reward":"NaN","x":["Infinity","-Infinity",1.5,-0.0]}'


@pytest.mark.parametrize(
    "text",
    ["", "{", "nope", "{'a': 1}", "[1,]", '"\ud800'.encode("utf-8", "surrogatepass"), b"\xff", "[" * 100_000],
    ids=["empty", "cut", "word", "quotes", "comma", "surrogate", "bytes", "deep"],
)
def test_what_is_no_json_is_a_value_error(text: bytes | str) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_a_number_too_large_is_refused_instead_of_being_infinite() -> None:
    with pytest.raises(ValueError, match="too large"):
        read_json("[1e400]")


def test_integers_keep_every_digit() -> None:
    assert read_json("[123456789012345678901234567890]") == [123456789012345678901234567890]


def test_a_lone_surrogate_goes_both_ways() -> None:
    assert read_json(write_json(["\ud800"])) == ["\ud800"]


def test_an_integer_that_python_does_not_write_is_an_error() -> None:
    with pytest.raises(ValueNotCarriedError, match="no form in JSON: .*4300"):
        write_json({"n": 10**5000})


@pytest.mark.parametrize("kind", [str, bytes])
def test_a_text_that_would_fill_the_memory_is_refused(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 4)
    data: Any = "[1,2,3,4]" if kind is str else b"[1,2,3,4]"
    assert read_json(data) == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="4 commas or more"):
        read_json(data[:-1] + data[2:])
