"""Field bugs about rendering: the same frames, the same modes, the same refusals as locally."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import HumanRendering, RenderCollection

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import ArgumentError
from openenv_gym.testing import difference, same
from tests.conformance.serving import Cell, serve

Remote = Callable[..., RemoteEnv]
Make = Callable[..., gym.Env[Any, Any]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Return gym.make of the mirror of FrozenLake-v1, which has every common mode."""
    cell = Cell("process", "handover", "unix")
    with serve("FrozenLake-v1", cell, tmp_path_factory.mktemp("s")) as url:
        yield partial(gym.make, "remote/FrozenLake-v1", base_url=url)


def frames(env: gym.Env[Any, Any]) -> list[Any]:
    with closing(env):
        env.reset(seed=2)
        seen = [env.render()]
        for action in (2, 1, 2):
            env.step(action)
            seen.append(env.render())
    return seen


@pytest.mark.parametrize("mode", ["rgb_array", "ansi", "rgb_array_list", "ansi_list"])
def test_f075_frames_are_those_of_the_environment(lake: Make, mode: str) -> None:
    assert (
        difference(frames(lake(render_mode=mode)), frames(gym.make("FrozenLake-v1", render_mode=mode)))
        is None
    )


def test_f075_an_image_is_an_image_and_a_text_a_text(lake: Make) -> None:
    image, text = frames(lake(render_mode="rgb_array"))[0], frames(lake(render_mode="ansi"))[0]
    assert (type(image), image.dtype, image.ndim, image.shape[2]) == (np.ndarray, np.uint8, 3, 3)
    assert type(text) is str


def test_f075_frame_lists_are_gymnasiums(lake: Make) -> None:
    with closing(lake(render_mode="rgb_array_list")) as env:
        assert isinstance(env, RenderCollection)
        env.reset(seed=2)
        env.step(0)
        first: Any = env.render()
        assert len(first) == 2
        assert env.unwrapped.render_mode == "rgb_array"


def test_f075_a_window_is_the_clients(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="'human' rendering for an environment that doesn't natively"):
        env = lake(render_mode="human")
    with closing(env):
        window: Any = env
        assert isinstance(window, HumanRendering)
        assert (env.render_mode, env.unwrapped.render_mode) == ("human", "rgb_array")
        env.reset(seed=2)
        env.step(2)
        import pygame

        shown = pygame.surfarray.array3d(window.window).transpose(1, 0, 2)
    assert same(shown.astype(np.uint8), frames(gym.make("FrozenLake-v1", render_mode="rgb_array"))[1])


@pytest.mark.parametrize(("env_id", "mode"), [("CartPole-v1", "ansi"), ("Blackjack-v1", "depth_array")])
@pytest.mark.filterwarnings("ignore:.*is not in the possible render_modes")
def test_f075_an_unsupported_mode_fails_where_the_env_is_made(env_id: str, mode: str, tmp_path: Path) -> None:
    with serve(env_id, Cell("thread", "handover", "unix"), tmp_path, max_sessions=1) as url:
        make = partial(gym.make, f"remote/{env_id}", base_url=url)
        with pytest.raises(ArgumentError, match=f"not support render_mode '{mode}'; it supports 'rgb_array'"):
            make(render_mode=mode)
        make(slot_timeout=10).close()  # the only slot comes free again


def test_f075_modes_and_speed_are_those_of_the_instance(lake: Make, remote: Remote) -> None:
    local = gym.make("FrozenLake-v1")
    with closing(lake()) as env:
        # Gymnasium's vector environments left their mode on the class before 1.4.
        local_metadata = {name: value for name, value in local.metadata.items() if name != "autoreset_mode"}
        assert env.metadata == local_metadata
        assert env.render_mode is None
    assert remote("RenderEnv").metadata["render_fps"] == 50
    assert remote("CounterEnv").metadata["render_modes"] == []


def test_f075_rendering_without_a_mode_is_warned_about(lake: Make) -> None:
    with closing(lake(disable_env_checker=True)) as env:
        env.reset()
        with pytest.warns(UserWarning, match="render_mode"):
            env.render()


def test_an_environment_that_collects_its_frames_itself(remote: Remote) -> None:
    env = remote("FrameListEnv", {"render_mode": "rgb_array_list"})
    env.reset()
    env.step(0)
    assert len(env.render()) == 2
