"""A trainer that forks keeps its session, and the fork gets one of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serverproc import ROOT, serving

from .table import Aftermath
from .witness import TARGET


@pytest.mark.parametrize("times", [25, pytest.param(250, marks=pytest.mark.full, id="all")])
def test_a_trainer_forks(times: int, tmp_path: Path) -> None:
    with serving(TARGET, "--workers", "2", log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        command = [sys.executable, "-m", "tests.faults.forking", server.url, str(tmp_path), str(times)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        aftermath.check([])
