"""Gymnasium's own wrappers around a remote environment; tests/conformance has those that only compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from openenv_gym.testing import check_remote, difference, same
from tests.support.testenvs import RenderEnv

SPEC: dict[str, Any] = {"env_id": "tests.support.testenvs:Render-v0", "render_mode": "rgb_array"}


def remote() -> gym.Env[Any, Any]:
    return gym.make("openenv/Gym-v0", provider="inprocess", **SPEC)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_videos_have_the_frames_of_the_local_environment(tmp_path: Path) -> None:
    recorders: list[Any] = [
        wrappers.RecordVideo(env, str(tmp_path / name), episode_trigger=lambda episode: True)
        for name, env in (("ours", remote()), ("theirs", RenderEnv("rgb_array")))
    ]
    for env in recorders:
        env.reset()
        for _ in range(5):
            env.step(0)
    ours, theirs = (np.array(env.recorded_frames) for env in recorders)
    assert ours.shape == (6, 6, 8, 3)
    assert same(ours, theirs)
    for env in recorders:
        env.close()
    assert (tmp_path / "ours" / "rl-video-episode-0.mp4").stat().st_size > 0


def test_frames_become_observations() -> None:
    ours = wrappers.AddRenderObservation(remote(), render_only=True)
    check_remote(ours, wrappers.AddRenderObservation(RenderEnv("rgb_array"), render_only=True), steps=5)
    ours.close()


def test_frames_are_collected() -> None:
    ours, theirs = wrappers.RenderCollection(remote()), wrappers.RenderCollection(RenderEnv("rgb_array"))
    for env in (ours, theirs):
        env.reset()
        env.step(0)
    assert difference(ours.render(), theirs.render()) is None
    ours.close()


def test_order_is_enforced_before_anything_is_sent() -> None:
    env = gym.make("remote/CartPole-v1", provider="inprocess")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.close()
