"""Typed environments for tests."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from openenv_gym.environment import Environment
from openenv_gym.models import Action, Array, CallToolAction, Observation, State
from openenv_gym.rubrics import ExponentialDiscountingTrajectoryRubric, Rubric
from openenv_gym.tools import tool

__all__ = [
    "ENOUGH",
    "Calculator",
    "Counted",
    "Gallery",
    "Goal",
    "GuessNumber",
    "Mixed",
    "Raising",
    "Solitary",
    "Walk",
]


class Guess(Action):
    """A guess."""

    number: Annotated[int, Meta(ge=1, le=100)]


class Hint(Observation):
    """What the number is like."""

    text: Annotated[str, Meta(max_length=64)] = ""


class GuessNumber(Environment[Guess, Hint, State]):
    """Guess a number from 1 to 100.

    Args:
        highest: The highest number.
    """

    def __init__(self, highest: int = 100) -> None:
        self.highest = highest

    def reset(self, *, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Hint:
        """Think of a number."""
        self.secret = int(self.np_random.integers(1, self.highest + 1))
        return Hint(f"between 1 and {self.highest}", metadata=dict(options))

    def step(self, action: Guess) -> Hint:
        """Compare."""
        if action.number == self.secret:
            return Hint("that is it", done=True, reward=1.0)
        return Hint("more" if action.number < self.secret else "less", reward=0.0)


ENOUGH = threading.Event()
"""Ends what would keep its thread; clear it afterwards."""


class Calculator(Environment[CallToolAction, Observation, State]):
    """Calculates."""

    tool_timeout = 5.0

    @tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool
    async def later(self, value: str, delay: float = 0.0) -> str:
        """Return the value after a delay in seconds."""
        await asyncio.sleep(delay)
        return value

    @tool
    def fail(self, why: str) -> str:
        """Raise."""
        raise ValueError(why)

    @tool(timeout=0.05)
    def hang(self, seconds: float) -> str:
        """Keep the thread, until it is enough."""
        ENOUGH.wait(seconds)
        return "awake"


class Move(Action):
    """A move."""

    direction: Literal["left", "right"]


class Place(Observation):
    """Where it stands."""

    at: Annotated[int, Meta(ge=-10, le=10)] = 0
    picture: Annotated[np.ndarray, Array("uint8", (2, 3))] = np.zeros((2, 3), np.uint8)


class Steps(State):
    """How far it came."""

    furthest: int = 0


class Goal(Rubric):
    """One for the goal."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return 1.0 at the goal."""
        return float(observation.at == 2)


class Way(ExponentialDiscountingTrajectoryRubric):
    """The way to the goal."""

    def __init__(self) -> None:
        super().__init__(gamma=0.5)
        self.goal = Goal()

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        """Return the score of the last step."""
        return float(self.goal(*trajectory[-1]))


class Walk(Environment[Move, Place, Steps]):
    """Walks two steps to the right, asynchronously, for a delayed reward."""

    def __init__(self) -> None:
        self.rubric = Way()
        self.at = 0

    async def reset(self) -> Place:
        """Start in the middle."""
        await asyncio.sleep(0)
        self.at = 0
        return Place(0, np.zeros((2, 3), np.uint8))

    async def step(self, action: Move) -> Place:
        """Walk."""
        await asyncio.sleep(0)
        self.at += 1 if action.direction == "right" else -1
        self.state.furthest = max(self.state.furthest, abs(self.at))
        return Place(self.at, np.full((2, 3), abs(self.at), np.uint8), terminated=abs(self.at) == 2)


class Counted(Calculator):
    """Counts its steps itself."""

    steps = 0

    def step(self, action: Any) -> Any:
        """Count, then do it."""
        self.steps += 1
        return super().step(action)

    @tool
    def count(self) -> int:
        """Return how many steps there were."""
        return self.steps


class Mixed(GuessNumber):
    """Guesses, and tools besides."""

    def step(self, action: Any) -> Any:
        """Compare, or call a tool."""
        return super().step(action) if isinstance(action, Guess) else Environment.step(self, action)

    @tool
    def peek(self) -> int:
        """Tell the number."""
        return self.secret


class Raising(GuessNumber):
    """Raises in every step."""

    def step(self, action: Guess) -> Hint:
        """Raise."""
        raise RuntimeError(f"no {action.number} today")


@dataclass
class Picture:
    """Pixels, and what they show."""

    pixels: np.ndarray
    title: str


class Handle:
    """Something that no wire carries, as an open file or a library's image."""


class Show(Action):
    """What to show."""

    what: Literal["picture", "handle"]


class Shown(Observation):
    """What is shown."""

    thing: Any = None


class Gallery(Environment[Show, Shown, State]):
    """Shows a dataclass with an array in it, or what cannot be shown."""

    def reset(self, *, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Shown:
        """Show nothing."""
        return Shown()

    def step(self, action: Show) -> Shown:
        """Show it."""
        pixels = np.array([[np.nan, -0.0]], np.float32)
        return Shown(Picture(pixels, "two") if action.what == "picture" else {"deep": [Handle()]})


class Solitary(GuessNumber):
    """One in a process."""

    concurrency_safe = False
