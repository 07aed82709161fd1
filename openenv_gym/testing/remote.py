"""A remote environment and the local one, side by side."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from ..environment import Environment
from ..errors import ConfigError
from ..typed_env import TypedEnv
from .compare import difference

__all__ = ["Agreement", "check_remote"]

_PARTS = ("obs", "reward", "terminated", "truncated", "info")


class Agreement(NamedTuple):
    """How far two environments were compared.

    Attributes:
        steps: Number of steps.
        episodes: Number of resets.
        frames: Number of rendered frames.
    """

    steps: int
    episodes: int
    frames: int


def check_remote(
    remote: gym.Env[Any, Any],
    local: gym.Env[Any, Any] | Environment[Any, Any, Any],
    *,
    steps: int = 300,
    seed: int = 0,
    frames: int = 0,
    policy: Callable[[Any, dict[str, Any]], Any] | None = None,
) -> Agreement:
    """Check that a remote environment acts as the local one does, bit for bit, over a seeded rollout.

    Compared are spaces, metadata and render mode, then each observation, reward, flag and info, types
    included. An episode that ends is followed by one with the next seed. Both envs stay open.

    ::

        remote = gym.make("remote/CartPole-v1", render_mode="rgb_array")
        local = gym.make("CartPole-v1", render_mode="rgb_array")
        check_remote(remote, local, frames=10)

    Args:
        remote: The env to check.
        local: What it must be like: deterministic under a seed. A typed environment is taken as
            :class:`~openenv_gym.typed_env.TypedEnv` shows it.
        steps: Number of steps.
        seed: Of the first episode, and of the actions.
        frames: How often to render, spread evenly over the steps; the envs need a render mode for it.
        policy: Chooses an action from the local observation and info; ``None``: a seeded sample of the local
            action space.

    Returns:
        How much was compared.

    Raises:
        AssertionError: They differ; the message says where and how.
        ConfigError: One of them is no single environment.
        Exception: Whatever the envs raise.
    """
    if isinstance(local, Environment):
        local = TypedEnv(local)
    _check_surface(remote, local)
    local.action_space.seed(seed)
    due = {(index * steps) // frames for index in range(frames)}
    episodes, rendered, result = 0, 0, None
    for step in range(steps):
        if result is None:
            state = _reset_both(remote, local, seed + episodes)
            episodes += 1
        action = local.action_space.sample() if policy is None else policy(*state)
        result = _step_both(remote, local, action, f"step {step} (episode {episodes})")
        state = result[0], result[4]
        if step in due:
            _agree(remote.render(), local.render(), f"step {step}: frame")
            rendered += 1
        if result[2] or result[3]:
            result = None
    return Agreement(steps, episodes, rendered)


def _check_surface(remote: gym.Env[Any, Any], local: gym.Env[Any, Any]) -> None:
    for name, env in (("remote", remote), ("local", local)):
        if not isinstance(env, gym.Env):
            raise ConfigError(
                f"{name} is a {type(env).__name__}; pass a gymnasium.Env, as gym.make gives it (for vector"
                " environments there is check_vector_env with reference=)"
            )
    for name in ("observation_space", "action_space", "render_mode"):
        ours, theirs = getattr(remote, name), getattr(local, name)
        assert ours == theirs, f"{name} is {ours!r}, not {theirs!r}"
    ours, theirs = _own_metadata(remote), _own_metadata(local)
    assert ours == theirs, f"metadata is {ours!r}, not {theirs!r}"


def _own_metadata(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the metadata of ``env`` without what Gymnasium's vector environments left there before 1.4."""
    return {name: value for name, value in env.metadata.items() if name != "autoreset_mode"}


def _reset_both(remote: gym.Env[Any, Any], local: gym.Env[Any, Any], seed: int) -> tuple[Any, Any]:
    state = local.reset(seed=seed)
    for name, ours, theirs in zip(("obs", "info"), remote.reset(seed=seed), state, strict=True):
        _agree(ours, theirs, f"reset(seed={seed}): {name}")
    return state


def _step_both(remote: gym.Env[Any, Any], local: gym.Env[Any, Any], action: Any, where: str) -> Any:
    # An environment may change the action it is given.
    result = local.step(copy.deepcopy(action))
    for name, ours, theirs in zip(_PARTS, remote.step(copy.deepcopy(action)), result, strict=True):
        _agree(ours, theirs, f"{where}: {name}")
    return result


def _agree(remote: Any, local: Any, where: str) -> None:
    text = difference(remote, local, where)
    assert text is None, f"the remote environment differs: {text}"
