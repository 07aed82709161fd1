"""Environments with rubrics, for servers."""

from __future__ import annotations

from typing import Any

from openenv_gym.environment import Environment
from openenv_gym.models import State
from openenv_gym.rubrics import LLMJudge, Rubric, Sequential, WeightedSum
from tests.rubrics.rubrics import Async, Fixed, Said, Say

__all__ = ["Talk"]


class Echoed(Rubric):
    """What the text says, as a number."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.text)


class Reader:
    """A model that reads the prompt out, and has its days."""

    async def complete(self, prompt: str) -> str:
        if prompt == "0.125":
            raise ConnectionError("gone")
        return prompt


class Talk(Environment[Say, Said, State]):
    """Says what was said to it, for a reward of that number."""

    def __init__(self) -> None:
        judge = LLMJudge("{observation.text}", Reader())
        self.rubric = Sequential(Echoed(), WeightedSum([judge, Async(1.0), Fixed(1.0)], [0.5, 0.25, 0.25]))

    def reset(self) -> Said:
        return Said(text="")

    def step(self, action: Say) -> Said:
        return Said(text=action.text)
