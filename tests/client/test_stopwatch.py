from __future__ import annotations

import pytest

from openenv_gym.client import stopwatch
from openenv_gym.client.stopwatch import StepTimes, Stopwatch


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 7 ns pass between two looks at the clock."""
    times = iter(range(0, 10_000, 7))
    monkeypatch.setattr(stopwatch, "perf_counter_ns", lambda: next(times))


@pytest.mark.usefixtures("ticking")
def test_times_of_calls_add_up() -> None:
    watch = Stopwatch()
    add = watch.timed(lambda left, right: left + right)
    assert (add(1, 2), add(3, 4)) == (3, 7)
    assert watch.take() == 14
    assert watch.take() == 0


@pytest.mark.usefixtures("ticking")
def test_a_call_that_raises_counts() -> None:
    watch = Stopwatch()
    with pytest.raises(ZeroDivisionError):
        watch.timed(lambda: 1 // 0)()
    assert watch.spent == 7


@pytest.mark.usefixtures("ticking")
def test_both_sides_of_the_codec_add_up() -> None:
    watch = Stopwatch()
    watch.timed(int)("1")
    assert watch.times([3, 20, 500]) == pytest.approx(StepTimes(20e-9, 500e-9, 10e-9))
    with pytest.raises(ValueError, match="unpack"):
        watch.times([3])
