"""An environment is freed on the thread that it lived on, before another session's thread could do it."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import TimeLimit

from openenv_gym.servers.lane import Lane
from tests.support.shapeenvs import RenderEnv


class Freed(RenderEnv):
    """Notes the thread on which it is freed."""

    def __init__(self, threads: list[int], cycle: bool) -> None:
        super().__init__()
        weakref.finalize(self, lambda: threads.append(threading.get_ident()))
        self.itself = self if cycle else None


@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_closing_frees_the_environment_at_once(cycle: bool, wrapped: bool) -> None:
    threads: list[int] = []
    gc.disable()
    try:
        env: gym.Env[Any, Any] = Freed(threads, cycle)
        lane = Lane(TimeLimit(env, 5) if wrapped else env)
        del env
        lane.close()
        assert threads == [threading.get_ident()]
    finally:
        gc.enable()
