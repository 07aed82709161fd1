"""Serve 210x160x3 frames by OpenEnv's server: ``python frames_server.py``.

It prints its port and serves until it is killed. A frame is a flat list of numbers, as in OpenEnv's own Atari
environment.
"""

from __future__ import annotations

import random
import socket
from typing import Any

import uvicorn
from openenv.core import Action, Environment, Observation, State, create_fastapi_app

SIZE = 210 * 160 * 3


class FramesAction(Action):
    action: int


class FramesObservation(Observation):
    screen: list[int]
    screen_shape: list[int]


class Frames(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        rng = random.Random(0)
        self._prepared = [rng.choices(range(256), k=SIZE) for _ in range(8)]
        self._state = State(step_count=0)

    def _observe(self) -> FramesObservation:
        frame = self._prepared[self._state.step_count % 8]
        return FramesObservation(screen=frame, screen_shape=[210, 160, 3], done=False, reward=1.0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> FramesObservation:
        self._state = State(episode_id=episode_id, step_count=0)
        return self._observe()

    def step(self, action: FramesAction, timeout_s: float | None = None, **kwargs: Any) -> FramesObservation:
        self._state.step_count += 1
        return self._observe()

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Frames, FramesAction, FramesObservation, max_concurrent_envs=64)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
