"""A step without what a served environment does not need of the wrappers around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, TimeLimit

__all__ = ["peeled", "step_of"]


def peeled(env: gym.Env[Any, Any]) -> tuple[Callable[[Any], Any], Any]:
    """Return the step below the two wrappers, and the :class:`TimeLimit` that counts it, or ``None``."""
    limit: Any = env if type(env) is TimeLimit else None
    inner: Any = env if limit is None else limit.env
    if type(inner) is OrderEnforcing:
        inner = inner.env
    return inner.step, limit


def step_of(env: gym.Env[Any, Any]) -> Callable[[Any], Any]:
    """Return what does the same as ``env.step`` in an episode, without the calls of two wrappers in between.

    They are those that ``gym.make`` puts around nearly everything, and take a tenth of the time of a small
    environment's step. That an episode has begun is checked by the session; the time limit is counted where
    its wrapper counts it.
    """
    step, limit = peeled(env)
    if limit is None:
        return step
    most = limit._max_episode_steps

    def limited(action: Any) -> Any:
        outcome = step(action)
        limit._elapsed_steps = elapsed = limit._elapsed_steps + 1
        if elapsed < most:
            return outcome
        observation, reward, terminated, _, info = outcome
        return observation, reward, terminated, True, info

    return limited
