"""The table of field bugs names tests that exist, and every test that is about one stands in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_HERE = Path(__file__).parent
_TESTS = _HERE.parent
_ROW = re.compile(r"^\| (F\d{3}) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_NAMED = re.compile(r"`([^`:]+\.py)::(test_\w+)`")
_ID = re.compile(r"(?<=_)f\d{3}(?=_)")

ROWS = dict(_ROW.findall((_HERE / "README.md").read_text(encoding="utf-8")))


def _tests(file: Path) -> set[str]:
    """Return the names of the test functions in ``file``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_row_names_tests_that_exist_or_a_reason() -> None:
    assert len(ROWS) >= 50
    for row, cell in ROWS.items():
        named = _NAMED.findall(cell)
        for file, name in named:
            assert name in _tests(_TESTS / file), f"{row}: there is no {file}::{name}"
        assert named or cell.endswith("."), f"{row}: name a test, or say why there is none"


def test_every_test_that_is_about_a_bug_stands_in_its_row() -> None:
    for file in sorted(_TESTS.rglob("test_*.py")):
        for name in _tests(file):
            for bug in _ID.findall(name):
                place = f"{file.relative_to(_TESTS).as_posix()}::{name}"
                assert place in ROWS.get(bug.upper(), ""), f"add {place} to row {bug.upper()} of README.md"
