"""Show two remote environments at work: ``python -m openenv_gym.demo``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import openenv_gym

__all__ = ["main"]

_WORDS = ("hello", "remote world", "привет", "👋")


def main(argv: Sequence[str] | None = None) -> int:
    """Roll out Echo and CartPole, each on a server of its own, and print what happened.

    Args:
        argv: Command-line arguments; ``None`` takes the process's own.

    Returns:
        The exit code, 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m openenv_gym.demo",
        description="Roll out Echo and CartPole, each on a server of its own.",
    )
    parser.add_argument("--steps", type=int, default=2000, metavar="N", help="CartPole steps (default: 2000)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of CartPole and its actions (default: 0)"
    )
    options = parser.parse_args(argv)
    if options.steps < 1 or options.seed < 0:
        parser.error("--steps is at least 1, and --seed at least 0")
    print(f"openenv_gym {openenv_gym.__version__}, gymnasium {gym.__version__}\n")
    _echo()
    print()
    _cartpole(options.steps, options.seed)
    return 0


def _make(env_id: str) -> gym.Env[Any, Any]:
    start = time.perf_counter()
    env = gym.make(env_id)
    print(f'gym.make("{env_id}"): its own server was up in {time.perf_counter() - start:.2f} s')
    return env


def _echo() -> None:
    env = _make("openenv/Echo-v0")
    observation, _ = env.reset(seed=0)
    print(f"  reset                  -> {observation!r}")
    for word in _WORDS:
        observation, reward, *_ = env.step(word)
        print(f"  step {word!r:<18}-> {observation!r}, reward {float(reward):.1f}")
    env.close()


def _cartpole(steps: int, seed: int) -> None:
    env = _make("remote/CartPole-v1")
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    print(f"  observations {env.observation_space}\n  actions      {env.action_space}")
    print(f"  reset(seed={seed}) -> {observation}")
    returns, episode_return = [], 0.0
    start = time.perf_counter()
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        episode_return += float(reward)
        if terminated or truncated:
            returns.append(episode_return)
            episode_return = 0.0
            observation, _ = env.reset()
    seconds = time.perf_counter() - start
    env.close()
    shown = ", ".join(f"{value:.0f}" for value in returns[:8])
    print(f"  {len(returns)} episodes finished; returns {shown}{' ...' if len(returns) > 8 else ''}")
    rate, micros = steps / seconds, seconds / steps * 1e6
    print(f"  {steps} steps in {seconds:.2f} s: {rate:,.0f} steps/s, {micros:.0f} µs each")


if __name__ == "__main__":
    raise SystemExit(main())
