"""Serve CartPole by OpenEnv's server: ``python server.py``; prints its port and serves until it is killed."""

from __future__ import annotations

import socket
from typing import Any

import gymnasium
import uvicorn
from openenv.core import Action, Environment, Observation, State, create_fastapi_app


class CartPoleAction(Action):
    action: int


class CartPoleObservation(Observation):
    values: list[float]


class CartPole(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._env = gymnasium.make("CartPole-v1", disable_env_checker=True, max_episode_steps=-1).unwrapped
        self._state = State(step_count=0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> CartPoleObservation:
        observation, _ = self._env.reset(seed=seed)
        self._state = State(episode_id=episode_id, step_count=0)
        return CartPoleObservation(values=observation.tolist(), done=False, reward=None)

    def step(
        self, action: CartPoleAction, timeout_s: float | None = None, **kwargs: Any
    ) -> CartPoleObservation:
        observation, reward, terminated, truncated, _ = self._env.step(action.action)
        self._state.step_count += 1
        return CartPoleObservation(values=observation.tolist(), done=terminated or truncated, reward=reward)

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._env.close()


if __name__ == "__main__":
    app = create_fastapi_app(CartPole, CartPoleAction, CartPoleObservation, max_concurrent_envs=64)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
