"""The sweep removes what dead servers left, and nothing else."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from openenv_gym.providers import process
from openenv_gym.providers.process import ProcessProvider

HOUR_AGO = 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make(folder: Path, name: str, *files: str) -> Path:
    made = folder / name
    made.mkdir()
    for file in files:
        (made / file).touch()
    old = made.stat().st_mtime - HOUR_AGO
    os.utime(made, (old, old))
    return made


def test_removes_what_a_dead_server_left(folder: Path) -> None:
    left = make(folder, f"{process._PREFIX}dead", process._LOG_NAME, "s")
    ProcessProvider.sweep()
    assert not left.exists()


def test_leaves_a_running_server_alone(folder: Path) -> None:
    running = make(folder, f"{process._PREFIX}live", process._LOG_NAME, "s")
    with (running / process._LOG_NAME).open("w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        ProcessProvider.sweep()
        assert sorted(os.listdir(running)) == ["s", process._LOG_NAME]


def test_leaves_the_folders_of_others_alone(folder: Path) -> None:
    others = [
        make(folder, f"{process._PREFIX}notes", "thesis.tex"),
        make(folder, f"{process._PREFIX}mixed", process._LOG_NAME, "s", "more"),
        make(folder, "openenv-venv", process._LOG_NAME),
    ]
    linked = folder / f"{process._PREFIX}link"
    linked.symlink_to(others[0])
    ProcessProvider.sweep()
    assert all(other.is_dir() for other in others)
    assert (others[0] / "thesis.tex").exists()
    assert linked.is_symlink()
