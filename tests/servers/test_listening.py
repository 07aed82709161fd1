"""Sockets are bound by us: private Unix sockets, a known port, stale files."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from openenv_gym.errors import ConfigError, StartupError
from openenv_gym.servers.listening import Listening
from openenv_gym.servers.settings import ServerSettings


def _unix(path: Path | str) -> Listening:
    return Listening(ServerSettings(uds=str(path)))


def test_a_unix_socket_is_private_and_its_file_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    before = os.umask(0)
    try:
        listening = _unix(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert listening.base_url == f"unix:{path}"
    listening.close()
    listening.close()
    assert not path.exists()


def test_a_relative_path_is_announced_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listening = _unix("s.sock")
    monkeypatch.chdir("/")
    assert listening.base_url == f"unix:{tmp_path}/s.sock"
    listening.close()
    assert not (tmp_path / "s.sock").exists()


def test_the_socket_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listening = _unix(path)
    with socket.socket(socket.AF_UNIX) as client:
        listening.sockets[0].listen()
        client.connect(str(path))
    listening.close()


def test_the_socket_of_a_living_server_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        with pytest.raises(StartupError, match="another server listens"):
            _unix(path)
        assert path.exists()


def test_a_file_that_was_replaced_meanwhile_is_left(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    listening = _unix(path)
    path.unlink()
    path.write_text("somebody else's")
    listening.close()
    assert path.read_text() == "somebody else's"


def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="is no socket"):
        _unix(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["missing/s.sock", "x" * 120])
def test_a_path_that_cannot_be_is_a_config_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--uds"):
        _unix(tmp_path / name)


def test_the_system_picks_a_port() -> None:
    listening = Listening(ServerSettings(port=0))
    port = listening.sockets[0].getsockname()[1]
    assert port > 0
    assert listening.base_url == f"ws://127.0.0.1:{port}"
    listening.close()


def test_localhost_has_one_port_on_all_its_addresses() -> None:
    listening = Listening(ServerSettings(host="localhost", port=0))
    assert len({sock.getsockname()[1] for sock in listening.sockets}) == 1
    assert listening.base_url.startswith("ws://localhost:")
    listening.close()


def test_all_addresses_are_announced_as_one_that_can_be_reached() -> None:
    listening = Listening(ServerSettings(host="0.0.0.0", port=0, insecure=True))
    assert listening.base_url.startswith("ws://127.0.0.1:")
    listening.close()


def test_a_taken_port_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartupError, match=r"in use.*--port"):
            Listening(ServerSettings(port=taken.getsockname()[1]))


def test_a_foreign_address_is_an_error() -> None:
    with pytest.raises(StartupError, match=r"cannot listen on 192\.0\.2\.1"):
        Listening(ServerSettings(host="192.0.2.1", port=0))
    with pytest.raises(ConfigError, match="is no address"):
        Listening(ServerSettings(host="no.such.host.invalid", port=0))
