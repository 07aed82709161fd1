"""Remote lanes keep the contract of vector environments, whatever they run and wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import openenv_gym  # noqa: F401 - registers the ids
from openenv_gym.testing import check_vector_env
from tests.support.testenvs import SpaceEnv
from tests.testing.vectors import GYMNASIUMS_OWN

Make = Callable[[], gym.Env[Any, Any]]
#: What Gymnasium's way to batch infos can do; those of this environment have its actions in them.
KINDS = ("box_per_element", "discrete_start", "text", "dict", "graph", "one_of", "nested", "unicode")


def check(name: str, reference: Make | None, steps: int, **kwargs: Any) -> None:
    def make(autoreset_mode: str) -> Any:
        return gym.make_vec(name, 3, autoreset_mode=autoreset_mode, **kwargs)

    report = check_vector_env(make, steps=steps, reference=reference, skip=GYMNASIUMS_OWN)
    unchecked = {finding.rule for finding in report.findings if report.outcome(finding.rule) == "not checked"}
    assert unchecked <= {"render", "reference"}
    assert reference is None or report.outcome("reference") == "kept"


@pytest.mark.parametrize("kwargs", [{}, {"servers": 2}, {"lanes_per_worker": 1, "lane_threads": 1}], ids=str)
def test_remote_lanes_keep_every_rule(kwargs: dict[str, Any]) -> None:
    check("remote/CartPole-v1", lambda: gym.make("CartPole-v1"), 60, **kwargs)


@pytest.mark.parametrize("kind", KINDS)
def test_remote_lanes_keep_every_rule_with_every_space(kind: str) -> None:
    env_id = f"tests.support.testenvs:Space-{kind}-v0"
    check("openenv/Gym-v0", lambda: SpaceEnv(kind), 16, env_id=env_id, provider="inprocess")


def test_remote_lanes_keep_every_rule_when_they_draw() -> None:
    env_id, drawing = "tests.support.testenvs:Render-v0", {"render_mode": "rgb_array", "max_episode_steps": 9}
    check("openenv/Gym-v0", None, 20, env_id=env_id, provider="inprocess", **drawing)


def test_bundled_environments_keep_every_rule() -> None:
    check("openenv/Echo-v0", None, 60, provider="inprocess", max_episode_steps=20)
