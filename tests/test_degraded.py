"""The core on a system that has none of what makes it quick on Linux: everything works, over loopback TCP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.serverproc import ROOT, eventually

_MARK = "DEGRADED_TEST_MARK"

#: Run by every interpreter before anything else: takes away what other systems do not have.
_SITE = """
import os, sys, _socket

for name in ("fork", "forkpty", "sched_yield", "memfd_create", "pidfd_open", "posix_spawn", "waitid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("AF_UNIX", "socketpair", "SCM_RIGHTS", "CMSG_LEN", "CMSG_SPACE", "MSG_DONTWAIT"):
    delattr(_socket, name)
sys.modules["uvloop"] = None

import socket

@property
def _missing(self):
    raise AttributeError("this system has no such call")

for name in ("sendmsg", "recvmsg", "recvmsg_into", "sendmsg_afalg"):
    setattr(socket.socket, name, _missing)
"""

#: What is missing where the environment runs.
_ENV = """
import os, socket
import gymnasium as gym

class MissingEnv(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        names = ("fork", "memfd_create", "pidfd_open", "sched_yield")
        left = [name for name in names if hasattr(os, name)]
        left += [name for name in ("AF_UNIX", "MSG_DONTWAIT") if hasattr(socket, name)]
        with socket.socket() as sock:
            left += [name for name in ("sendmsg", "recvmsg") if hasattr(sock, name)]
        return 0, {"left": left, "pid": os.getpid()}
"""

_SCRIPT = """
import json, os, sys
import gymnasium as gym
import numpy as np
import openenv_gym
from openenv_gym.providers import base

provider, kwargs = sys.argv[1], json.loads(sys.argv[2])
options = {"provider": provider, "provider_kwargs": kwargs}
report = {}

env = gym.make("openenv/Gym-v0", env_id="missing_env:MissingEnv", disable_env_checker=True, **options)
_, info = env.reset()
report["left"], report["apart"] = info["left"], info["pid"] != os.getpid()
env.close()

local, remote = gym.make("CartPole-v1"), gym.make("remote/CartPole-v1", **options)
for seed in range(3):
    (mine, _), (theirs, _) = local.reset(seed=seed), remote.reset(seed=seed)
    assert mine.tobytes() == theirs.tobytes()
    ended = False
    while not ended:
        mine, theirs = local.step(1), remote.step(1)
        assert mine[0].tobytes() == theirs[0].tobytes() and mine[1:] == theirs[1:]
        ended = mine[2] or mine[3]
remote.close()

echo = gym.make("openenv/Echo-v0", **options)
echo.reset()
assert echo.step("hello")[:2] == ("hello", 0.5)
big = "x" * echo.action_space.max_length
assert echo.step(big)[0] == big
try:
    echo.unwrapped.no_such_attribute
except AttributeError:
    report["attributes"] = True
echo.close()

servers = list(base._shared.values())
report["urls"] = [server._base_url for server in servers]
report["tokens"] = [server.token is not None for server in servers]
print(json.dumps(report))
"""


def _processes(mark: str) -> list[int]:
    """Return the processes that were started with this mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _prepared(folder: Path) -> tuple[dict[str, str], str]:
    """Return the environment variables of a system without, and the mark of all that is started there."""
    (folder / "sitecustomize.py").write_text(_SITE)
    (folder / "missing_env.py").write_text(_ENV)
    mark = uuid.uuid4().hex
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), _MARK: mark}, mark


def _run(folder: Path, script: str, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run ``script`` on a system without; return its report, and the mark of all that it started."""
    environ, mark = _prepared(folder)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    # In development mode asyncio tells of steps that a busy machine made slow.
    assert [line for line in done.stderr.splitlines() if not line.startswith("Executing <")] == []
    report = json.loads(done.stdout)
    assert isinstance(report, dict)
    return report, mark


@pytest.mark.parametrize(
    ("provider", "handover"),
    [
        ("process", False),
        ("inprocess", True),
        pytest.param("process", True, marks=pytest.mark.full),
        pytest.param("inprocess", False, marks=pytest.mark.full),
    ],
)
def test_environments_run_in_threads_of_a_server_on_loopback_with_a_token(
    provider: str, handover: bool, tmp_path: Path
) -> None:
    report, mark = _run(tmp_path, _SCRIPT, provider, json.dumps({"handover": handover}))
    assert report["left"] == []
    assert report["apart"] is (provider == "process")
    assert report["attributes"]
    assert len(report["urls"]) == 3
    assert all(url.startswith("ws://127.0.0.1:") for url in report["urls"])
    assert all(report["tokens"])
    assert eventually(lambda: _processes(mark) == [])


_REFUSED = """
import json
import gymnasium as gym
import openenv_gym
from openenv_gym.errors import ConfigError
from openenv_gym.servers.listening import Listening
from openenv_gym.servers.settings import ServerSettings

report = {}
for name, ask in {
    "workers": lambda: ServerSettings(workers=2).worker_count,
    "uds": lambda: Listening(ServerSettings(uds="s.sock")),
    "unix": lambda: gym.make("openenv/Remote-v0", base_url="unix:s.sock"),
}.items():
    try:
        ask()
    except ConfigError as exc:
        report[name] = str(exc)
report["default"] = ServerSettings().worker_count
print(json.dumps(report))
"""


def test_what_cannot_be_had_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    report, _ = _run(tmp_path, _REFUSED)
    assert "here, use 0" in report["workers"]
    assert "--port" in report["uds"]
    assert "--port" in report["unix"]
    assert report["default"] == 0


_SLOW = """
import json
import gymnasium as gym
import openenv_gym
from openenv_gym.errors import StartupTimeoutError

try:
    gym.make("openenv/Gym-v0", env_id="slow_module:Env", startup_timeout=1.0)
except StartupTimeoutError as exc:
    print(json.dumps({"said": str(exc)}))
"""


def test_a_server_that_does_not_start_in_time_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time; time.sleep(60)\n")
    report, mark = _run(tmp_path, _SLOW)
    assert "startup_timeout=1 s" in report["said"]
    assert eventually(lambda: _processes(mark) == [])


_KILLED = """
import os, signal
import gymnasium as gym
import openenv_gym

env = gym.make("openenv/Echo-v0")
env.reset()
print("ready", flush=True)
signal.pause()
"""


def test_a_server_ends_with_its_owner_however_that_ends(tmp_path: Path) -> None:
    environ, mark = _prepared(tmp_path)
    owner = subprocess.Popen(
        [sys.executable, "-c", _KILLED], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    assert len(_processes(mark)) == 2
    owner.kill()
    owner.communicate()
    assert eventually(lambda: _processes(mark) == [])
