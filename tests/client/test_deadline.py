from __future__ import annotations

import time

import pytest

from openenv_gym.client.deadline import deadline_in, earliest, time_left


def test_deadline_lies_ahead_by_the_seconds_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert deadline_in(2.5) == 102.5
    assert time_left(102.5) == 2.5


def test_nothing_is_left_of_a_deadline_that_passed() -> None:
    assert time_left(deadline_in(-1.0)) == 0.0


def test_unlimited_stays_unlimited() -> None:
    assert deadline_in(None) is None
    assert time_left(None) is None


def test_the_earliest_deadline_counts() -> None:
    assert earliest(3.0, None, 2.0) == 2.0
    assert earliest(None, None) is None
    assert earliest() is None
