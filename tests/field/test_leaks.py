"""Field bug F054: what an env takes it gives back, at the client and in the server."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import pytest

from openenv_gym.env import RemoteEnv
from tests.support.serverproc import eventually

CYCLES = 200
SLACK = 3


def descendants(pid: int | str) -> list[int]:
    """Return the processes that come of a process, itself first."""
    found = [int(Path(f"/proc/{pid}").resolve().name)]
    for children in Path(f"/proc/{found[0]}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            for child in children.read_text().split():
                found += descendants(child)
    return found


def entries(pid: int, folder: str) -> int:
    """Return how many entries a folder of a process has, 0 when the process is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/{folder}"))
    except OSError:
        return 0


def holdings(pid: int | str) -> dict[str, int]:
    """Return how many descriptors, threads and processes a process tree has."""
    pids = descendants(pid)
    return {
        "descriptors": sum(entries(each, "fd") for each in pids),
        "threads": sum(entries(each, "task") for each in pids),
        "processes": len(pids),
    }


def settles(pid: int | str, start: dict[str, int]) -> Callable[[], bool]:
    def settled() -> bool:
        now = holdings(pid)
        return all(now[name] <= start[name] + SLACK for name in start)

    return settled


@pytest.mark.parametrize("provider", ["process", "inprocess"])
def test_f054_two_hundred_envs_leave_nothing_behind(provider: str) -> None:
    kwargs = {"workers": 1} if provider == "process" else {}
    keeper = gym.make("remote/CartPole-v1", provider=provider, provider_kwargs=kwargs)
    keeper.reset(seed=0)

    def cycle() -> None:
        env = gym.make("remote/CartPole-v1", provider=provider, provider_kwargs=kwargs)
        env.reset(seed=0)
        env.step(0)
        env.close()

    for _ in range(5):
        cycle()
    start, threads = holdings("self"), threading.active_count()
    for _ in range(CYCLES):
        cycle()
    # The server counts as our child; a closed session may take a moment to end there.
    assert eventually(settles("self", start)), (start, holdings("self"))
    assert eventually(lambda: threading.active_count() <= threads + SLACK)
    assert isinstance(keeper.unwrapped, RemoteEnv)
    keeper.step(0)
    keeper.close()
