"""What setup.cfg lists is what is there, and the wheel holds nothing but ``openenv_gym/``."""

from __future__ import annotations

import configparser
import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import openenv_gym
from tests.tree import PACKAGE_DIRS, ROOT, files

MAX_CLIENT_DISTRIBUTIONS = 15


def _layout() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _folders() -> dict[str, Path]:
    """Return every package by its installed name, as the folders have it."""
    found = {}
    for folder, package in PACKAGE_DIRS.items():
        for init in files(ROOT / folder, "__init__.py"):
            found[".".join((package, *init.parent.relative_to(ROOT / folder).parts))] = init.parent
    return found


def _copy_sources(target: Path) -> None:
    for folder in PACKAGE_DIRS:
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    # A copy, so that a build folder left in the checkout cannot put stale modules into the wheel.
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    _copy_sources(source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_setup_cfg_lists_every_package() -> None:
    listed = _layout()["options"]["packages"].split()
    assert listed == sorted(_folders())


def test_setup_cfg_maps_the_top_level_folders() -> None:
    lines = _layout()["options"]["package_dir"].split("\n")
    mapped = dict(line.replace(" ", "").split("=") for line in lines if line)
    assert mapped == {package: folder for folder, package in PACKAGE_DIRS.items()}


def test_layout_is_said_in_setup_cfg_alone() -> None:
    assert "setuptools" not in _project()["tool"]
    assert _layout()["options"].getboolean("include_package_data") is False
    assert set(_layout().sections()) <= {"options", "options.package_data"}


def test_version_is_said_once_and_the_same() -> None:
    assert openenv_gym.__version__ == _project()["project"]["version"]


def test_wheel_holds_the_whole_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = [name for name in wheel.namelist() if not name.startswith("openenv_gym-")]
    expected = set()
    for package, folder in _folders().items():
        inside = package.replace(".", "/")
        expected |= {f"{inside}/{path.name}" for path in folder.glob("*.py")}
        expected |= {
            f"{inside}/{path.relative_to(folder).as_posix()}"
            for pattern in _package_data().get(package, [])
            for path in folder.glob(pattern)
        }
    assert set(names) == expected
    assert "openenv_gym/py.typed" in names


def test_package_data_lists_every_other_file() -> None:
    listed = {path for package, folder in _folders().items() for path in _data_files(package, folder)}
    others = {
        path
        for folder in PACKAGE_DIRS
        for path in files(ROOT / folder, "*")
        if path.suffix not in (".py", ".pyc", ".md") and path.name != "Dockerfile"
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    }
    assert others <= listed


def test_wheel_declares_its_entry_point(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    config = configparser.ConfigParser()
    config.read_string(wheel.read(name).decode())
    assert dict(config["gymnasium.envs"]) == {"openenv": "openenv_gym.registration:register_all"}


def test_client_install_brings_few_distributions() -> None:
    assert len(_closure(_project()["project"]["dependencies"])) <= MAX_CLIENT_DISTRIBUTIONS


def _package_data() -> dict[str, list[str]]:
    return {package: value.split() for package, value in _layout()["options.package_data"].items()}


def _data_files(package: str, folder: Path) -> list[Path]:
    return [path for pattern in _package_data().get(package, []) for path in folder.glob(pattern)]


def _closure(requirements: list[str]) -> set[str]:
    """Return all that is installed because of ``requirements``, extras left out."""
    found: set[str] = set()
    queue = list(requirements)
    while queue:
        requirement = Requirement(queue.pop())
        name = canonicalize_name(requirement.name)
        needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if needed and name not in found:
            found.add(name)
            queue += importlib.metadata.requires(name) or []
    return found
