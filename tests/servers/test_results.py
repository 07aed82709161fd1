"""Results are taken apart and put together without losing any."""

from __future__ import annotations

from openenv_gym.servers.results import Results

_KEY, _VALUE = KeyError("k"), ValueError("v")


def _some() -> Results:
    return Results([4, 1, 3], ["four", "one", "three"], [(2, _KEY), (0, _VALUE)])


def test_all_count() -> None:
    assert len(_some()) == 5
    assert _some().everyone() == [4, 1, 3, 2, 0]


def test_they_are_put_in_order() -> None:
    assert _some().in_order() == Results([1, 3, 4], ["one", "three", "four"], [(0, _VALUE), (2, _KEY)])


def test_some_are_taken_and_the_rest_stays() -> None:
    results = _some()
    assert results.take({3, 2}) == Results([3], ["three"], [(2, _KEY)])
    assert results == Results([4, 1], ["four", "one"], [(0, _VALUE)])


def test_more_are_added() -> None:
    results = Results()
    results += _some()
    results.add(5, "five")
    assert results == Results([4, 1, 3, 5], ["four", "one", "three", "five"], [(2, _KEY), (0, _VALUE)])
