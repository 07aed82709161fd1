"""Whether an environment is slow is found by trying one, which is closed again whatever happens."""

from __future__ import annotations

import itertools
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.errors import ConfigError
from openenv_gym.servers import probe as module
from openenv_gym.servers.probe import TRIAL, is_slow, threads_declared


class _Clock:
    """Time passes only when an environment says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class _Env(gym.Env[Any, Any]):
    """Calls take the next time on their list, then the last one again and again."""

    def __init__(self, clock: _Clock, steps: list[float], resets: list[float], end: int = 99) -> None:
        self.observation_space = self.action_space = spaces.Discrete(2)
        self._clock, self._steps, self._resets, self._end = clock, steps, resets, end
        self.calls = ""

    def _pass(self, times: list[float]) -> None:
        self._clock.now += times.pop(0) if len(times) > 1 else times[0]

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.calls += "r"
        self._pass(self._resets)
        return np.int64(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not self.calls.endswith("s" * self._end)
        self.calls += "s"
        self._pass(self._steps)
        return np.int64(0), 0.0, self.calls.endswith("s" * self._end), False, {}

    def close(self) -> None:
        self.calls += "c"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(module, "perf_counter", clock)
    monkeypatch.setattr(module, "thread_time", lambda: 0.0)
    monkeypatch.setattr(module, "_waits", itertools.count().__next__)
    return clock


@pytest.mark.parametrize(
    ("steps", "resets", "slow", "calls"),
    [
        ([1e-5], [1e-4], False, "rssssssssc"),
        ([2e-3], [1e-4], True, "rssssssssc"),
        ([0.9e-3], [1e-4], False, "rssssssssc"),
        ([5.0], [1e-4], True, "rssc"),
        ([5.0, 1e-5], [1e-4], False, "rssssssssc"),
        ([1e-5, 5.0, 1e-5, 5.0, 1e-5], [1e-4], False, "rssssssssc"),
        ([1e-5], [5.0], True, "rrc"),
        ([1e-5], [5.0, 1e-4], False, "rrssssssssc"),
    ],
    ids=[
        "quick",
        "slow",
        "just quick",
        "very slow",
        "slow at first",
        "uneven",
        "slow reset",
        "slow first reset",
    ],
)
def test_it_takes_as_few_calls_as_it_needs(
    clock: _Clock, steps: list[float], resets: list[float], slow: bool, calls: str
) -> None:
    env = _Env(clock, list(steps), list(resets))
    assert is_slow(env) is slow
    assert env.calls == calls


def test_episodes_that_end_are_begun_anew(clock: _Clock) -> None:
    env = _Env(clock, [1e-5], [1e-4], end=3)
    assert is_slow(env) is False
    assert env.calls == "rsssrsssrssc"


def test_one_that_does_not_work_is_closed_and_counts_as_quick(clock: _Clock) -> None:
    env = _Env(clock, [1e-5], [])
    assert is_slow(env) is False
    assert env.calls == "rc"


class _Broken(_Env):
    """Raises in ``step`` and in ``close``."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__(_Clock(), [0.0], [0.0])
        self._failure = failure

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        raise self._failure

    def close(self) -> None:
        super().close()
        raise RuntimeError("not closed")


@pytest.mark.parametrize("failure", [ValueError("no such action"), SystemExit(3)], ids=["error", "exit"])
def test_what_a_trial_raises_keeps_nobody_from_lanes(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    env = _Broken(failure)
    with caplog.at_level("INFO", logger="openenv_gym.server"):
        assert is_slow(env) is False
    assert env.calls == "rc"
    first, second = (record.getMessage() for record in caplog.records)
    assert first == f"an environment raised {failure!r} {TRIAL}"
    assert second == f"close() of an environment raised RuntimeError('not closed') {TRIAL}"


def test_a_class_may_say_how_many_threads_it_wants() -> None:
    assert threads_declared({"lane_threads": 4}, "x") == 4
    assert threads_declared({}, "x") == 0


@pytest.mark.parametrize("count", [-1, True, 2.0, "4", None])
def test_what_is_no_number_of_threads_is_refused(count: Any) -> None:
    with pytest.raises(ConfigError, match=r"metadata\['lane_threads'\] of 'x'"):
        threads_declared({"lane_threads": count}, "x")


class _Real(_Env):
    """Takes three milliseconds a step, in its own way."""

    def __init__(self, spend: Any) -> None:
        super().__init__(_Clock(), [0.0], [0.0])
        self._spend = spend

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._spend()
        return super().step(action)


def _compute() -> None:
    until = time.thread_time() + 0.003
    while time.thread_time() < until:
        pass


def test_who_waits_is_slow_and_who_computes_is_not() -> None:
    assert is_slow(_Real(lambda: time.sleep(0.003)))
    assert not is_slow(_Real(_compute))


def test_a_system_that_does_not_tell_waits_apart_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.delattr(resource, "RUSAGE_THREAD")
    assert module._waits() != module._waits()
