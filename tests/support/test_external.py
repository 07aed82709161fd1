"""Outside programs are run so that a failure says what happened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.external import ensure_venv, run


def test_returns_what_was_printed(tmp_path: Path) -> None:
    assert run(Path(sys.executable), ["-c", "import os; print(os.getcwd())"], tmp_path).strip() == str(
        tmp_path
    )


def test_failure_shows_the_output(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"exited with 3:\nwhy"):
        run(Path(sys.executable), ["-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"], tmp_path)


def test_a_finished_environment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.support.external as external

    commands: list[list[str]] = []
    monkeypatch.setattr(external.subprocess, "run", lambda command, **_: commands.append(command))
    folder = tmp_path / "rl"
    folder.mkdir()
    assert ensure_venv(folder) == folder / "bin" / "python"
    installed = [command[-1] for command in commands if "install" in command]
    assert installed[0].startswith("torch==")
    assert len(installed) == 3
    ensure_venv(folder)
    assert len(commands) == 4
    beside = tmp_path / "rl-ray"
    beside.mkdir()
    assert ensure_venv(folder, ray=True) == beside / "bin" / "python"
    assert "ray[rllib]" in commands[6][-1]
