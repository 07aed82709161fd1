"""The rules that every test runs under are themselves kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

SKIPS = """
import pytest
def test_skipped(): pytest.skip("no such machine")
@pytest.mark.xfail(reason="known")
def test_expected(): assert False
"""

MODULE_SKIP = """
import pytest
pytest.importorskip("no_such_module_anywhere")
def test_never(): assert True
"""

THREAD = """
import threading
enough = threading.Event()
def test_leaves_a_thread():
    threading.Thread(target=enough.wait, args=(60.0,), name="forgotten").start()
def test_ends_it():
    enough.set()
"""

CHILD = """
import subprocess, sys
def test_leaves_a_child(no_leaks):
    globals()["child"] = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
def test_ends_it(no_leaks):
    child.stdin.close()
    child.wait()
"""


def _run(folder: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"]
    environment = {name: value for name, value in os.environ.items() if name != "OPENENV_CI"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_skip_is_allowed_unless_it_is_refused(tmp_path: Path) -> None:
    assert _run(tmp_path, SKIPS).returncode == 0
    refused = _run(tmp_path, SKIPS, "--fail-on-skip")
    assert refused.returncode == 1
    assert "skipped, which CI does not allow: Skipped: no such machine" in refused.stdout
    assert "1 failed, 1 xfailed" in refused.stdout


def test_a_skipped_module_is_refused_too(tmp_path: Path) -> None:
    refused = _run(tmp_path, MODULE_SKIP, "--fail-on-skip")
    assert refused.returncode != 0
    assert "no_such_module_anywhere" in refused.stdout


@pytest.mark.parametrize(
    ("code", "complaint"),
    [(THREAD, "left threads running: ['forgotten']"), (CHILD, "left child processes: [")],
    ids=["thread", "child"],
)
def test_what_a_test_leaves_behind_fails_it(tmp_path: Path, code: str, complaint: str) -> None:
    done = _run(tmp_path, code, "--leak-patience", "0.2")
    assert done.returncode == 1
    assert complaint in done.stdout
