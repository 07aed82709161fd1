"""A worker process runs sessions until its parent says so, or goes away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Discrete

from openenv_gym.errors import ServerConnectionError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers import control as c
from openenv_gym.servers.board import Operation
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.servers.worker import run_worker
from tests.support.serverproc import eventually

from .ends import WorkerEnds, ask, ended, told

pytestmark = pytest.mark.usefixtures("no_leaks")
_SLEEP = "tests.support.testenvs:Sleep-v0"
_HELD = "tests.servers.drawing:HeldEnv"


class _Running(WorkerEnds):
    """A worker in a fork of the test."""

    def __init__(self, target: str, **settings: Any) -> None:
        made = ServerSettings(**settings)
        super().__init__(made)
        resolved = resolve(target)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.link.close()
                run_worker(made, resolved, self.fds[0], self.fds[1])
            finally:
                os._exit(99)
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def exit_code(self) -> int:
        """Wait for the end."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def _running(target: str = _SLEEP, **settings: Any) -> Iterator[_Running]:
    worker = _Running(target, **settings)
    try:
        yield worker
    finally:
        worker.close()
        if not ended(worker.pid):
            os.kill(worker.pid, signal.SIGKILL)


def _step(number: int, action: int = 0) -> m.Step:
    codec = column_codec(Discrete(1000), actions=True)
    return m.Step(number, codec.encode_one(action, "action", str))


def test_sessions_report_what_becomes_of_them() -> None:
    with _running() as worker:
        session, client = worker.open(2)
        welcome = told(client)
        assert (welcome.session, welcome.target) == (session, "Sleep-v0")
        opened = worker.wait_for(c.Opened)
        assert (opened.session, opened.facts["target"]) == (session, "Sleep-v0")
        ask(client, m.Reset(1))
        assert ask(client, m.Close(2)) == m.Closed(2)
        assert worker.wait_for(c.Ended) == c.Ended(session, None)
        assert worker.board.cells[2] == Operation.VACANT
        worker.link.post(c.Drain(20.0))
        assert worker.exit_code() == 0
        client.abort()


def test_the_board_shows_the_parent_what_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with _stepping(_HELD, path=str(go)) as (worker, client):
        go.touch()
        assert isinstance(told(client), m.Transition)
        assert worker.board.cells[0] & 15 == Operation.IDLE
        worker.link.post(c.Drain(20.0))


def test_an_environment_is_described() -> None:
    with _running("tests.support.testenvs:FailingInit-v0") as worker:
        worker.link.post(c.Describe(4))
        described = worker.wait_for(c.Described)
        assert (described.place, described.facts) == (4, None)
        assert described.error == "RuntimeError: construction 0 fails on purpose"
        worker.link.post(c.Drain(20.0))
        assert worker.exit_code() == 0


@pytest.mark.parametrize(("said", "text"), [(True, "shutting down"), (False, "was killed")])
def test_it_ends_when_it_is_told_or_the_parent_is_gone(said: bool, text: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with _running(drain_timeout=20.0) as worker:
        _, idle = worker.open(0, env_kwargs={"path": str(notes)})
        told(idle)
        _, busy = worker.open(1, env_kwargs={"path": str(notes), "unit": 0.05})
        told(busy)
        ask(busy, m.Reset(1))
        if said:
            worker.link.post(c.Drain(20.0))
        else:
            worker.link.close()
        error = told(idle)
        assert (error.code, error.alive) == ("server_draining", False)
        assert text in error.message
        assert told(busy).code == "server_draining"
        assert worker.exit_code() == 0
        assert sorted(notes.read_text()) == ["c", "c", "i", "i", "r"]
        idle.abort(), busy.abort()


@contextmanager
def _stepping(target: str = _SLEEP, **env_kwargs: Any) -> Iterator[tuple[_Running, Any]]:
    """Give a worker and its client while a step runs; the worker then ends by itself."""
    with _running(target) as worker:
        _, client = worker.open(env_kwargs=env_kwargs)
        told(client)
        ask(client, m.Reset(1))
        client.send(encode(_step(2, 1)))
        _wait_for_step(worker)
        yield worker, client
        assert worker.exit_code() == 0
        client.abort()


def test_a_running_call_finishes_within_the_time_that_is_left(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with _stepping(_HELD, path=str(go)) as (worker, client):
        worker.link.post(c.Drain(20.0))
        go.touch()
        assert isinstance(told(client), m.Transition)
        assert told(client).code == "server_draining"


def test_a_call_that_takes_too_long_is_cut_and_its_client_told() -> None:
    with _stepping(unit=100.0) as (worker, client):
        worker.link.post(c.Drain(0.1))
        assert told(client).code == "server_draining"
        with pytest.raises(ServerConnectionError):
            told(client)


def test_a_second_word_to_stop_cuts_at_once() -> None:
    with _stepping(unit=100.0) as (worker, client):
        worker.link.post(c.Drain(100.0))
        worker.link.post(c.Drain(0.0))
        assert told(client).code == "server_draining"


def test_signals_to_stop_are_the_parents_business() -> None:
    with _running() as worker:
        _, client = worker.open()
        told(client)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
            assert isinstance(ask(client, m.Reset(1 if number == signal.SIGINT else 2)), m.Observation)
        worker.link.post(c.Drain(20.0))
        assert worker.exit_code() == 0
        client.abort()


def test_threads_of_an_environment_do_not_hold_the_process(tmp_path: Path) -> None:
    with _running("tests.servers.drawing:ThreadLeavingEnv") as worker:
        _, client = worker.open()
        told(client)
        worker.link.post(c.Drain(20.0))
        assert worker.exit_code() == 0
        client.abort()


def _wait_for_step(worker: WorkerEnds) -> None:
    assert eventually(lambda: worker.board.cells[0] & 15 == Operation.STEP)
