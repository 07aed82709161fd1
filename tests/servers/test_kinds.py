"""Each kind of option value accepts one spelling of each meaning, and names what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.servers.kinds import (
    JSON_OBJECT,
    NAMES,
    ORIGINS,
    SIZE,
    SWITCH,
    TEXT,
    TOKEN,
    Kind,
    choice,
    integer,
    interval,
    optional,
    seconds,
)

ALL = [
    TEXT,
    TOKEN,
    NAMES,
    ORIGINS,
    SIZE,
    SWITCH,
    JSON_OBJECT,
    choice("a"),
    integer(0, 9),
    interval(),
    seconds(),
]


def _parse(kind: Kind, text: str) -> Any:
    return kind.check(kind.read(text))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (integer(0, 9), " 7 ", 7),
        (optional(integer(0, 9), "auto"), "AUTO", None),
        (optional(integer(0, 9), "auto"), "3", 3),
        (seconds(), "2.5", 2.5),
        (seconds(), "none", None),
        (seconds(), "inf", None),
        (seconds(zero=True), "0", 0.0),
        (interval(), "20,5", 20.0),
        (interval(), "none", None),
        (choice("fork", "spawn"), "FORK", "fork"),
        (SWITCH, "on", True),
        (SWITCH, "1", True),
        (SWITCH, "off", False),
        (SWITCH, "no", False),
        (SIZE, "1048576", 1 << 20),
        (SIZE, "64MiB", 64 << 20),
        (SIZE, "2 g", 2 << 30),
        (SIZE, "16kb", 16 << 10),
        (NAMES, "all", ("*",)),
        (NAMES, "none", ()),
        (NAMES, "size, seed", ("size", "seed")),
        (ORIGINS, "https://Example.org:443/, http://[::1]:80", ("https://example.org", "http://[::1]")),
        (ORIGINS, "http://localhost:3000", ("http://localhost:3000",)),
        (ORIGINS, "*", ("*",)),
        (JSON_OBJECT, '{"size": 8}', {"size": 8}),
    ],
)
def test_a_text_is_read(kind: Kind, text: str, value: Any) -> None:
    assert _parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (integer(0, 9), "x", "not a whole number"),
        (integer(0, 9), "1.5", "not a whole number"),
        (integer(0, 9), "10", "not between 0 and 9"),
        (seconds(), "soon", "not a number of seconds or 'none'"),
        (seconds(), "nan", "nan is not a number of seconds"),
        (seconds(), "-1", "-1 is not a positive number of seconds"),
        (seconds(), "0", "write 'none'"),
        (seconds(unlimited=False), "none", "must be a finite number"),
        (seconds(unlimited=False), "inf", "must be a finite number"),
        (choice("fork", "spawn"), "thread", "none of fork, spawn"),
        (SWITCH, "maybe", "neither 'on' nor 'off'"),
        (SIZE, "big", "not a number of bytes"),
        (SIZE, "10", "not between 1 KiB and 1 TiB"),
        (NAMES, "a-b", "'a-b' is not a name"),
        (ORIGINS, "example.org", "not an origin"),
        (ORIGINS, "https://example.org/page", "not an origin"),
        (ORIGINS, "https://user@example.org", "not an origin"),
        (ORIGINS, "https://example.org:x", "not an origin"),
        (JSON_OBJECT, "{", "this is not JSON"),
        (JSON_OBJECT, "[1]", "expected an object"),
        (TEXT, "", "at least one character"),
    ],
)
def test_a_wrong_text_is_refused(kind: Kind, text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        _parse(kind, text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("value", [None, math.inf])
def test_no_limit_has_one_meaning(value: Any) -> None:
    assert seconds().check(value) is None


@pytest.mark.parametrize("value", [0, -1, -math.inf, math.nan, True, "5"])
def test_a_span_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        seconds().check(value)


def test_a_token_is_not_repeated_in_the_complaint() -> None:
    with pytest.raises(ValueError, match="visible ASCII") as caught:
        TOKEN.check("geheim wörd")
    assert "geheim" not in str(caught.value)


def test_an_object_must_be_json() -> None:
    with pytest.raises(ValueError, match="worker processes get it as JSON"):
        JSON_OBJECT.check({"size": object()})


@pytest.mark.parametrize("kind", ALL)
@given(text=st.text(max_size=30))
def test_any_text_is_read_or_refused(kind: Kind, text: str) -> None:
    try:
        value = _parse(kind, text)
    except ValueError:
        return
    assert kind.check(value) == value


@given(value=st.none() | st.integers() | st.floats() | st.text() | st.lists(st.integers()) | st.binary())
def test_any_value_is_kept_or_refused(value: Any) -> None:
    for kind in ALL:
        try:
            kept = kind.check(value)
        except (ValueError, TypeError):
            continue
        assert kind.check(kept) == kept
