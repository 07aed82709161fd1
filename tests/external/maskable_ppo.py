"""Train sb3-contrib's MaskablePPO: ``python maskable_ppo.py ENV_ID STEPS SEED [KWARGS]``.

The environment must have ``action_masks()``; ``KWARGS`` is a JSON map for ``gym.make``. Prints the return of
every episode.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium as gym
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.monitor import Monitor


def train(env_id: str, steps: int, seed: int, kwargs: dict[str, Any]) -> list[float]:
    torch.set_num_threads(1)
    env = Monitor(gym.make(env_id, **kwargs))
    model = MaskablePPO("MlpPolicy", env, seed=seed, device="cpu", n_steps=128, batch_size=64)
    model.learn(steps)
    observation, _ = env.reset(seed=seed)
    masks = get_action_masks(env)
    action, _ = model.predict(observation, action_masks=masks)
    assert masks[int(action)], "the policy chose a masked action"
    returns = env.get_episode_rewards()
    env.close()
    return returns


if __name__ == "__main__":
    extra = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), extra)))
