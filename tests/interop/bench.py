"""An environment with tools of every kind."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from openenv_gym.environment import Environment
from openenv_gym.models import CallToolAction, Observation, State
from openenv_gym.tools import ToolResult, tool

__all__ = ["Bench"]


class Bench(Environment[CallToolAction, Observation, State]):
    """Tools of every kind."""

    @tool
    def add(self, a: int, b: Annotated[int, Meta(ge=0)] = 0) -> int:
        """Add two numbers."""
        return a + b

    @tool
    def count(self) -> dict[str, int]:
        """Return how many calls this episode had."""
        return {"calls": self.state.step_count + 1}

    @tool
    async def wait(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    @tool
    def fail(self, why: str) -> str:
        raise ValueError(why)

    @tool
    def picture(self) -> Any:
        return ToolResult(content=[{"type": "image", "data": "AAAA", "mimeType": "image/png"}], data="png")

    @tool
    def learn(self) -> str:
        def learned(word: str) -> str:
            return word * 2

        assert self.tool_table is not None
        self.tool_table.add(learned)
        return "learned"
