"""Client and server are imported when they are named, and the folder is a package under any name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv_gym.envs import echo_env
from tests.tree import ROOT


def _printed(code: str, path: Path = ROOT) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=path, env={"PYTHONPATH": f"{path}:{ROOT}"}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which the package is called ``echo_env``."""
    (tmp_path / "echo_env").symlink_to(Path(echo_env.__file__).parent, target_is_directory=True)
    yield tmp_path


def test_every_name_is_there() -> None:
    for name in echo_env.__all__:
        assert getattr(echo_env, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'EchoEnvv'"):
        _ = echo_env.EchoEnvv


def test_a_client_imports_no_gymnasium_and_a_server_no_client() -> None:
    code = "import sys; from openenv_gym.envs.echo_env import {}; print('{}' in sys.modules)"
    assert _printed(code.format("EchoEnv", "gymnasium")) == "False"
    assert _printed(code.format("EchoEnvironment", "openenv_gym.client.typed")) == "False"


def test_the_same_folder_is_a_package_of_its_own(alone: Path) -> None:
    code = (
        "from echo_env import CallToolAction, EchoAction, EchoEnv, EchoEnvironment\n"
        "from openenv_gym.playing import Player\n"
        "player = Player(EchoEnvironment()); player.reset()\n"
        "print(EchoEnv.__module__, player.step(EchoAction('hi')).echoed_message)"
    )
    assert _printed(code, alone) == "echo_env.client hi"
