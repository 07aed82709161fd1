"""Train Stable-Baselines3's PPO on several environments, and print every episode's return.

``python sb3_lanes.py dummy CartPole-v1 STEPS SEED`` uses its own DummyVecEnv, ``python sb3_lanes.py MODE
ENV_ID STEPS SEED`` a vector environment in that autoreset mode.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from openenv_gym.wrappers.vector.sb3 import to_sb3

LANES = 4


class Returns(VecMonitor):
    """Keeps the return of every episode."""

    def __init__(self, venv: Any) -> None:
        super().__init__(venv)
        self.returns: list[float] = []

    def step_wait(self) -> Any:
        result = super().step_wait()
        self.returns += [float(info["episode"]["r"]) for info in result[3] if "episode" in info]
        return result


def make(kind: str, env_id: str) -> Any:
    if kind == "dummy":
        return DummyVecEnv([lambda: gym.make(env_id)] * LANES)
    if "remote/" in env_id:
        return to_sb3(gym.make_vec(env_id, LANES, autoreset_mode=kind))
    vector_kwargs = {"autoreset_mode": kind}
    return to_sb3(gym.make_vec(env_id, LANES, vectorization_mode="sync", vector_kwargs=vector_kwargs))


def train(kind: str, env_id: str, steps: int, seed: int) -> list[float]:
    torch.set_num_threads(1)
    envs = Returns(make(kind, env_id))
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", n_steps=128, batch_size=128, n_epochs=4)
    model.learn(steps)
    mean, _ = evaluate_policy(model, envs, n_eval_episodes=4, warn=False)
    envs.close()
    return [*envs.returns, float(mean)]


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
