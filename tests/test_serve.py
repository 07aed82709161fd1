"""The serve command: help, wrong options, bad targets, and a real server from start to signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import pytest

from openenv_gym import serve
from openenv_gym.errors import OpenEnvError, StartupError
from openenv_gym.servers import run as run_module
from openenv_gym.servers.settings import ServerSettings, env_variable, flag


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been served."""
    calls: list[Any] = []

    def run(settings: ServerSettings, text: str) -> int:
        calls.append((settings, text))
        return 0

    monkeypatch.setattr(run_module, "run", run)
    return calls


def test_options_and_variables_become_settings(served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_MAX_SESSIONS", "7")
    monkeypatch.setenv("OPENENV_PORT", "1")
    words = ["echo", "--port", "0", "--workers", "0", "--env-kwargs", '{"max_length": 5}']
    assert serve.main(words) == 0
    expected = ServerSettings(port=0, workers=0, env_kwargs={"max_length": 5}, max_sessions=7)
    assert served == [(expected, "echo")]


def test_help_has_every_option_its_variable_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        serve.main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name in ServerSettings.__dataclass_fields__:
        assert flag(name) in text
        assert env_variable(name) in text
    assert "python -m openenv_gym.serve CartPole-v1 --uds cartpole.sock" in text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "required: TARGET"),
        (["echo", "--prot", "1"], "unrecognized arguments: --prot 1; did you mean --port? (--help"),
        (["echo", "--worker=2"], "unrecognized arguments: --worker=2; did you mean --workers? (--help"),
        (["echo", "more"], "unrecognized arguments: more (--help"),
        (["echo", "--port", "x"], "--port: 'x' is not a whole number (--help shows all options)"),
        (["echo", "--port"], "expected one argument"),
        (["echo", "--step-deadline", "0"], "OPENENV_STEP_DEADLINE"),
        (["echo", "--host", "0.0.0.0"], "--host 0.0.0.0 is reachable from other machines"),
        (["echo", "--uds", "s", "--port", "1"], "exclude each other"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    words: list[str], complaint: str, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        serve.main(words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1
    assert served == []


def test_a_server_that_cannot_start_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(settings: ServerSettings, text: str) -> int:
        raise StartupError("the port is taken")

    monkeypatch.setattr(run_module, "run", run)
    assert serve.main(["echo"]) == 1
    assert capsys.readouterr().err == "python -m openenv_gym.serve: error: the port is taken\n"


# -- real processes


def _start(*words: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openenv_gym.serve", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
    )


def _serving(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server; return it and its base URL once it is ready."""
    told, tell = os.pipe()
    process = _start(*words, "--ready-fd", str(tell), pass_fds=(tell,))
    os.close(tell)
    with os.fdopen(told) as file:
        line = file.readline()
    if not line:
        raise AssertionError(process.communicate()[1])
    return process, json.loads(line)["base_url"]


@pytest.mark.usefixtures("no_leaks")
def test_a_bad_target_is_exit_code_1_and_lists_what_was_tried() -> None:
    process = _start("CartPol-v1", "--port", "0")
    out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert "'CartPol-v1' names no environment to serve. Tried:" in err
    assert "did you mean 'CartPole-v1'" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_serves_until_a_signal(workers: str, number: int, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    process, url = _serving("echo", "--uds", str(path), "--workers", workers)
    assert url == f"unix:{path}"
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=30.0) as client:
        assert client.get("/health").json() == {"status": "healthy"}
        assert client.get("/ready").json() == {"status": "ready"}
        assert client.get("/metadata").json()["target"] == "echo"
        assert client.get("/schema").json()["spaces"]["action"]["type"] == "Unicode"
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert f"serving echo (bundled environment) on unix:{path}" in err
    assert not path.exists()


@pytest.mark.usefixtures("no_leaks")
def test_by_default_only_this_machine_is_listened_to() -> None:
    process, url = _serving("CartPole-v1", "--port", "0", "--workers", "0")
    assert url.startswith("ws://127.0.0.1:")
    listening = Path(f"/proc/{process.pid}/net/tcp").read_text()
    port = int(url.rpartition(":")[2])
    rows = [line.split()[1] for line in listening.splitlines() if f":{port:04X}" in line.split()[1]]
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert rows
    assert {row.partition(":")[0] for row in rows} == {"0100007F"}


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_an_environment_that_cannot_be_imported_shows_its_traceback(workers: str, tmp_path: Path) -> None:
    file = tmp_path / "broken_env.py"
    file.write_text("import no_such_library\n")
    process = _start(str(file), "--port", "0", "--workers", workers)
    _, err = process.communicate()
    assert process.returncode == 1
    assert "no_such_library" in err


SLOW = """
import pathlib, time
import gymnasium

class SlowEnv(gymnasium.Env):
    action_space = observation_space = gymnasium.spaces.Discrete(100)
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
    def reset(self, *, seed=None, options=None):
        return 0, {}
    def step(self, action):
        (self.folder / "stepping").touch()
        time.sleep(action / 10)
        return 1, 0.5, False, False, {}
    def close(self):
        (self.folder / "closed").touch()
"""


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(("action", "finishes"), [(4, True), (99, False)])
def test_a_step_that_runs_at_the_end_may_finish_in_time(
    workers: str, action: int, finishes: bool, tmp_path: Path
) -> None:
    (tmp_path / "slow_env.py").write_text(SLOW)
    words = (
        "--uds",
        str(tmp_path / "s.sock"),
        "--workers",
        workers,
        "--drain-timeout",
        "60" if finishes else "0.2",
    )
    process, url = _serving(str(tmp_path / "slow_env.py"), *words)
    env = gym.make("openenv/Remote-v0", base_url=url, connect_timeout=6.0, folder=str(tmp_path))
    env.reset()
    outcome: list[Any] = []

    def step() -> None:
        try:
            outcome.append(env.step(action))
        except OpenEnvError as exc:
            outcome.append(exc)

    thread = threading.Thread(target=step)
    thread.start()
    while not (tmp_path / "stepping").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    thread.join()
    assert process.returncode == 0
    if finishes:
        assert outcome == [(1, 0.5, False, False, {})]
        assert (tmp_path / "closed").exists()
    else:
        assert isinstance(outcome[0], OpenEnvError)
    env.close()
