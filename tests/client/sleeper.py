"""A typed environment for tests of clients, and its client."""

from __future__ import annotations

import time
from typing import Any

from openenv_gym.client import EnvClient
from openenv_gym.environment import Environment
from openenv_gym.models import Action, Observation, State
from openenv_gym.tools import tool

__all__ = ["Nap", "Sleeper", "SleeperClient", "Sleeps", "Slept"]


class Nap(Action):
    """How long to sleep."""

    seconds: float = 0.0
    say: str = ""


class Slept(Observation):
    """What was said, and how many steps there were."""

    said: str = ""
    steps: int = 0


class Sleeps(State):
    """What it keeps."""

    slept: float = 0.0


class Sleeper(Environment[Nap, Slept, Sleeps]):
    """Sleeps, says what it is told, and rewards half a point; ``say="end"`` ends the episode."""

    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting
        self.steps = 0

    def reset(self, *, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Slept:
        """Begin anew."""
        self.steps = 0
        return Slept(said=self.greeting, metadata={"seed": seed, **options})

    def step(self, action: Any) -> Any:
        """Sleep."""
        if not isinstance(action, Nap):
            return super().step(action)
        self.steps += 1
        time.sleep(action.seconds)
        self.state.slept += action.seconds
        if action.say == "boom":
            raise RuntimeError("kaboom")
        reward = None if action.say == "none" else 0.5
        return Slept(said=action.say, steps=self.steps, reward=reward, done=action.say == "end")

    @tool
    def add(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool
    def fail(self, why: str) -> str:
        """Raise."""
        raise ValueError(why)

    @tool(timeout=0.05)
    def hang(self) -> None:
        """Take too long."""
        time.sleep(0.8)


class SleeperClient(EnvClient[Nap, Slept, Sleeps]):
    """Its client."""
