"""Rollouts of a remote vector environment beside the local one, and servers to run them on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv

PARTS = ("observations", "rewards", "terminations", "truncations", "infos")


def remote(env_id: str, num_envs: int, **kwargs: Any) -> RemoteVectorEnv:
    """Return a remote vector environment; in threads of this process unless ``kwargs`` say otherwise."""
    if "base_url" not in kwargs:
        kwargs.setdefault("provider", "inprocess")
    envs = gym.make_vec(f"remote/{env_id}", num_envs=num_envs, **kwargs)
    assert isinstance(envs, RemoteVectorEnv)
    return envs


@contextmanager
def making(env_id: str, num_envs: int, **kwargs: Any) -> Iterator[RemoteVectorEnv]:
    """As :func:`remote`, closed at the end."""
    envs = remote(env_id, num_envs, **kwargs)
    try:
        yield envs
    finally:
        envs.close()


def local(
    env_id: str,
    num_envs: int,
    mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    **kwargs: Any,
) -> SyncVectorEnv:
    """Return the local counterpart: no checker, no order enforcement, since the remote lanes have neither."""
    spec = gym.spec(env_id)
    limit = kwargs.pop("max_episode_steps", spec.max_episode_steps)

    def make() -> gym.Env[Any, Any]:
        env = gym.make(env_id, disable_env_checker=True, max_episode_steps=-1, **kwargs).unwrapped
        return env if limit is None else gym.wrappers.TimeLimit(env, limit)

    return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


def agree(ours: Any, theirs: Any, where: str) -> None:
    """Check that two results are the same, bit for bit."""
    for name, mine, other in zip(
        PARTS if len(theirs) == 5 else (PARTS[0], PARTS[4]), ours, theirs, strict=True
    ):
        text = difference(mine, other, f"{where}: {name}")
        assert text is None, text


def compare(envs: RemoteVectorEnv, sync: SyncVectorEnv, steps: int, *, seed: int = 5) -> int:
    """Step both with the same actions, resetting by mask where the mode asks for it; return the resets."""
    assert envs.observation_space == sync.observation_space
    assert envs.action_space == sync.action_space
    manual = envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    sync.action_space.seed(seed)
    agree(envs.reset(seed=seed), sync.reset(seed=seed), "reset")
    resets = 0
    for step in range(steps):
        actions = sync.action_space.sample()
        result = sync.step(actions)
        agree(envs.step(actions), result, f"step {step}")
        ended = result[2] | result[3]
        if manual and ended.any():
            seeds: Any = [seed + step + lane if lane % 2 else None for lane in range(sync.num_envs)]
            for lane in np.flatnonzero(ended):
                seeds[lane] = int(seed + step + lane)
            mine, theirs = {"reset_mask": ended.copy()}, {"reset_mask": ended.copy()}
            agree(
                envs.reset(seed=seeds, options=mine), sync.reset(seed=seeds, options=theirs), "masked reset"
            )
            assert mine.keys() == {"reset_mask"}
        resets += int(ended.sum())
    return resets
