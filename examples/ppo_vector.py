"""PPO in one file, as CleanRL has it, on a vector environment that runs in an environment server.

python ppo_vector.py                                                 openenv_gym:remote/CartPole-v1
python ppo_vector.py --env-id openenv_gym:remote/Acrobot-v1 --seed 7
python ppo_vector.py --env-id CartPole-v1 --vectorization-mode sync      without a server: equal returns

Needs torch. The id is all there is to see of the servers: any environment with an array to observe and
discrete actions will do. Prints a line for every episode that ends. The step after an end begins the next
episode, whatever the action (AutoresetMode.NEXT_STEP); it is no experience and is left out of the updates.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical


@dataclass
class Args:
    env_id: str = "openenv_gym:remote/CartPole-v1"
    vectorization_mode: str = ""
    seed: int = 1
    total_timesteps: int = 50_000
    num_envs: int = 8
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


def network(inputs: int, outputs: int, std: float) -> nn.Sequential:
    return nn.Sequential(
        layer_init(nn.Linear(inputs, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, outputs), std),
    )


class Agent(nn.Module):
    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.critic = network(inputs, 1, std=1.0)
        self.actor = network(inputs, int(envs.single_action_space.n), std=0.01)

    def get_value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).flatten()

    def get_action_and_value(
        self, obs: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        policy = Categorical(logits=self.actor(obs))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.get_value(obs)


class Storage:
    """What a rollout gave: a row for each step, a column for each lane."""

    def __init__(self, args: Args, obs: Tensor) -> None:
        size = (args.num_steps, args.num_envs)
        self.obs = torch.zeros((args.num_steps, *obs.shape))
        self.actions = torch.zeros(size, dtype=torch.long)
        self.logprobs, self.rewards, self.values = torch.zeros(size), torch.zeros(size), torch.zeros(size)
        self.terminations = torch.zeros(size)
        self.dones = torch.zeros(size, dtype=torch.bool)  # whether the episode was over before the step


def get_advantages(args: Args, rows: Storage, next_value: Tensor, next_done: Tensor) -> Tensor:
    """Generalised advantage estimation: what follows a truncated step has a value, a terminated one none."""
    advantages, last = torch.zeros_like(rows.rewards), torch.zeros_like(next_value)
    for t in reversed(range(args.num_steps)):
        bootstrap = args.gamma * next_value * (1.0 - rows.terminations[t])
        delta = rows.rewards[t] + bootstrap - rows.values[t]
        last = delta + args.gamma * args.gae_lambda * (~next_done) * last
        advantages[t], next_value, next_done = last, rows.values[t], rows.dones[t]
    return advantages


def update(
    args: Args, agent: Agent, optimizer: torch.optim.Optimizer, rows: Storage, advantages: Tensor
) -> None:
    returns, valid = advantages + rows.values, ~rows.dones.flatten()
    columns = (rows.obs, rows.actions, rows.logprobs, advantages, returns)
    batch = [column.flatten(0, 1)[valid] for column in columns]
    for _ in range(args.update_epochs):
        for picks in torch.randperm(len(batch[0])).chunk(args.num_minibatches):
            obs, actions, logprobs, gain, target = (column[picks] for column in batch)
            _, logprob, entropy, value = agent.get_action_and_value(obs, actions)
            ratio = (logprob - logprobs).exp()
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(-gain * ratio, -gain * clipped).mean()
            v_loss = 0.5 * (value - target).square().mean()
            loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()


def main(args: Args) -> None:
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the networks are small

    envs = gym.make_vec(
        args.env_id, num_envs=args.num_envs, vectorization_mode=args.vectorization_mode or None
    )
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    first, _ = envs.reset(seed=args.seed)
    next_obs = torch.as_tensor(first, dtype=torch.float32).flatten(1)
    next_done = torch.zeros(args.num_envs, dtype=torch.bool)
    num_iterations = args.total_timesteps // (args.num_steps * args.num_envs)
    global_step, start, rows = 0, time.monotonic(), Storage(args, next_obs)

    for iteration in range(num_iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1.0 - iteration / num_iterations)
        for t in range(args.num_steps):
            global_step += args.num_envs
            with torch.no_grad():
                action, rows.logprobs[t], _, rows.values[t] = agent.get_action_and_value(next_obs)
            obs, reward, terminated, truncated, infos = envs.step(action.numpy())
            rows.obs[t], rows.dones[t], rows.actions[t] = next_obs, next_done, action
            rows.rewards[t], rows.terminations[t] = torch.as_tensor(reward), torch.as_tensor(terminated)
            next_obs = torch.as_tensor(obs, dtype=torch.float32).flatten(1)
            next_done = torch.as_tensor(terminated | truncated)
            for lane in np.flatnonzero(infos.get("_episode", ())):
                print(f"global_step={global_step}, episodic_return={infos['episode']['r'][lane]}")
        with torch.no_grad():
            advantages = get_advantages(args, rows, agent.get_value(next_obs), next_done)
        update(args, agent, optimizer, rows, advantages)

    print(f"{global_step / (time.monotonic() - start):.0f} steps a second")
    envs.close()


def parse_args() -> Args:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for field in fields(Args):
        name, kind = f"--{field.name.replace('_', '-')}", type(field.default)
        parser.add_argument(
            name, type=kind, default=field.default, metavar=kind.__name__, help="[%(default)r]"
        )
    return Args(**vars(parser.parse_args()))


if __name__ == "__main__":
    main(parse_args())
