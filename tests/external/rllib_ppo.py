"""Train RLlib's PPO on four lanes: ``python rllib_ppo.py ENV_ID VECTORIZATION_MODE ITERATIONS SEED``.

Prints the mean return of each iteration's episodes.
"""

from __future__ import annotations

import json
import sys

from ray.rllib.algorithms.ppo import PPOConfig


def train(env_id: str, mode: str, iterations: int, seed: int) -> list[float]:
    config = (
        PPOConfig()
        .environment(env_id)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode=mode)
        .training(train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=6, lr=1e-3)
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    means = [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(iterations)]
    algorithm.stop()
    return [float(mean) for mean in means]


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
