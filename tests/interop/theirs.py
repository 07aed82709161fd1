"""Environments for the openenv package: ``python theirs.py KIND FD ...`` serves each on a listening socket.

Runs in the virtual environment that has that package; knows nothing of openenv_gym. ``ours.py`` has the same
environments for openenv_gym.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from typing import Any, Literal

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server import (
    Action,
    CallToolAction,
    CallToolObservation,
    Environment,
    MCPEnvironment,
    Observation,
    State,
    create_app,
)
from pydantic import Field


class ProbeAction(Action):
    message: str = Field(min_length=1)
    mood: Literal["calm", "loud"] = "calm"


class ProbeObservation(Observation):
    echoed: str = ""
    length: int = 0
    val: float | None = None


class ProbeState(State):
    last: str = ""


class Probe(Environment):
    """Does what the message says."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = ProbeState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> ProbeObservation:
        self._state = ProbeState(episode_id=episode_id or "an-episode")
        return ProbeObservation(echoed="ready", metadata={"seed": seed, **options})

    def step(self, action: ProbeAction, timeout_s: float | None = None, **options: Any) -> ProbeObservation:
        message = action.message
        if message == "kaboom":
            raise RuntimeError("kaboom")
        if message == "slow":
            time.sleep(10.0)
        self._state.step_count += 1
        self._state.last = message
        rewards = {"end": 1.0, "true": True, "one": 1, "nothing": None, "nan": math.nan}
        return ProbeObservation(
            echoed=message.upper() if action.mood == "loud" else message,
            length=len(message),
            val=0.5,
            done=message == "end",
            reward=rewards.get(message, 0.1 * len(message)),
            metadata={"step": self._state.step_count},
        )

    @property
    def state(self) -> ProbeState:
        return self._state


class Broken(Probe):
    """Cannot be built."""

    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Tools(MCPEnvironment):
    """Has tools."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server = FastMCP("tools")

        @server.tool
        def add(a: int, b: int = 2) -> int:
            """Add two numbers."""
            return a + b

        @server.tool
        def describe(word: str) -> dict[str, Any]:
            """Describe a word."""
            return {"word": word, "letters": list(word)}

        @server.tool
        def fail(why: str) -> str:
            """Raise."""
            raise ValueError(f"tool failed: {why}")

        super().__init__(server)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Observation:
        self._state = State(episode_id=episode_id or "an-episode")
        return Observation()

    def _step_impl(self, action: Action, timeout_s: float | None = None, **options: Any) -> Observation:
        return Observation(metadata={"error": "tools only"})

    @property
    def state(self) -> State:
        return self._state


APPS = {
    "probe": lambda: create_app(Probe, ProbeAction, ProbeObservation, "Probe", 8, state_cls=ProbeState),
    "solo": lambda: create_app(Probe, ProbeAction, ProbeObservation, "solo", 1, state_cls=ProbeState),
    "broken": lambda: create_app(Broken, ProbeAction, ProbeObservation, "broken", 4),
    "tools": lambda: create_app(Tools, CallToolAction, CallToolObservation, "tools", 4),
    "closed": lambda: create_app(Tools, CallToolAction, CallToolObservation, "tools", 4, mode="production"),
}


async def main(kinds: list[str], descriptors: list[str]) -> None:
    configs = [
        uvicorn.Config(APPS[kind](), fd=int(fd), log_level="warning")
        for kind, fd in zip(kinds, descriptors, strict=True)
    ]
    await asyncio.gather(*(uvicorn.Server(config).serve() for config in configs))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1::2], sys.argv[2::2]))
