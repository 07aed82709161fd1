"""Rubrics and observations for the tests."""

from __future__ import annotations

import asyncio
from typing import Any

from openenv_gym.models import Action, Observation
from openenv_gym.rubrics import Rubric

__all__ = ["Async", "Fixed", "Said", "Say"]


class Say(Action):
    text: str = ""


class Said(Observation):
    text: str = ""


class Fixed(Rubric):
    """Gives what it was told to, and counts."""

    def __init__(self, score: Any = 1.0) -> None:
        self.score = score
        self.calls = 0

    def forward(self, action: Any, observation: Any) -> Any:
        self.calls += 1
        if isinstance(self.score, BaseException):
            raise self.score
        return self.score


class Async(Fixed):
    """The same, awaited."""

    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)
