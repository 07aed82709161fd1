from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import ConfigError, StartupError, StartupTimeoutError
from openenv_gym.protocol.messages import Reset
from openenv_gym.providers import process
from openenv_gym.providers.process import ProcessProvider

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., ProcessProvider]]:
    """Return a maker of providers whose folders lie in a short folder of the test's own."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        made: list[ProcessProvider] = []

        def maker(target: str, **options: Any) -> ProcessProvider:
            made.append(ProcessProvider(target, **{"workers": 0, **options}))
            return made[-1]

        yield maker
        for provider in made:
            provider.stop()
        assert os.listdir(folder) == []


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_child_serves_on_a_private_socket_until_it_is_stopped(
    make: Callable[..., ProcessProvider], no_leaks: None
) -> None:
    provider = make("echo")
    base_url, fresh = provider.ensure(30)
    assert fresh
    assert base_url.startswith("unix:")
    folder = Path(base_url.removeprefix("unix:")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert provider.alive()
    pid = provider._pid
    assert os.getsid(pid) == pid
    connection = Opener(ClientSettings(base_url=base_url), None).open(patient=False)
    connection.request(Reset)
    connection.close()
    assert "serving echo" in provider.logs()
    provider.stop()
    assert not provider.alive()
    assert not folder.exists()
    assert provider.ending() == "exit code 0"
    assert "serving echo" in provider.logs()
    provider.stop()


def test_a_target_that_is_none_is_shown_in_the_server_s_words(make: Callable[..., ProcessProvider]) -> None:
    provider = make("Nope-v0")
    with pytest.raises(StartupError, match=r"did not start \(exit code 1\)") as caught:
        provider.ensure(30)
    assert not isinstance(caught.value, StartupTimeoutError)
    assert "names no environment" in str(caught.value)
    assert "names no environment" in caught.value.details["log"]
    assert caught.value.details["exit_code"] == 1


def test_an_option_that_is_none_is_shown_too(make: Callable[..., ProcessProvider]) -> None:
    with pytest.raises(StartupError, match=r"exit code 2(.|\n)*unrecognized arguments: --wrokers=3"):
        make("echo", wrokers=3).ensure(30)


def test_a_server_that_takes_too_long_shows_its_last_lines(
    make: Callable[..., ProcessProvider], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    provider = make(str(tmp_path / "slow.py"))
    provider.launch()
    wait(lambda: "loading" in provider.logs())
    with pytest.raises(StartupTimeoutError, match=r"not ready within startup_timeout=0.5 s(.|\n)*loading"):
        provider.ensure(0.5)
    assert not provider.alive()


def test_a_child_that_was_killed_is_noticed_and_replaced(make: Callable[..., ProcessProvider]) -> None:
    provider = make("echo")
    first, _ = provider.ensure(30)
    os.kill(provider._pid, signal.SIGKILL)
    wait(lambda: not provider.alive())
    assert provider.ending() == "killed by SIGKILL"
    second, fresh = provider.ensure(30)
    assert fresh
    assert second != first
    assert not Path(first.removeprefix("unix:")).exists()


def test_an_idle_child_leaves(make: Callable[..., ProcessProvider]) -> None:
    provider = make("echo", exit_when_idle=0.05)
    provider.ensure(30)
    wait(lambda: not provider.alive())
    assert provider.ending() == "exit code 0"


def test_without_unix_sockets_it_is_loopback_with_a_token(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    provider = make("echo")
    base_url, _ = provider.ensure(30)
    assert base_url.startswith("ws://127.0.0.1:")
    assert provider.token
    command = Path(f"/proc/{provider._pid}/cmdline").read_bytes()
    assert provider.token.encode() not in command
    Opener(ClientSettings(base_url=base_url, token=provider.token), None).open(patient=False).close()
    assert provider.token not in provider.logs()


def test_a_folder_too_deep_for_a_socket_is_no_obstacle(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    provider = make("echo")
    assert provider.ensure(30)[0].startswith("ws://127.0.0.1:")
    provider.stop()
    assert os.listdir(deep) == []
    monkeypatch.undo()


def test_the_child_has_our_folder_and_search_path_but_not_our_settings(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "probe_target.py").write_text(
        "import json, os, sys\n"
        "from openenv_gym.envs.echo_env import EchoEnvironment\n"
        "names = sorted(name for name in os.environ if name.startswith('OPENENV_'))\n"
        "print(json.dumps([os.getcwd(), names]), flush=True)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("OPENENV_TOKEN", "OPENENV_BASE_URL", "OPENENV_PORT", "OPENENV_POLL"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv("OPENENV_CI", raising=False)
    provider = make("probe_target:EchoEnvironment")
    provider.ensure(30)
    line = next(line for line in provider.logs().splitlines() if line.startswith("["))
    assert json.loads(line) == [str(tmp_path), ["OPENENV_POLL", "OPENENV_WARNING_FILTERS"]]


def test_what_it_prints_is_logged(
    make: Callable[..., ProcessProvider], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "openenv_gym.server")
    provider = make("echo")
    provider.ensure(30)
    provider.forward()
    assert any("serving echo" in record.getMessage() for record in caplog.records)


def test_a_forked_child_uses_it_and_never_stops_it(make: Callable[..., ProcessProvider]) -> None:
    provider = make("echo")
    base_url, _ = provider.ensure(30)
    provider.owner += 1  # as a forked child sees it
    assert provider.alive()
    assert provider.ensure(30) == (base_url, False)
    provider.forward()
    pidfd, provider._pidfd = provider._pidfd, -1
    assert provider.alive()
    provider._pidfd = pidfd
    provider.owner -= 1
    assert provider.alive()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_goes_with_its_owner(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, time\n"
        "from openenv_gym.providers.process import ProcessProvider\n"
        "provider = ProcessProvider('echo', workers=1)\n"
        "print(provider.ensure(30)[0], provider._pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        environ = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT
        ) as owner:
            assert owner.stdout is not None
            base_url, pid = owner.stdout.readline().split()
            owner.send_signal(number)
        wait(lambda: not _runs(int(pid)))
        assert not Path(base_url.removeprefix("unix:")).exists()
        monkeypatch.setattr(tempfile, "tempdir", folder)
        ProcessProvider.sweep()
        assert len(os.listdir(folder)) == 1  # it is so young that somebody may just be starting there
        monkeypatch.setattr(process, "_NEWBORN", 0.0)
        ProcessProvider.sweep()
        assert os.listdir(folder) == []


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_sweep_leaves_what_is_in_use_and_what_is_not_ours(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_NEWBORN", 0.0)
    provider = make("echo")
    base_url, _ = provider.ensure(30)
    assert tempfile.tempdir is not None
    foreign = Path(tempfile.tempdir) / "openenv-gym-notes"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    link = Path(tempfile.tempdir) / "openenv-gym-link"
    link.symlink_to(foreign)
    ProcessProvider.sweep()
    assert Path(base_url.removeprefix("unix:")).exists()
    assert (foreign / "notes.txt").exists()
    assert link.is_symlink()
    link.unlink()
    (foreign / "notes.txt").unlink()
    foreign.rmdir()


def test_where_there_is_no_pidfd_a_pipe_is_held_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    read = process._owner_descriptor()
    write = process._held.pop()
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)


def test_options_become_a_command_line() -> None:
    options = {
        "idle_timeout": None,
        "attributes": False,
        "env_kwargs": {"a": 1},
        "allowed_origins": ["x", "y"],
    }
    assert process._arguments(options) == [
        "--idle-timeout=none",
        "--attributes=off",
        '--env-kwargs={"a": 1}',
        "--allowed-origins=x,y",
    ]


@pytest.mark.parametrize("option", ["uds", "host", "port", "token", "ready_fd", "owner_fd", "insecure"])
def test_what_it_sets_itself_cannot_be_set(option: str) -> None:
    with pytest.raises(ConfigError, match=f"'{option}' is set by the provider"):
        ProcessProvider("echo", **{option: 1})


def test_without_a_temporary_folder_it_says_so(
    make: Callable[..., ProcessProvider], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StartupError, match="set TMPDIR"):
        make("echo").start()


def test_a_search_path_that_is_too_long_is_named(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, "/x" * 200_000])
    with pytest.raises(StartupError, match=r"sys\.path"):
        make("echo").start()


def test_a_server_that_cannot_be_started_leaves_no_descriptor(
    make: Callable[..., ProcessProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, open_files = make("echo"), []
    monkeypatch.setattr(sys, "executable", None)
    for _ in range(2):  # the output of the first is kept for its last words
        with pytest.raises(StartupError, match=r"sys\.executable"):
            provider.ensure(None)
        open_files.append(len(os.listdir("/proc/self/fd")))
    assert open_files[0] >= open_files[1]  # what earlier tests left may be closed meanwhile


def test_a_program_without_standard_descriptors_has_servers_too(tmp_path: Path) -> None:
    found = tmp_path / "found"
    code = (
        "import os, gymnasium as gym, openenv_gym\n"
        "for fd in range(3): os.close(fd)\n"
        "env = gym.make('openenv/Echo-v0')\n"
        "text = env.reset()[0]\n"
        "env.close()\n"
        f"open({str(found)!r}, 'w').write(text)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    assert found.read_text() == "Echo environment ready!"
