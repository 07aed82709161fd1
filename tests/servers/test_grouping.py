"""Lanes are built on their threads, once, and all of them or none."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from openenv_gym.errors import ConfigError, ConstructionError, ForbiddenError
from openenv_gym.protocol import messages as m
from openenv_gym.servers.building import plan_of
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from tests.support.faultenvs import CounterEnv, live_peak, notes

from .fakes import desk
from .lanescene import hello, opened

_TEST_ENVS = "tests.support.testenvs"


class ThreadedEnv(CounterEnv):
    """Wants two threads for its lanes."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "lane_threads": 2}


def _threads(target: str, *, settings: int | None = None, **fields: Any) -> tuple[int, list[bool]]:
    """Return on how many threads the lanes run, and what the parent was told."""
    told: list[bool] = []
    before = set(threading.enumerate())
    client = opened(target, threads=settings, at=desk(measured=told), lanes=3, **fields)
    count = len(set(threading.enumerate()) - before)  # threads of earlier tests may end meanwhile
    client.reset()
    client.close()
    return count or 1, told


@pytest.mark.parametrize(("name", "count"), [("Counter-v0", 1), ("Sleep-v0", 3)])
def test_lanes_of_slow_environments_get_threads(name: str, count: int) -> None:
    fields = {"env_kwargs": {"step": 0.002}} if name == "Sleep-v0" else {}
    assert _threads(f"{_TEST_ENVS}:{name}", **fields) == (count, [count > 1])


def test_the_slowest_kind_of_lane_decides() -> None:
    each = [{}, {}, {"step": 0.002}]
    assert _threads(f"{_TEST_ENVS}:Sleep-v0", env_kwargs=each) == (3, [True])


@pytest.mark.parametrize(
    ("target", "settings", "limits", "count"),
    [
        (f"{_TEST_ENVS}:Counter-v0", 2, {}, 2),
        (f"{_TEST_ENVS}:Counter-v0", 9, {}, 3),
        (f"{_TEST_ENVS}:Counter-v0", None, {"threads": 2}, 2),
        (f"{_TEST_ENVS}:Counter-v0", 1, {"threads": 2}, 1),
        ("tests.servers.test_grouping:ThreadedEnv", None, {}, 2),
        ("tests.servers.test_grouping:ThreadedEnv", None, {"threads": 3}, 3),
    ],
)
def test_who_says_how_many_needs_no_trial(
    target: str, settings: int | None, limits: dict[str, int], count: int, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    found = _threads(target, settings=settings, limits=m.Limits(**limits), env_kwargs={"path": str(path)})
    declared = target.endswith("ThreadedEnv") and not limits
    assert found == (count, [True] if declared else [])  # others of the kind wait to hear it
    assert notes(path).count("i") == 3


def test_the_one_that_is_tried_is_closed_before_the_lanes_are_built(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    _threads(f"{_TEST_ENVS}:Counter-v0", env_kwargs={"path": str(path)})
    assert notes(path).startswith("irsssssssscii")
    assert live_peak(path) == 3
    assert notes(path).count("i") == notes(path).count("c") == 4


@pytest.mark.parametrize("slow", [True, False])
def test_what_is_known_is_not_tried(slow: bool, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    client = opened(
        f"{_TEST_ENVS}:Counter-v0", threads=None, at=desk(slow=slow), lanes=2, env_kwargs={"path": str(path)}
    )
    client.close()
    assert notes(path) == "iicc"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_constructor_that_raises_leaves_none_open(threads: int, tmp_path: Path, no_leaks: None) -> None:
    path, tries = tmp_path / "notes", tmp_path / "tries"
    kwargs = {"path": str(path), "tries": str(tries), "every": 3}
    with pytest.raises(ConstructionError, match=r"lane \d: RuntimeError: construction 3 fails") as caught:
        opened(f"{_TEST_ENVS}:FailingInit-v0", threads=threads, lanes=5, env_kwargs=kwargs)
    assert len(caught.value.details["lanes"]) == 1
    assert notes(path).count("i") == notes(path).count("c")


def test_lanes_of_different_spaces_are_refused(tmp_path: Path) -> None:
    each = [{"size": 4}, {"size": 5}]
    with pytest.raises(ConfigError, match="^lane 1: its observation_space .*5.* first lane .*4") as caught:
        opened(f"{_TEST_ENVS}:Big-v0", lanes=2, env_kwargs=each)
    assert caught.value.details == {"lanes": [1]}


def test_a_trial_that_cannot_be_built_names_its_lane_where_lanes_differ() -> None:
    each = [{}, {}, {"where": "init", "at": 1}]
    with pytest.raises(ConstructionError, match="^lane 2: KeyError: 'the environment failed'") as caught:
        opened(f"{_TEST_ENVS}:Crash-v0", threads=None, lanes=3, env_kwargs=each)
    assert caught.value.details["lanes"] == [2]
    with pytest.raises(KeyError, match="the environment failed"):
        opened(f"{_TEST_ENVS}:Crash-v0", threads=None, lanes=3, env_kwargs=each[2])


def test_arguments_of_every_lane_are_checked() -> None:
    plan = plan_of(ServerSettings(allow_env_kwargs=("a",)), resolve(f"{_TEST_ENVS}:Options-v0"))
    with pytest.raises(ForbiddenError, match="'b'"):
        plan.build(hello(lanes=2, env_kwargs=[{"a": 1}, {"b": 2}]), desk())


def test_arguments_of_the_server_are_under_those_of_each_lane() -> None:
    settings = ServerSettings(env_kwargs={"a": 0, "b": 0}, lane_threads=1)
    group, _ = plan_of(settings, resolve(f"{_TEST_ENVS}:Options-v0")).build(
        hello(lanes=2, env_kwargs=[{"a": 1}, {}]), desk()
    )
    reply = group.answer(m.Reset(1))
    assert isinstance(reply, m.Observation) and reply.infos is not None
    assert [info["kwargs"] for info in reply.infos] == [{"a": 1, "b": 0}, {"a": 0, "b": 0}]
    group.close()


def test_the_board_is_told_of_every_call_when_there_are_deadlines() -> None:
    ticks: list[None] = []
    at = desk(ticks=lambda: ticks.append(None))
    client = opened("CartPole-v1", at=at, lanes=3, limits=m.Limits(step=60.0))
    client.reset(seed=0)
    client.step(np.zeros(3, np.int64))
    assert len(ticks) == 9
    client.close()
    at = desk(ticks=lambda: pytest.fail("nobody looks"))
    client = opened("CartPole-v1", at=at, lanes=3)
    client.reset(seed=0)
    client.close()
