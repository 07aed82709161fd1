"""Of eight servers one is killed in mid-step: its lanes are lost, and no other lane notices."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym.errors import ServerConnectionError, SessionLostError, VectorEnvError
from openenv_gym.wrappers.vector import RemoteVectorEnv
from tests.support.faultenvs import notes
from tests.support.serverproc import ServerProcess, eventually, serving

from .table import Aftermath
from .witness import HOLD

SERVERS, EACH = 8, 2
LANES = SERVERS * EACH
_TARGET = "tests.faults.witness:HeldEnv"
#: Each vector environment lives through so many kills, then comes one with the next autoreset mode.
_KILLS_EACH = 4
_KINDS = ("all", "server", "worker")


class _Rollout:
    """A vector environment on all servers, and what its lanes must say of themselves.

    Args:
        folder: Where the lanes note what is done to them.
        servers: The servers.
        on_error: What the vector environment does about lost lanes.
        mode: Its autoreset mode.
    """

    def __init__(
        self, folder: Path, servers: list[ServerProcess], on_error: str, mode: AutoresetMode
    ) -> None:
        folder.mkdir()
        self.paths = [str(folder / f"lane{lane}") for lane in range(LANES)]
        envs = gym.make_vec(
            "openenv/Remote-v0",
            num_envs=LANES,
            base_url=[server.url for server in servers],
            env_kwargs=[{"path": path} for path in self.paths],
            autoreset_mode=mode,
            on_error=on_error,
            connect_timeout=10.0,
            lane_threads=1,
        )
        assert isinstance(envs, RemoteVectorEnv)
        self.envs = envs
        self.truncates = on_error == "truncate"
        self.mode = mode
        #: Steps since the last reset, and since the lane was built.
        self.counts, self.totals = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
        #: Steps that were answered, and steps whose end nobody knows.
        self.known, self.doubtful = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
        envs.reset()

    def begin(self, held: int) -> None:
        """Begin a step in which one lane does not come to an end."""
        before = len(notes(self.paths[held]))
        actions = np.zeros(LANES, np.int64)
        actions[held] = HOLD
        self.envs.step_async(actions)
        assert eventually(lambda: len(notes(self.paths[held])) > before)

    def finish(self) -> np.ndarray[Any, Any]:
        """Wait for the step; return the lanes that it lost, a bool each."""
        try:
            result = self.envs.step_wait()
            lost = np.zeros(LANES, np.bool_)
        except VectorEnvError as exc:
            assert not self.truncates
            kinds = SessionLostError | ServerConnectionError
            assert all(isinstance(error, kinds) for error in exc.errors.values())
            result, lost = exc.partial, exc.mask
        observations, rewards, terminated, truncated, infos = result
        assert not terminated.any()
        if self.truncates:
            lost = truncated
            said = infos["final_info"] if self._at_once and lost.any() else infos
            assert not lost.any() or said["_openenv"].tolist() == lost.tolist()
        else:
            assert not truncated.any()
        self._stepped(~lost, observations, rewards, infos)
        self.doubtful[lost] += 1
        if self._at_once:
            self._renew(lost)
            assert (observations[lost] == 0).all()
        return lost

    def without(self, lost: np.ndarray[Any, Any]) -> None:
        """Step all other lanes."""
        lanes = np.flatnonzero(~lost)
        self.envs.send(np.zeros(len(lanes), np.int64), lanes)
        batch = self.envs.recv(lanes=lanes)
        self.counts[lanes] += 1
        self.totals[lanes] += 1
        self.known[lanes] += 1
        assert batch.observations.tolist() == self.counts[lanes].tolist()
        assert batch.infos["total"].tolist() == self.totals[lanes].tolist()

    def recover(self, lost: np.ndarray[Any, Any]) -> None:
        """Begin new episodes in the lanes that were lost, as the autoreset mode says."""
        if self._at_once:
            return
        if self.truncates and self.mode is AutoresetMode.NEXT_STEP:
            observations, rewards, terminated, truncated, infos = self.envs.step(np.zeros(LANES, np.int64))
            assert not terminated.any() and not truncated.any()
            self._stepped(~lost, observations, rewards, infos)
        else:
            observations, _ = self.envs.reset(options={"reset_mask": lost})
        self._renew(lost)
        assert observations.tolist() == self.counts.tolist()

    def step(self) -> None:
        """Step all lanes, of which none is lost."""
        self.envs.step_async(np.zeros(LANES, np.int64))
        assert not self.finish().any()

    def end(self) -> None:
        """Close it, and compare what was executed with what was answered."""
        self.envs.close()
        executed = np.array([notes(path).count("s") for path in self.paths])
        assert (executed >= self.known).all() and (executed <= self.known + self.doubtful).all()

    @property
    def _at_once(self) -> bool:
        return self.truncates and self.mode is AutoresetMode.SAME_STEP

    def _renew(self, lost: np.ndarray[Any, Any]) -> None:
        self.counts[lost] = self.totals[lost] = 0

    def _stepped(self, lanes: np.ndarray[Any, Any], observations: Any, rewards: Any, infos: Any) -> None:
        for account in (self.counts, self.totals, self.known):
            account[lanes] += 1
        assert observations[lanes].tolist() == self.counts[lanes].tolist()
        assert rewards.tolist() == np.where(lanes, self.counts, 0.0).tolist()
        assert infos["total"][lanes].tolist() == self.totals[lanes].tolist()


@contextmanager
def _eight(folder: Path) -> Iterator[list[ServerProcess]]:
    with ExitStack() as stack, ThreadPoolExecutor(SERVERS) as pool:
        scenes = [
            serving(_TARGET, "--workers", "1", "--resume-grace", "3", log=folder / f"log{number}")
            for number in range(SERVERS)
        ]
        yield list(pool.map(stack.enter_context, scenes))


def _kill(server: ServerProcess, kind: str) -> None:
    """Kill a server with all its processes, the server process alone, or its worker."""
    victims = {"all": [*server.family()], "server": [server.pid], "worker": server.workers()}[kind]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _survive(rollout: _Rollout, servers: list[ServerProcess], rng: random.Random, kind: str) -> None:
    """Kill in mid-step, go on without the lanes that are lost, and with them again."""
    number = rng.randrange(SERVERS)
    server = servers[number]
    held = number * EACH + rng.randrange(EACH)
    victims = np.arange(LANES) // EACH == number
    go = Path(f"{rollout.paths[held]}.go")
    # Lanes that go on at once need a server within the very step.
    early = (rollout.truncates and rollout.mode is AutoresetMode.SAME_STEP) or rng.random() < 0.7
    down = kind != "worker"

    rollout.begin(held)
    _kill(server, kind)
    go.touch()
    if down:
        server.kill()  # awaits its end
        assert eventually(lambda: not server.family()), "processes of the dead server live on"
        if early:
            server.start()
    lost = rollout.finish()
    if kind == "server" and not lost.any():  # the worker had its call finish before it ended
        rollout.envs.step_async(np.zeros(LANES, np.int64))
        lost = rollout.finish()
    assert lost.tolist() == victims.tolist()
    rollout.without(lost)
    rollout.without(lost)
    if down and not early:
        server.start()
    rollout.recover(lost)
    rollout.step()
    go.unlink()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(2, id="few"),
        pytest.param(10, id="sample", marks=pytest.mark.full),
        pytest.param(100, id="whole", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "truncate"])
def test_one_of_eight_servers_is_killed(on_error: str, kills: int, tmp_path: Path) -> None:
    modes = list(AutoresetMode)
    with _eight(tmp_path) as servers:
        aftermaths = [Aftermath(server, tmp_path) for server in servers]
        for first in range(0, kills, _KILLS_EACH):
            mode = modes[first // _KILLS_EACH % len(modes)]
            rollout = _Rollout(tmp_path / f"{first}", servers, on_error, mode)
            for number in range(first, min(first + _KILLS_EACH, kills)):
                rng = random.Random(f"{on_error}/{number}")
                _survive(rollout, servers, rng, _KINDS[number % len(_KINDS)])
            rollout.end()
        for aftermath in aftermaths:
            aftermath.check([], killed=True)
