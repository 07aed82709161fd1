"""The environments of ``theirs.py``, written for openenv_gym."""

from __future__ import annotations

import math
import time
from typing import Annotated, Any, Literal

from msgspec import Meta

from openenv_gym.environment import Environment
from openenv_gym.models import Action, CallToolAction, Observation, State
from openenv_gym.tools import tool

__all__ = ["Broken", "Probe", "ProbeAction", "ProbeObservation", "ProbeState", "Tools"]


class ProbeAction(Action):
    message: Annotated[str, Meta(min_length=1)]
    mood: Literal["calm", "loud"] = "calm"


class ProbeObservation(Observation):
    echoed: str = ""
    length: int = 0
    val: float | None = None


class ProbeState(State):
    last: str = ""


class Probe(Environment[ProbeAction, ProbeObservation, ProbeState]):
    """Does what the message says."""

    def reset(
        self, *, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> ProbeObservation:
        return ProbeObservation("ready", metadata={"seed": seed, **options})

    def step(self, action: ProbeAction) -> ProbeObservation:
        message = action.message
        if message == "kaboom":
            raise RuntimeError("kaboom")
        if message == "slow":
            time.sleep(10.0)
        self.state.last = message
        rewards = {"end": 1.0, "true": True, "one": 1, "nothing": None, "nan": math.nan}
        return ProbeObservation(
            message.upper() if action.mood == "loud" else message,
            len(message),
            0.5,
            done=message == "end",
            reward=rewards.get(message, 0.1 * len(message)),
            metadata={"step": self.state.step_count + 1},
        )


class Broken(Probe):
    """Cannot be built."""

    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Tools(Environment[CallToolAction, Observation, State]):
    """Has tools."""

    @tool
    def add(self, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool(name="describe")
    def letters(self, word: str) -> dict[str, Any]:
        """Describe a word."""
        return {"word": word, "letters": list(word)}

    @tool
    def fail(self, why: str) -> str:
        """Raise."""
        raise ValueError(f"tool failed: {why}")
