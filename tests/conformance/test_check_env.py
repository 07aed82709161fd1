"""Gymnasium's checker passes what is remote exactly when it passes what is local."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import openenv_gym  # noqa: F401 - registers the ids

from .serving import Cell, serve
from .subjects import IDS, LITERAL, group_of

_GROUPS = ("classic control", "toy text", "box2d", "mujoco")
#: What Gymnasium says of any env whose class cannot know the modes of the instance, or draws for a window.
_OF_MODES = ("is not in the possible render_modes", "that doesn't natively support it")


def complaints(make: Callable[[], gym.Env[Any, Any]], **kwargs: bool) -> set[str]:
    """Return the warnings of the checker, as the local environment would be called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = make()
        try:
            check_env(env.unwrapped, **kwargs)
        finally:
            env.close()
    texts = (re.sub(r"\x1b\[\d+m|remote/", "", str(warning.message)) for warning in caught)
    return {text for text in texts if not any(words in text for words in _OF_MODES)}


def local_complaints(env_id: str) -> set[str]:
    # Without a screen the window of MuJoCo aborts the process.
    return complaints(lambda: gym.make(env_id), skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_a_mirror_passes_as_the_environment_does(env_id: str, tmp_path: Path) -> None:
    expected = local_complaints(env_id)
    # A process that draws is new to its driver each time, which takes seconds without a graphics card.
    worker = "thread" if group_of(env_id) == "mujoco" else "process"
    with serve(env_id, Cell(worker, "handover", "unix"), tmp_path) as url:
        assert complaints(lambda: gym.make(f"remote/{env_id}", base_url=url)) <= expected


def test_echo_passes() -> None:
    assert complaints(lambda: gym.make("openenv/Echo-v0")) == set()


def test_the_list_has_every_id_that_passes_locally() -> None:
    passing = set()
    for env_id, spec in gym.registry.items():
        if str(spec.entry_point).startswith("gymnasium.envs.") and group_of(env_id) in _GROUPS:
            try:
                local_complaints(env_id)
            except ImportError:  # the old ones have moved away
                continue
            passing.add(env_id)
    assert passing - {"Taxi-v3"} == set(IDS)  # 1.4 has it no more


def test_the_list_is_complete() -> None:
    assert len(set(LITERAL)) == 38
    assert gym.__version__ < "1.4" or LITERAL == IDS
