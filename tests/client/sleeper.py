"""A typed environment for tests of clients, and its client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from openenv_gym.client import EnvClient
from openenv_gym.environment import Environment
from openenv_gym.models import Action, Observation, State
from openenv_gym.tools import tool

__all__ = ["Gate", "Nap", "Sleeper", "SleeperClient", "Sleeps", "Slept"]


_UNTIL = "until "


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


class Gate:
    """Holds a step of :class:`Sleeper`, in whichever process, until it is opened.

    Attributes:
        say: What the action of such a step says.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.say = f"{_UNTIL}{path}"

    def open(self) -> None:
        """Let whoever waits go on."""
        self._path.touch()

    def shut(self) -> None:
        """Hold those who come from now on."""
        self._path.unlink()


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
        if action.say.startswith(_UNTIL):
            _wait_for(Path(action.say.removeprefix(_UNTIL)))
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
        time.sleep(2.5)


class SleeperClient(EnvClient[Nap, Slept, Sleeps]):
    """Its client."""


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.005)
