"""Whatever an environment started is gone once its worker is, however that came about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import take_settings
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import WorkerCrashedError
from tests.support.faultenvs import CounterEnv, Step
from tests.support.serverproc import ServerProcess, eventually, serving

_TARGET = "tests.faults.test_offspring:ParentEnv"
_SLEEP = "import time; time.sleep(600)"
_FORK_AND_SLEEP = f"import os; os.fork() and os._exit(0); os.setsid(); {_SLEEP}"


class ParentEnv(CounterEnv):
    """Starts a child, one in a session of its own, and a daemon, and ends none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.started = [
            subprocess.Popen([sys.executable, "-S", "-c", _SLEEP]),
            subprocess.Popen([sys.executable, "-S", "-c", _SLEEP], start_new_session=True),
            subprocess.Popen([sys.executable, "-S", "-c", _FORK_AND_SLEEP]),
        ]


def _worker(server: ServerProcess) -> None:
    os.kill(server.workers()[0], signal.SIGKILL)


def _template(server: ServerProcess) -> None:
    os.kill(server.template(), signal.SIGKILL)


@pytest.mark.parametrize("kill", [_worker, _template], ids=["worker", "template"])
def test_after_a_kill(kill: Callable[[ServerProcess], None], tmp_path: Path) -> None:
    with serving(_TARGET, "--workers", "1", log=tmp_path / "log") as server:
        env = RemoteEnv(base_url=server.url)
        env.reset()
        assert eventually(lambda: len(server.family()) == 6)
        before = server.family().keys()
        kill(server)
        left = {server.pid, server.template()} if kill is _worker else {server.pid}
        assert eventually(lambda: before & server.family().keys() <= left), server.family()
        with pytest.raises(WorkerCrashedError):
            env.step(0)
        env.reset()
        env.close()


def test_after_the_server_was_killed(tmp_path: Path) -> None:
    with serving(_TARGET, "--workers", "1", log=tmp_path / "log") as server:
        env = RemoteEnv(base_url=server.url)
        assert eventually(lambda: len(server.family()) == 6)
        server.kill()
        assert eventually(lambda: not server.family()), server.family()
        env.close()
        server.start()


def test_after_a_worker_has_served(tmp_path: Path) -> None:
    options = ("--workers", "1", "--sessions-per-worker", "1")
    with serving(_TARGET, *options, log=tmp_path / "log") as server:
        env = RemoteEnv(base_url=server.url)
        assert eventually(lambda: len(server.family()) == 6)
        env.close()
        assert eventually(lambda: len(server.family()) == 2), server.family()


def test_after_a_server_was_stopped(tmp_path: Path) -> None:
    with serving(_TARGET, "--workers", "1", log=tmp_path / "log") as server:
        connection = Opener(take_settings({"base_url": server.url}), None).open(patient=False)
        assert eventually(lambda: len(server.family()) == 6)
        assert server.stop() == 0
        assert eventually(lambda: not server.family()), server.family()
        connection.drop()


class StrayEnv(CounterEnv):
    """Forks in every step, and forgets to end the child."""

    def step(self, action: Any) -> Step:
        """Fork, return from both, or raise in the child when the action says so."""
        if os.fork() == 0 and action:
            raise RuntimeError("the child")
        return super().step(action)


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_child_of_a_fork_serves_nobody(lanes: int, tmp_path: Path) -> None:
    target = "tests.faults.test_offspring:StrayEnv"
    options = ("--workers", "1", "--lane-threads", "2") if lanes == 2 else ("--workers", "1")
    with serving(target, *options, log=tmp_path / "log") as server:
        envs: Any = (
            gym.make_vec("openenv/Remote-v0", num_envs=lanes, base_url=server.url)
            if lanes == 2
            else RemoteEnv(base_url=server.url)
        )
        envs.reset()
        assert eventually(lambda: len(server.family()) == 3), server.family()
        for count in range(1, 6):
            observation = envs.step(np.full(2, count % 2) if lanes == 2 else count % 2)[0]
            assert np.all(observation == count)
        assert eventually(lambda: len(server.family()) == 3), server.family()
        # It comes through the server process, which may be later than the child's end.
        assert eventually(lambda: "the child came back" in server.log())
        envs.close()
