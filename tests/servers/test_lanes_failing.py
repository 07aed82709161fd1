"""A lane that raises fails alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.servers import lanes as module
from tests.support.faultenvs import notes

from .laneenvs import GATES
from .lanescene import Client, opened

_TEST_ENVS = "tests.support.testenvs"
THREADS = pytest.mark.parametrize("threads", [1, 3])


@pytest.fixture
def make() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def build(target: str, **fields: Any) -> Client:
        made.append(opened(target, **fields))
        return made[-1]

    yield build
    for client in made:
        client.close()


def _crashing(
    make: Any, threads: int, tmp_path: Path, *, where: str, at: int, how: str = "exception"
) -> Client:
    """Return a client of three lanes whose middle one ends badly."""
    path = str(tmp_path / "notes")
    each: list[dict[str, Any]] = [
        {"path": path, "at": 99},
        {"path": path, "at": at},
        {"path": path, "at": 99},
    ]
    for kwargs in each:
        kwargs |= {"where": where, "how": how}
    client: Client = make(f"{_TEST_ENVS}:Crash-v0", threads=threads, lanes=3, env_kwargs=each)
    return client


@THREADS
@pytest.mark.parametrize("how", ["exception", "sys_exit", "recursion"])
def test_the_others_results_arrive(make: Any, tmp_path: Path, threads: int, how: str) -> None:
    client = _crashing(make, threads, tmp_path, where="step", at=2, how=how)
    client.reset()
    client.step(np.zeros(3, np.int64))
    client.step(np.zeros(3, np.int64))
    assert client.lanes_of(client.last) == [0, 2]
    assert [int(value) for value in client.observations(client.last)] == [2, 2]
    (failure,) = client.failed
    assert (failure.lane, failure.code) == (1, "environment")
    assert "faultenvs.py" in failure.details["traceback"]


@THREADS
def test_a_failed_lane_needs_a_reset_and_then_goes_on(make: Any, tmp_path: Path, threads: int) -> None:
    client = _crashing(make, threads, tmp_path, where="step", at=2)
    client.reset()
    client.step(np.zeros(3, np.int64))
    client.step(np.zeros(3, np.int64))
    with pytest.raises(ResetNeededError, match="lanes 1 have no episode"):
        client.step(np.zeros(3, np.int64))
    client.reset(mask=[False, True, False])
    observations, *_ = client.step(np.zeros(3, np.int64))
    assert (observations.tolist(), client.failed) == ([3, 1, 3], [])


@THREADS
def test_a_reset_may_fail_in_a_lane_and_is_repeated_for_it_alone(
    make: Any, tmp_path: Path, threads: int
) -> None:
    client = _crashing(make, threads, tmp_path, where="reset", at=1)
    client.reset()
    assert (client.lanes_of(client.last), [failure.lane for failure in client.failed]) == ([0, 2], [1])
    client.reset(mask=[False, True, False])
    assert client.failed == []
    assert client.step(np.zeros(3, np.int64))[0].tolist() == [1, 1, 1]
    assert notes(tmp_path / "notes").count("r") == 3


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_autoreset_may_fail(make: Any, mode: str) -> None:
    client = make("tests.servers.laneenvs:OnceEnv", lanes=2, autoreset=mode)
    client.reset()
    for _ in range(2 if mode == "next_step" else 1):
        client.step(np.array([1, 0]))
    assert [failure.message for failure in client.failed] == ["RuntimeError: only once"]
    assert client.lanes_of(client.last) == [1]


@pytest.mark.parametrize("kind", ["shape", "none", "missing"])
def test_an_observation_that_does_not_travel_fails_its_lane(make: Any, kind: str) -> None:
    each = [{"kind": "right"}, {"kind": kind, "at": 2}]
    client = make(f"{_TEST_ENVS}:BadObs-v0", lanes=2, env_kwargs=each)
    client.reset()
    client.step(np.zeros(2, np.int64))
    client.step(np.zeros(2, np.int64))
    assert client.lanes_of(client.last) == [0]
    assert [(failure.lane, failure.code) for failure in client.failed] == [(1, "value_not_carried")]
    with pytest.raises(ResetNeededError, match="lanes 1"):
        client.step(np.zeros(2, np.int64))


def test_a_cast_observation_costs_one_warning_in_all(make: Any) -> None:
    client = make(f"{_TEST_ENVS}:BadObs-v0", lanes=3, env_kwargs={"kind": "float64", "at": 1})
    client.reset()
    assert client.last.warnings == []
    client.step(np.zeros(3, np.int64))
    assert len(client.last.warnings) == 1 and "float64" in client.last.warnings[0]
    client.step(np.zeros(3, np.int64))
    assert (client.last.warnings, client.failed) == ([], [])


def test_a_reward_that_is_no_number_fails_its_lane(make: Any) -> None:
    each = [{"kind": "array"}, {"kind": "array0d"}, {"kind": "float"}]
    client = make(f"{_TEST_ENVS}:Reward-v0", lanes=3, env_kwargs=each)
    client.reset()
    client.ask(m.Step, client._act.encode([np.int64(0)] * 3, "action"))
    assert np.frombuffer(client.last.rewards, "<f8").tolist() == [float(np.float32(1 / 3)), 1 / 3]
    assert [failure.lane for failure in client.failed] == [0]


def test_when_all_lanes_fail_the_reply_has_no_columns(make: Any) -> None:
    client = make("tests.servers.laneenvs:GatedEnv", lanes=2)
    client.reset()
    reply = client.ask(m.Step, client._act.encode([np.int64(8)] * 2, "action"))
    assert (reply.observations, reply.rewards, reply.flags, reply.lanes) == (None, b"", b"", b"")
    assert [failure.message for failure in reply.failed] == ["KeyError: 'x'"] * 2


@THREADS
def test_close_closes_every_lane_and_says_what_one_raised(make: Any, tmp_path: Path, threads: int) -> None:
    client = _crashing(make, threads, tmp_path, where="close", at=1)
    client.closed = True
    with pytest.raises(KeyError, match="the environment failed"):
        client.stage.close()
    assert notes(tmp_path / "notes").count("c") == 3


def test_close_does_not_wait_for_ever(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSING", 0.05)
    GATES["held"] = threading.Event()
    client = make("tests.servers.laneenvs:GatedEnv", threads=2, lanes=2, env_kwargs=[{"gate": "held"}, {}])
    client.reset()
    client.start({0: 0, 1: 0}, wait=1)
    client.closed = True
    with pytest.raises(TimeoutError, match="not done within"):
        client.stage.close()
    GATES.pop("held").set()
