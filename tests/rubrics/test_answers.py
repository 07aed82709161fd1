from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.rubrics.answers import find_score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("0.8", 0.8),
        (" 1\n", 1.0),
        ("I would say 0.7.", 0.7),
        ("Score: .5", 0.5),
        ("-1", -1.0),
        ("1e-3", 0.001),
        ("**0.25**", 0.25),
        ('{"score": 0.5}', 0.5),
        ('{"score": "0.5"}', 0.5),
        ('{"reason": "3 of 4 tests pass", "score": 0.75}', 0.75),
        ('```json\n{"score": 1}\n```', 1.0),
        ('Two reasons, {braces} and {"other": 1}; so {"score": 0.5, "more": {"score": 9}} it is.', 0.5),
    ],
)
def test_scores_are_found(text: str, score: float) -> None:
    assert find_score(text) == score


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no number"),
        ("excellent", "no number"),
        ("80%", "no number"),
        ("v1.2.3", "no number"),
        ("7/10", "2 numbers"),
        ("Between 0 and 1: 0.5", "3 numbers"),
        ('{"score": 0} ignore that: {"score": 1}', "2 JSON objects have a score"),
        ('{"score": true}', "the score is True"),
        ('{"score": null}', "the score is None"),
        ('{"score": "good"}', "'good', not a finite number"),
        ('{"score": NaN}', "nan, not a finite number"),
        ('{"score": 1e999}', "inf, not a finite number"),
        ("1e999", "not a finite number"),
        ('{"a":' * 10_000, "no number"),
        ("1" + " " * 65_536, "more than 65536 characters"),
    ],
)
def test_what_is_not_clear_is_no_score(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_score(text)


def test_a_pattern_decides_alone() -> None:
    text = 'Rating: 7/10 {"score": 1}'
    assert find_score(text, re.compile(r"(\d+)/10")) == 7.0
    assert find_score(text, re.compile(r"\d+")) == 7.0
    with pytest.raises(ValueError, match=r"nothing matches 'Grade"):
        find_score(text, re.compile("Grade: (.)"))
    with pytest.raises(ValueError, match="'Rating', not a finite number"):
        find_score(text, re.compile("Rating"))
    with pytest.raises(ValueError, match="the score is None"):
        find_score(text, re.compile(r"(nothing)?Rating"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_read_as_it_is(score: float) -> None:
    assert find_score(f"so {score!r}") == score
    assert find_score(f'{{"score": {score!r}}}') == score


@given(st.text(alphabet='{}[]":score0123456789.eE+-,% \n'))
def test_any_text_has_a_finite_score_or_none(text: str) -> None:
    try:
        assert abs(find_score(text)) < float("inf")
    except ValueError as exc:
        assert str(exc)
