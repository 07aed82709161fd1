"""Train Stable-Baselines3's PPO: ``python sb3_ppo.py ENV_ID STEPS SEED``; prints every episode's return."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor


def train(env_id: str, steps: int, seed: int) -> list[float]:
    torch.set_num_threads(1)
    env = Monitor(gym.make(env_id))
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", n_steps=512, batch_size=128, n_epochs=4)
    model.learn(steps)
    returns = env.get_episode_rewards()
    env.close()
    return returns


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
