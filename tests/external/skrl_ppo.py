"""Train skrl's PPO on four lanes: ``python skrl_ppo.py ENV_ID VECTORIZATION_MODE STEPS SEED``.

Prints the return of every episode.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

LANES = 4


class Returns(gym.wrappers.vector.RecordEpisodeStatistics):
    """Keeps the return of every episode."""

    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__(envs, buffer_length=100_000)

    def all(self) -> list[float]:
        return [float(value) for value in self.return_queue]


class Policy(CategoricalMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = network(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = network(self.num_observations, 1)

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def train(env_id: str, mode: str, steps: int, seed: int) -> list[float]:
    torch.set_num_threads(1)
    set_seed(seed)
    returns = Returns(gym.make_vec(env_id, num_envs=LANES, vectorization_mode=mode))
    env = wrap_env(returns)
    spaces = {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "device": env.device,
    }
    cfg = PPO_CFG(rollouts=128, learning_epochs=6, mini_batches=4, learning_rate=1e-3)
    cfg.experiment.directory = tempfile.mkdtemp()
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = PPO(
        models={"policy": Policy(**spaces), "value": Value(**spaces)},
        memory=RandomMemory(memory_size=128, num_envs=LANES, device=env.device),
        cfg=cfg,
        **spaces,
    )
    options = {"timesteps": steps // LANES, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=options).train()
    env.close()
    return returns.all()


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
