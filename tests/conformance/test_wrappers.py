"""Gymnasium's wrappers act on a remote environment as on a local one, and a spec brings them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from openenv_gym.testing import check_remote, difference

from .serving import Cell, serve

Wrap = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
WRAPPERS: dict[str, Wrap] = {
    "statistics": wrappers.RecordEpisodeStatistics,
    "time": wrappers.TimeAwareObservation,
    "normal": wrappers.NormalizeObservation,
    "reward": wrappers.NormalizeReward,
    "stack": lambda env: wrappers.FrameStackObservation(env, 3),
    "rescale": lambda env: wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    "autoreset": wrappers.Autoreset,
    "flat": lambda env: wrappers.FlattenObservation(wrappers.TimeAwareObservation(env, flatten=False)),
}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve("Pendulum-v1", Cell("process", "handover", "unix"), tmp_path_factory.mktemp("s")) as url:
        yield url


def timeless(step: Any) -> Any:
    """Return a step's result without how long the episode took."""
    step[4].get("episode", {}).pop("t", None)
    return step


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_acts_as_locally(name: str, base_url: str) -> None:
    kwargs: dict[str, Any] = {"render_mode": "rgb_array", "max_episode_steps": 20}
    wrap = WRAPPERS[name]
    local = wrap(gym.make("Pendulum-v1", **kwargs))
    with closing(wrap(gym.make("remote/Pendulum-v1", base_url=base_url, **kwargs))) as remote:
        check_remote(remote, local, steps=19)
        action = local.action_space.sample()
        assert difference(timeless(remote.step(action)), timeless(local.step(action))) is None
        assert remote.spec is not None
        with closing(gym.make(remote.spec)) as again:
            local = gym.make(local.spec)  # type: ignore[arg-type]
            assert difference(again.reset(seed=2), local.reset(seed=2)) is None
