"""A pool without workers, and a desk without a seat, for tests of what is around them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from openenv_gym.errors import OpenEnvError
from openenv_gym.servers.stages import Desk

FACTS: dict[str, Any] = {
    "target": "t",
    "observation_space": None,
    "action_space": None,
    "metadata": {"render_modes": ["ansi"], "render_fps": 30},
    "render_mode": None,
    "spec": {"max_episode_steps": 5, "reward_threshold": None, "nondeterministic": False},
}


def desk(
    local: bool = True, slow: bool | None = None, measured: list[bool] | None = None, ticks: Any = None
) -> Desk:
    """Return a desk; ``measured`` collects what it is told, ``ticks`` is called."""
    heard = [] if measured is None else measured
    return Desk(local, slow, heard.append, ticks or (lambda: None))


class FakePool:
    """Says what it is told to say, and records what happens to it."""

    def __init__(
        self, *, facts: dict[str, Any] | OpenEnvError = FACTS, opening: BaseException | None = None
    ) -> None:
        self.facts = facts
        self.opening = opening
        self.gate: asyncio.Event | None = None
        self.running: asyncio.Event | None = None
        self.calls: list[Any] = []
        self.idle: float | None = time.monotonic()

    def start(self) -> None:
        self.calls.append("start")

    async def open(self) -> None:
        self.calls.append("open")
        if self.gate is not None:
            await self.gate.wait()
        if self.opening is not None:
            raise self.opening

    async def drain(self, timeout: float) -> None:
        self.calls.append(("drain", timeout))
        if self.running is not None and timeout > 0:
            await self.running.wait()

    def capacity(self) -> dict[str, Any]:
        return {"active": 1, "max": 2, "waiting": 0}

    def idle_since(self) -> float | None:
        return self.idle

    async def describe(self) -> dict[str, Any]:
        self.calls.append("describe")
        if isinstance(self.facts, OpenEnvError):
            raise self.facts
        return self.facts
