"""One CartPole, written twice: as a Gymnasium environment and with types."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from msgspec import Meta

from openenv_gym.environment import Environment
from openenv_gym.models import Action, Array, Observation, State

__all__ = ["Pole", "Push", "TypedCartPole", "plain"]


class Push(Action):
    """Which way to push."""

    action: Annotated[int, Meta(ge=0, le=1)]


class Pole(Observation):
    """Where cart and pole are."""

    state: Annotated[np.ndarray, Array("float32", (4,))]


class TypedCartPole(Environment[Push, Pole, State]):
    """CartPole with types."""

    def __init__(self) -> None:
        self.env: gym.Env[Any, Any] = plain()

    def reset(self, *, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Pole:
        """Start an episode."""
        return Pole(self.env.reset(seed=seed)[0])

    def step(self, action: Push) -> Pole:
        """Push."""
        observation, reward, terminated, truncated, _ = self.env.step(action.action)
        return Pole(observation, reward=float(reward), terminated=terminated, truncated=truncated)


def plain() -> gym.Env[Any, Any]:
    """Return CartPole without Gymnasium's wrappers."""
    return gym.make("CartPole-v1").unwrapped
