"""Train TorchRL's PPO on four lanes: ``python torchrl_ppo.py ENV_ID AUTORESET_MODE STEPS SEED``.

A local id is stepped by Gymnasium's SyncVectorEnv. Prints the return of every episode.
"""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

LANES, FRAMES = 4, 1024


def make(env_id: str, mode: str) -> gym.vector.VectorEnv:
    if "remote/" in env_id:
        return gym.make_vec(env_id, num_envs=LANES, autoreset_mode=mode)
    options = {"autoreset_mode": gym.vector.AutoresetMode(mode)}
    return gym.make_vec(env_id, num_envs=LANES, vectorization_mode="sync", vector_kwargs=options)


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def train(env_id: str, mode: str, steps: int, seed: int) -> list[float]:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    envs = make(env_id, mode)
    env = TransformedEnv(GymWrapper(envs), RewardSum())
    env.set_seed(seed)
    inputs, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    actor = ProbabilisticActor(
        TensorDictModule(network(inputs, actions), in_keys=["observation"], out_keys=["logits"]),
        spec=env.action_spec,
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(inputs, 1), in_keys=["observation"])
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    collector = Collector(env, actor, frames_per_batch=FRAMES, total_frames=steps)
    returns: list[float] = []
    for data in collector:
        done = data["next", "done"]
        returns += data["next", "episode_reward"][done].tolist()
        for _ in range(6):
            with torch.no_grad():
                advantage(data)
            for picks in torch.randperm(FRAMES).chunk(4):
                losses = loss(data.reshape(-1)[picks])
                optimizer.zero_grad()
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
    collector.shutdown()
    return returns


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
