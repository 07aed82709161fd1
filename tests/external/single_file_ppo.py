"""PPO in one file, the way research code is written: ``python single_file_ppo.py --env-id ENV_ID``.

Knows nothing of remote environments. Prints ``global_step=..., episodic_return=...`` for every episode.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=4096)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    return parser.parse_args()


def make_env(env_id: str) -> Callable[[], gym.Env]:
    return lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))


def layer(inputs: int, outputs: int, std: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.constant_(linear.bias, 0.0)
    return linear


class Agent(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(
            layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, 0.01)
        )

    def act(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        policy = Categorical(logits=self.actor(obs))
        action = policy.sample()
        return action, policy.log_prob(action), self.critic(obs).squeeze(-1)

    def judge(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        policy = Categorical(logits=self.actor(obs))
        return policy.log_prob(action), policy.entropy(), self.critic(obs).squeeze(-1)


class Trainer:
    def __init__(self, args: argparse.Namespace, envs: gym.vector.VectorEnv) -> None:
        self.args, self.envs = args, envs
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.agent = Agent(inputs, int(envs.single_action_space.n))
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=args.learning_rate, eps=1e-5)
        first, _ = envs.reset(seed=args.seed)
        self.obs = torch.tensor(first, dtype=torch.float32)
        self.done = torch.zeros(args.num_envs)
        self.step = 0

    @torch.no_grad()
    def rollout(self) -> tuple[Tensor, ...]:
        rows = []
        for _ in range(self.args.num_steps):
            action, logprob, value = self.agent.act(self.obs)
            next_obs, reward, terminated, truncated, infos = self.envs.step(action.numpy())
            self.step += self.args.num_envs
            self.report(infos)
            rows.append((self.obs, action, logprob, value, torch.tensor(reward).float(), self.done))
            self.obs = torch.tensor(next_obs, dtype=torch.float32)
            self.done = torch.tensor(terminated | truncated).float()
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    def report(self, infos: dict) -> None:
        for index in np.flatnonzero(infos.get("_episode", ())):
            print(f"global_step={self.step}, episodic_return={infos['episode']['r'][index]}")

    @torch.no_grad()
    def advantages(self, values: Tensor, rewards: Tensor, dones: Tensor) -> Tensor:
        args, result = self.args, torch.zeros_like(rewards)
        running = torch.zeros(args.num_envs)
        next_value, next_done = self.agent.critic(self.obs).squeeze(-1), self.done
        for t in reversed(range(args.num_steps)):
            delta = rewards[t] + args.gamma * next_value * (1 - next_done) - values[t]
            running = delta + args.gamma * args.gae_lambda * (1 - next_done) * running
            result[t], next_value, next_done = running, values[t], dones[t]
        return result

    def update(self, rows: tuple[Tensor, ...]) -> None:
        args = self.args
        obs, actions, logprobs, values, rewards, dones = rows
        advantages = self.advantages(values, rewards, dones)
        returns = (advantages + values).flatten()
        obs, actions, logprobs, advantages = (x.flatten(0, 1) for x in (obs, actions, logprobs, advantages))
        for _ in range(args.update_epochs):
            for picks in torch.randperm(len(obs)).chunk(args.num_minibatches):
                logprob, entropy, value = self.agent.judge(obs[picks], actions[picks])
                ratio = (logprob - logprobs[picks]).exp()
                gain = advantages[picks]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                loss = torch.max(-gain * ratio, -gain * clipped).mean()
                loss = loss + args.vf_coef * 0.5 * ((value - returns[picks]) ** 2).mean()
                loss = loss - args.ent_coef * entropy.mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), 0.5)
                self.optimizer.step()


def main() -> None:
    args = arguments()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv([make_env(args.env_id) for _ in range(args.num_envs)])
    trainer = Trainer(args, envs)
    while trainer.step < args.total_timesteps:
        trainer.update(trainer.rollout())
    envs.close()


if __name__ == "__main__":
    main()
