from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from openenv_gym.servers.shortcut import step_of


class _Env(gym.Env[Any, Any]):
    """Returns the same objects in each step; raises at the action ``"raise"``."""

    def __init__(self) -> None:
        self.observation_space = self.action_space = gym.spaces.Text(8)
        self.outcome: tuple[Any, ...] = ("seen", 1.5, False, False, {"a": 1})

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        return "begun", {}

    def step(self, action: Any) -> Any:
        if action == "raise":
            raise KeyError(action)
        return self.outcome


class _OtherLimit(TimeLimit[Any, Any]):
    """A limit that does something else."""


def test_without_wrappers_it_is_the_step_of_the_environment() -> None:
    env = _Env()
    assert step_of(env) == env.step
    assert step_of(OrderEnforcing(env)) == env.step


@pytest.mark.parametrize("wrapped", [lambda env: _OtherLimit(env, 3), gym.wrappers.Autoreset])
def test_other_wrappers_are_called(wrapped: Any) -> None:
    env = wrapped(_Env())
    assert step_of(env) == env.step


@pytest.mark.parametrize("inner", [lambda env: env, OrderEnforcing])
def test_a_time_limit_truncates_and_counts_as_its_wrapper_does(inner: Any) -> None:
    ours, theirs = (TimeLimit(inner(_Env()), 3) for _ in range(2))
    step = step_of(ours)
    for _ in range(2):
        ours.reset()
        theirs.reset()
        for at in range(5):
            if at == 1:
                assert ours.step(0) == theirs.step(0)  # a client may call it, too
            assert step(0) == theirs.step(0)
            assert ours._elapsed_steps == theirs._elapsed_steps


def test_a_step_that_raises_is_not_counted() -> None:
    env = TimeLimit(OrderEnforcing(_Env()), 1)
    env.reset()
    step = step_of(env)
    with pytest.raises(KeyError):
        step("raise")
    assert env._elapsed_steps == 0
    assert step(0) == ("seen", 1.5, False, True, {"a": 1})


def test_what_ended_stays_as_it_is() -> None:
    env = TimeLimit(OrderEnforcing(_Env()), 5)
    env.reset()
    env.unwrapped.outcome = ("seen", 1.5, True, False, {})  # type: ignore[attr-defined]
    assert step_of(env)(0) == ("seen", 1.5, True, False, {})
