"""Signals, announcement and logging around a server; the server in a thread. Pools here are fakes."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from openenv_gym.errors import ConfigError, StartupError
from openenv_gym.servers import pool as pool_module
from openenv_gym.servers import run as run_module
from openenv_gym.servers.run import ServerThread, check_descriptors, run, serve_in_thread
from openenv_gym.servers.settings import ServerSettings

from .fakes import FakePool


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[FakePool]:
    """Fake pools take the place of real ones; those that were made."""
    made: list[FakePool] = []

    def make(settings: ServerSettings, target: Any) -> FakePool:
        made.append(FakePool())
        return made[-1]

    monkeypatch.setattr(pool_module, "Pool", make)
    return made


@pytest.fixture
def quiet() -> Iterator[None]:
    """Loggers, signal handlers and the file limit as they were, afterwards."""
    loggers = [logging.getLogger(name) for name in ("openenv_gym", "uvicorn")]
    before = [(logger, list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    for logger, handlers, propagate, level in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def _when_ready(fd: int, act: Any) -> threading.Thread:
    """Call ``act`` with what is announced on ``fd``, in a thread."""

    def wait() -> None:
        with os.fdopen(fd) as file:
            act(json.loads(file.readline()))

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_exit_code_is_0(
    number: int, pools: list[FakePool], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    told, tell = os.pipe()
    path = tmp_path / "s.sock"
    seen: list[Any] = []

    def act(announced: Any) -> None:
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60.0) as client:
            seen.extend([announced, client.get("/ready").json()])
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    thread = _when_ready(told, act)
    assert run(ServerSettings(uds=str(path), handover=False, ready_fd=tell), "CartPole-v1") == 0
    thread.join()
    assert seen == [{"base_url": f"unix:{path}", "pid": os.getpid()}, {"status": "ready"}]
    assert pools[0].calls == ["start", "open", ("drain", 8.0)]
    assert signal.getsignal(number) is before
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"INFO serving CartPole-v1 (Gymnasium id) on unix:{path}" in err


@pytest.mark.usefixtures("quiet")
def test_a_signal_during_the_imports_is_obeyed(
    pools: list[FakePool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakePool, "start", lambda self: signal.raise_signal(signal.SIGTERM))
    assert run(ServerSettings(uds=str(tmp_path / "s.sock"), handover=False), "CartPole-v1") == 0
    assert ("drain", 8.0) in pools[0].calls
    assert not (tmp_path / "s.sock").exists()


@pytest.mark.usefixtures("quiet", "pools")
def test_what_is_ignored_on_purpose_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        def start(pool: FakePool) -> None:
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGTERM)

        monkeypatch.setattr(FakePool, "start", start)
        assert run(ServerSettings(uds=str(tmp_path / "s.sock"), handover=False), "CartPole-v1") == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("quiet", "pools")
def test_errors_come_before_anything_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with pytest.raises(ConfigError, match="names no environment"):
        run(ServerSettings(uds=str(path)), "no-such-thing")
    with pytest.raises(ConfigError, match="--owner-fd"):
        run(ServerSettings(uds=str(path), owner_fd=987654), "CartPole-v1")
    with pytest.raises(ConfigError, match="--token"):
        run(ServerSettings(host="0.0.0.0"), "CartPole-v1")
    assert not path.exists()


@pytest.mark.usefixtures("quiet", "pools")
def test_an_open_door_is_said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(FakePool, "start", lambda self: signal.raise_signal(signal.SIGTERM))
    settings = ServerSettings(host="0.0.0.0", port=0, insecure=True, handover=False)
    assert run(settings, "CartPole-v1") == 0
    assert "WARNING --insecure: anyone who reaches 0.0.0.0 may use this server" in capfd.readouterr().err


@pytest.mark.usefixtures("quiet", "pools")
def test_the_limit_of_files_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 20) if hard != resource.RLIM_INFINITY else 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, wanted), hard))
    monkeypatch.setattr(FakePool, "start", lambda self: signal.raise_signal(signal.SIGTERM))
    run(ServerSettings(uds=str(tmp_path / "s.sock"), handover=False), "CartPole-v1")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == wanted


@pytest.mark.usefixtures("quiet", "pools")
def test_nobody_who_waits_is_no_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told, tell = os.pipe()
    os.close(told)
    settings = ServerSettings(
        uds=str(tmp_path / "s.sock"), handover=False, ready_fd=tell, exit_when_idle=0.01, log_level="warning"
    )
    assert run(settings, "CartPole-v1") == 0
    assert "nobody was told that the server is ready" in capfd.readouterr().err


def test_process_1_runs_under_an_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(run_module, "run_under_init", lambda work: 42)
    assert run(ServerSettings(), "echo") == 42


def test_descriptors_that_are_not_open_are_named() -> None:
    check_descriptors(ServerSettings())
    with pytest.raises(ConfigError, match="--ready-fd 987654: Bad file descriptor"):
        check_descriptors(ServerSettings(ready_fd=987654))
    with pytest.raises(ConfigError, match="--owner-fd"):
        check_descriptors(ServerSettings(owner_fd=987654))


# -- in a thread


@pytest.mark.usefixtures("no_leaks")
def test_a_thread_serves(pools: list[FakePool], tmp_path: Path) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    settings = ServerSettings(port=0, handover=False, drain_timeout=2.0)
    with ServerThread(settings, "CartPole-v1") as server:
        address = server.base_url.replace("ws://", "http://")
        assert httpx.get(f"{address}/ready", trust_env=False, timeout=60.0).json() == {"status": "ready"}
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert server.alive
    assert not server.alive
    assert pools[0].calls == ["start", "open", ("drain", 2.0)]
    server.stop()


@pytest.mark.usefixtures("no_leaks", "pools")
def test_several_threads_serve_at_once() -> None:
    settings = ServerSettings(port=0, handover=False)
    servers = [serve_in_thread(settings, "CartPole-v1") for _ in range(2)]
    assert len({server.base_url for server in servers}) == 2
    for server in servers:
        server.stop()


@pytest.mark.usefixtures("no_leaks", "pools")
def test_a_thread_that_cannot_start_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def fail(self: FakePool) -> None:
        raise StartupError("no module")

    monkeypatch.setattr(FakePool, "open", fail)
    path = tmp_path / "s.sock"
    with pytest.raises(StartupError, match="no module"):
        serve_in_thread(ServerSettings(uds=str(path), handover=False), "CartPole-v1")
    assert not path.exists()
    with pytest.raises(ConfigError, match="--token"):
        serve_in_thread(ServerSettings(host="0.0.0.0", port=0), "CartPole-v1")
    with pytest.raises(ConfigError, match="names no environment"):
        serve_in_thread(ServerSettings(), "no-such-thing")


@pytest.mark.usefixtures("no_leaks", "pools")
def test_a_thread_that_fails_later_says_so_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: FakePool, timeout: float) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(FakePool, "drain", fail)
    server = serve_in_thread(ServerSettings(port=0, handover=False), "CartPole-v1")
    with pytest.raises(RuntimeError, match="lost"):
        server.stop()
    server.stop()


def test_a_thread_that_was_never_started_can_be_stopped() -> None:
    server = ServerThread(ServerSettings(), "CartPole-v1")
    assert not server.alive
    server.stop()


def test_what_obeys_signals_is_light() -> None:
    """Nothing heavy stands between the start of the process and its signal handlers."""
    code = """
import sys
before = set(sys.modules)
import openenv_gym.servers.run
loaded = set(sys.modules) - before
print([name for name in ("uvicorn", "starlette", "asyncio", "websockets") if name in loaded])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
