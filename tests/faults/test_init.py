"""A server that is the first process of a container: the same faults, and it reaps what others left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.serverproc import ServerProcess, eventually, serving

from .points import POINTS
from .table import Aftermath, Table
from .test_kills import _kill, _kill_template, _round, _Stand
from .test_network import run_into
from .witness import TARGET, EnvClient, Ledger

_POINTS = [point for point in POINTS if point.name in ("request executing", "reply lost", "repeat executing")]


@cache
def _unshare() -> tuple[str, ...]:
    """Return the command that makes a program process 1, or nothing where that is not permitted."""
    for more in ((), ("--user", "--map-root-user")):
        command = ("unshare", *more, "--fork", "--pid", "--mount-proc")
        try:
            subprocess.run([*command, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return ()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    command = _unshare()
    if not command:
        pytest.skip("unshare --pid is not permitted here")
    options = ("--resume-grace", "5", "--workers", "2")
    with serving(TARGET, *options, under=command, log=tmp_path / "log") as server:
        yield server


def _zombies(server: ServerProcess) -> list[int]:
    return [pid for pid, state in server.family().items() if state == "Z"]


@pytest.mark.parametrize("faults", [4, pytest.param(100, marks=pytest.mark.full, id="all")])
def test_faults_of_the_network(
    server: ServerProcess, faults: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert os.readlink(f"/proc/{server.pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    table = run_into(server, tmp_path, "as process 1", faults)
    with capsys.disabled():
        print(f"\n{table}")


def _kill_workers(server: ServerProcess, stands: list[_Stand]) -> None:
    for pid in server.workers():
        _kill(pid)


@pytest.mark.parametrize("kill", [_kill_workers, _kill_template])
def test_killed_processes_are_reaped(server: ServerProcess, kill: object, tmp_path: Path) -> None:
    table = Table("as process 1", [point.name for point in _POINTS])
    aftermath = Aftermath(server, tmp_path)
    ledgers = [
        ledger
        for number in range(3)
        for ledger in _round(server, tmp_path, table, kill, _POINTS, number, 4)  # type: ignore[arg-type]
    ]
    assert eventually(lambda: not _zombies(server))
    aftermath.check(ledgers, killed=True)
    assert {code for ledger in ledgers for _, error in ledger.errors for code in [str(error.code)]} == {
        "worker_crashed"
    }


def test_when_the_server_itself_is_killed_nothing_is_left(server: ServerProcess, tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "count"))
    client = EnvClient(ledger, server.url)
    client.open()
    client.request("r")
    (child,) = (pid for pid in server.family() if pid != server.pid and _is_child(pid, server.pid))
    os.kill(child, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert eventually(lambda: not server.family())
    client.close()
    server.start()


def _is_child(pid: int, parent: int) -> bool:
    try:
        return f"\nPPid:\t{parent}\n" in Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it ended meanwhile
        return False
