"""Echo as an application and as a program, also from its own wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import openenv_gym.serve
from openenv_gym.envs import echo_env
from openenv_gym.envs.echo_env.server.app import app, main
from tests.tree import files

FOLDER = Path(echo_env.__file__).parent


def test_the_application_serves_echo() -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/metadata").json()["version"] == "0.1.0"
        assert client.post("/reset").json()["observation"]["echoed_message"] == "Echo environment ready!"
        reply = client.post("/step", json={"action": {"message": "Hello, World!"}}).json()
        assert reply["observation"] == {
            "metadata": {"message_length": 13},
            "echoed_message": "Hello, World!",
            "message_length": 13,
        }
        assert reply["reward"] == pytest.approx(1.3)


def test_the_program_serves_the_class_of_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []

    def serve(arguments: list[str]) -> int:
        given.append(arguments)
        return 3

    monkeypatch.setattr(openenv_gym.serve, "main", serve)
    assert main(["--port", "0"]) == 3
    monkeypatch.setattr(sys, "argv", ["server", "--help"])
    assert main() == 3
    target = "openenv_gym.envs.echo_env:EchoEnvironment"
    assert given == [[target, "--port", "0"], [target, "--help"]]


def test_the_wheel_is_a_package_of_its_own(tmp_path: Path) -> None:
    # A copy, so that nothing is built in the checkout.
    source = tmp_path / "source"
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(tmp_path),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "server = echo_env.server.app:main" in archive.read(points).decode()
    modules = {f"echo_env/{path.relative_to(FOLDER).as_posix()}" for path in files(FOLDER, "*.py")}
    assert names == modules | {"echo_env/README.md", "echo_env/openenv.yaml"}


def test_it_asks_for_this_package_alone() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == ["openenv-gym>=0.1.0"]
    assert project["scripts"] == {"server": "echo_env.server.app:main"}
    assert set(project["optional-dependencies"]) == {"dev"}
