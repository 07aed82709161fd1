"""A worker that is started afresh does what a forked one does."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from gymnasium.spaces import Discrete

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.servers import control as c
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.template import command

from .ends import WorkerEnds, ask, told

pytestmark = pytest.mark.usefixtures("no_leaks")


def _start(worker: WorkerEnds, target: str, settings: ServerSettings, parent: int) -> subprocess.Popen[bytes]:
    with tempfile.TemporaryFile() as setup:
        setup.write(json.dumps({"target": target, "settings": settings.to_wire()}).encode())
        setup.flush()
        control, board, log, _ = worker.fds
        arguments = command(
            "spawned", parent=parent, control=control, board=board, log=log, setup=setup.fileno()
        )
        return subprocess.Popen(arguments, pass_fds=[*worker.fds, setup.fileno()], stderr=subprocess.PIPE)


def test_it_runs_sessions_in_a_group_of_its_own_and_prints_into_its_log() -> None:
    settings = ServerSettings(start_method="spawn", env_kwargs={"secret": "x"})
    worker = WorkerEnds(settings)
    process = _start(worker, "tests.servers.drawing:DrawEnv", settings, os.getpid())
    session, client = worker.open(1)
    assert told(client).session == session
    assert worker.wait_for(c.Opened).session == session
    assert ask(client, m.Reset(1)).infos[0]["pid"] == process.pid
    assert os.getpgid(process.pid) == process.pid
    action = column_codec(Discrete(2), actions=True).encode_one(1, "action", str)
    assert isinstance(ask(client, m.Step(2, action)), m.Transition)
    worker.link.post(c.Drain(20.0))
    assert told(client).code == "server_draining"
    assert process.communicate()[1] == b""
    assert process.returncode == 0
    assert worker.log() == "stepped\n"
    worker.close()
    client.abort()


def test_the_traceback_of_a_module_that_raises_is_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_too.py").write_text("raise ImportError('libGL.so.1: cannot open')\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = ServerSettings(start_method="spawn")
    worker = WorkerEnds(settings)
    process = _start(worker, "raising_too:Env", settings, os.getpid())
    process.communicate()
    assert process.returncode == 1
    assert "libGL.so.1: cannot open" in worker.log()
    worker.close()


def test_without_its_parent_it_does_not_begin() -> None:
    settings = ServerSettings(start_method="spawn")
    worker = WorkerEnds(settings)
    process = _start(worker, "tests.servers.drawing:DrawEnv", settings, parent=1)
    assert process.communicate()[1] == b""
    assert process.returncode == 0
    assert worker.log() == ""
    worker.close()
