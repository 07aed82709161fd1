from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import pytest

from openenv_gym.client.stopwatch import StepTimes
from openenv_gym.errors import ConfigError
from openenv_gym.testing import difference
from openenv_gym.wrappers import StepTiming
from tests.support.testenvs import AttrEnv

PARTS = ("total", "queue", "environment", "codec", "network")


def remote(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(
        "openenv/Gym-v0",
        env_id=f"tests.support.testenvs:{name}-v0",
        provider="inprocess",
        timing=True,
        **kwargs,
    )


def test_the_parts_of_a_step_add_up() -> None:
    with StepTiming(remote("Attr")) as env:
        env.reset()
        for _ in range(3):
            timing = env.step(0)[4]["timing"]
            assert tuple(timing) == PARTS
            assert all(seconds >= 0 for seconds in timing.values())
            assert timing["environment"] > 0 and timing["codec"] > 0 and timing["network"] > 0
            assert sum(timing[part] for part in PARTS[1:]) == pytest.approx(timing["total"])


def test_what_sleeps_in_the_environment_counts_there() -> None:
    with StepTiming(remote("Sleep", step=0.05)) as env:
        env.reset()
        assert env.step(0)[4]["timing"]["environment"] >= 0.05


def test_a_local_step_is_all_environment() -> None:
    env = StepTiming(AttrEnv())
    env.reset()
    timing = env.step(0)[4]["timing"]
    assert timing["environment"] == timing["total"] > 0
    assert timing["queue"] == timing["codec"] == timing["network"] == 0.0


def test_nothing_else_changes() -> None:
    local = AttrEnv()
    with StepTiming(remote("Attr"), key="where") as env:
        assert difference(env.reset(), local.reset()) is None
        for action in range(4):
            result = env.step(action)
            del result[4]["where"]
            assert difference(result, local.step(action)) is None


def test_times_must_be_taken() -> None:
    with gym.make("remote/CartPole-v1", provider="inprocess") as env:
        with pytest.raises(ConfigError, match="make the env with timing=True"):
            StepTiming(env)


def test_an_entry_of_the_environment_is_not_overwritten() -> None:
    env = StepTiming(AttrEnv(), key="gravity")
    env.reset()
    with pytest.raises(ConfigError, match="info has 'gravity' already"):
        env.step(0)


def test_what_is_not_known_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with StepTiming(remote("Attr")) as env:
        env.reset()
        monkeypatch.setattr(type(env.unwrapped), "step_times", None)
        timing = env.step(0)[4]["timing"]
        assert timing["total"] > 0
        assert all(math.isnan(timing[part]) for part in PARTS[1:])


def test_clocks_that_disagree_leave_no_negative_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with StepTiming(remote("Attr")) as env:
        env.reset()
        monkeypatch.setattr(type(env.unwrapped), "step_times", StepTimes(1e3, 1.0, 1.0))
        assert env.step(0)[4]["timing"]["network"] == 0.0


def test_a_spec_makes_another_one() -> None:
    env = StepTiming(gym.make("remote/CartPole-v1", provider="inprocess", timing=True), key="where")
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    again.reset()
    assert set(again.step(0)[4]) == {"where"}
    again.close()
    env.close()
