"""The template imports once, forks or spawns workers, and reports how each of them ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Discrete

from openenv_gym.errors import ServerConnectionError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers import control as c
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.servers.template import Template, command
from tests.support.serverproc import eventually

from .ends import TemplateEnds, WorkerEnds, ask, ended, template, told

pytestmark = pytest.mark.usefixtures("no_leaks")
_CRASH = "tests.support.testenvs:Crash-v0"


@pytest.fixture(scope="module")
def warm() -> Iterator[TemplateEnds]:
    """A template that is shared by the tests that leave it as it was."""
    with template(_CRASH) as ends:
        assert ends.wait_for(c.Warm).error is None
        yield ends


def _status(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{name}:"))


def _exit(ends: TemplateEnds) -> int:
    return os.waitstatus_to_exitcode(ends.wait_for(c.Exited).status)


def test_the_command_line_runs_a_module_of_this_package_with_this_interpreter() -> None:
    line = command("template", parent=1, control=2)
    assert line[0] == sys.executable
    assert "openenv_gym.servers.template" in line[-1]
    assert "token" not in line[-1]


def test_a_worker_is_a_child_of_the_template_in_a_group_of_its_own(warm: TemplateEnds) -> None:
    _, pid = warm.fork()
    assert _status(pid, "PPid") == str(warm.process.pid)
    assert eventually(lambda: os.getpgid(pid) == pid)
    os.kill(pid, signal.SIGKILL)
    assert _exit(warm) == -signal.SIGKILL


def test_a_worker_runs_sessions_and_leaves_when_it_is_told(warm: TemplateEnds) -> None:
    worker, pid = warm.fork()
    session, client = worker.open(3)
    assert told(client).session == session
    assert worker.wait_for(c.Opened).session == session
    assert isinstance(ask(client, m.Reset(1)), m.Observation)
    worker.link.post(c.Drain(20.0))
    assert told(client).code == "server_draining"
    assert _exit(warm) == 0
    assert ended(pid)
    client.abort()


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("exit", 7),
        ("segfault", -signal.SIGSEGV),
        ("abort", -signal.SIGABRT),
        ("kill", -signal.SIGKILL),
    ],
)
def test_the_end_of_a_worker_is_reported(warm: TemplateEnds, how: str, code: int) -> None:
    worker, pid = warm.fork()
    _, client = worker.open(env_kwargs={"how": how, "where": "reset", "at": 1})
    told(client)
    with pytest.raises(ServerConnectionError):
        ask(client, m.Reset(1))
    assert _exit(warm) == code
    assert ended(pid)
    client.abort()


def test_workers_do_not_share_their_random_streams() -> None:
    draws: list[tuple[float, float]] = []
    with template("tests.servers.drawing:DrawEnv") as ends:
        assert ends.wait_for(c.Warm).error is None
        for _ in range(2):
            worker, pid = ends.fork()
            _, client = worker.open()
            told(client)
            info = ask(client, m.Reset(1)).infos[0]
            assert info["pid"] == pid
            draws.append(info["draws"])
            client.abort()
    assert len(set(draws)) == len({first for first, _ in draws}) == len({second for _, second in draws}) == 2


def test_an_environment_that_is_not_there_is_reported_without_a_traceback() -> None:
    with template("tests.support.nowhere:Env") as ends:
        error = ends.wait_for(c.Warm).error
        assert error is not None and error.startswith("'tests.support.nowhere:Env' names no environment")
        assert ends.process.wait(20.0) == 0


def test_a_module_that_raises_is_reported_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_module.py").write_text("raise SystemExit('the licence has expired')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with template("raising_module:Env") as ends:
        error = ends.wait_for(c.Warm).error
        assert error is not None and "raising_module.py" in error and "the licence has expired" in error


def test_workers_are_gone_with_the_template() -> None:
    with template(_CRASH) as ends:
        assert ends.wait_for(c.Warm).error is None
        pids = [ends.fork()[1] for _ in range(2)]
        ends.process.kill()
        assert all(ended(pid) for pid in pids)


def test_without_a_parent_workers_close_their_environments_and_leave(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with template(_CRASH) as ends:
        assert ends.wait_for(c.Warm).error is None
        worker, pid = ends.fork()
        _, client = worker.open(env_kwargs={"path": str(notes)})
        told(client)
        worker.link.close()
        ends.link.close()
        assert told(client).code == "server_draining"
        assert ends.process.wait(20.0) == 0
        assert ended(pid)
        assert notes.read_text() == "ic"
        client.abort()


def test_what_an_environment_started_ends_with_its_worker(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with template("tests.support.testenvs:Child-v0") as ends:
        assert ends.wait_for(c.Warm).error is None
        worker, pid = ends.fork()
        _, client = worker.open(env_kwargs={"seconds": 0, "path": str(notes)})
        told(client)
        ask(client, m.Reset(1))
        action = column_codec(Discrete(1000), actions=True).encode_one(1, "action", str)
        child = ask(client, m.Step(2, action)).infos
        os.kill(pid, signal.SIGKILL)
        assert ended(child[0]["child"])
        client.abort()


def test_a_worker_can_be_started_afresh_and_its_setup_is_not_on_its_command_line() -> None:
    with template(
        "tests.servers.drawing:DrawEnv", start_method="spawn", env_kwargs={"secret": "hunter2"}
    ) as ends:
        assert ends.wait_for(c.Warm).error is None
        worker, pid = ends.fork()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert b"hunter2" not in file.read()
        _, client = worker.open()
        told(client)
        assert ask(client, m.Reset(1)).infos[0]["pid"] == pid
        assert os.getpgid(pid) == pid
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGKILL)
        assert _exit(ends) == -signal.SIGKILL
        client.abort()


class _NoProcess:
    """A template in a fork of the test, to which the system gives no process."""

    def __init__(self, **settings: Any) -> None:
        ours, theirs = socket.socketpair()
        self.link = c.ControlSocket(ours)
        self.settings = ServerSettings(**settings)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                os.fork = os.posix_spawn = self._refuse  # type: ignore[assignment]
                Template(c.ControlSocket(theirs), os.getppid(), self.settings, resolve(_CRASH)).run()
            finally:
                os._exit(0)
        theirs.close()

    @staticmethod
    def _refuse(*_: Any) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_for_which_there_is_no_process_is_reported_and_the_template_goes_on(method: str) -> None:
    scene = _NoProcess(start_method=method)
    for number in (1, 2):
        worker = WorkerEnds(scene.settings)
        scene.link.post(c.Fork(number), worker.fds)
        worker.fds = []
        assert select.select([scene.link], [], [], 20.0)[0]
        item = scene.link.receive()
        assert item is not None and item[0] == c.Exited(number, os.EX_OSERR << 8)
        assert "Resource temporarily unavailable; raise the limit" in worker.log()
        worker.close()
    scene.link.close()
    os.waitpid(scene.pid, 0)


def test_a_worker_whose_descriptors_did_not_arrive_is_reported_and_the_template_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    template = Template(c.ControlSocket(theirs), os.getpid(), ServerSettings(), resolve(_CRASH))
    template._fork(7, [c.LOST] * 4)
    assert c.ControlSocket(ours).receive() == (c.Exited(7, os.EX_OSERR << 8), [])
    ours.close()
    theirs.close()
    for sock in (template._wake, template._waker):
        sock.close()
    for fd in template._parent:
        os.close(fd)
