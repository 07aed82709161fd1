"""Train Tianshou's PPO on four lanes: ``python tianshou_ppo.py KIND ENV_ID STEPS SEED``.

``dummy`` steps them in Tianshou's DummyVectorEnv, ``lanes`` as one vector environment. Prints the return of
every episode, at last those of a collection by episodes, in which lanes stop one by one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from openenv_gym.wrappers.vector import to_tianshou

LANES = 4


def make(kind: str, env_id: str) -> Any:
    if kind == "dummy":
        return DummyVectorEnv([lambda: gym.make(env_id)] * LANES)
    return to_tianshou(gym.make_vec(env_id, num_envs=LANES, autoreset_mode="Disabled"))


class Returns(Collector[CollectStats]):
    """Keeps the return of every episode."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.returns: list[float] = []

    def collect(self, *args: Any, **kwargs: Any) -> CollectStats:
        stats = super().collect(*args, **kwargs)
        self.returns += stats.returns.tolist()
        return stats


def train(kind: str, env_id: str, steps: int, seed: int) -> list[float]:
    torch.set_num_threads(1)
    np.random.seed(seed)
    torch.manual_seed(seed)
    envs = make(kind, env_id)
    envs.seed(seed)
    observations, actions = envs.observation_space[0], envs.action_space[0]
    nets = [Net(state_shape=observations.shape, hidden_sizes=[64, 64]) for _ in range(2)]
    actor = DiscreteActor(preprocess_net=nets[0], action_shape=actions.n, softmax_output=False)
    algorithm = PPO(
        policy=DiscreteActorPolicy(actor=actor, action_space=actions),
        critic=DiscreteCritic(preprocess_net=nets[1]),
        optim=AdamOptimizerFactory(lr=1e-3),
        ent_coef=0.01,
    )
    collector = Returns(algorithm, envs, VectorReplayBuffer(4096, LANES))
    params = OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=steps,
        collection_step_num_env_steps=1024,
        update_step_num_repetitions=6,
        batch_size=256,
        verbose=False,
        show_progress=False,
    )
    algorithm.run_training(params)
    collector.reset()
    collector.collect(n_episode=LANES + 2)
    envs.close()
    return collector.returns


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
