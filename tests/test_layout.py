"""The tests mirror the sources, and nothing grows beyond what one can read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tree import PACKAGE_DIRS, ROOT, files, parse, sources

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_NESTING = 4

TOPICS = {
    "tests/client/test_transcripts.py",
    "tests/protocol/test_document.py",
    "tests/protocol/test_fuzz.py",
    "tests/servers/openenv/test_transcripts.py",
    "tests/test_docs_reference.py",
    "tests/test_degraded.py",
    "tests/test_exports.py",
    "tests/test_layers.py",
    "tests/test_layout.py",
    "tests/test_packaging.py",
    "tests/test_readme.py",
    "tests/wrappers/test_gymnasium_wrappers.py",
    "tests/wrappers/vector/test_gymnasium_wrappers.py",
}
"""Tests of the repository as a whole, or of what several modules do together."""

_WHOLE = ("benchmarks", "conformance", "external", "faults", "field", "interop", "support", "whole")
TOPIC_DIRS = tuple(f"tests/{folder}/" for folder in _WHOLE)
"""Folders of tests of the product as a whole, and of the tests' own tools."""


def _test_of(name: str) -> str | None:
    """Return the test file that belongs to module ``name``, or ``None`` when it needs none."""
    path = sources()[name]
    if path.name == "__init__.py" and not _defines_anything(path):
        return None
    if name == "openenv_gym":
        return "tests/test_exports.py"
    folder, *rest = path.relative_to(ROOT).parts
    inner = rest if folder == "openenv_gym" else [folder, *rest]
    if inner[-1] == "__init__.py":
        return "/".join(["tests", *inner[:-1], "test_init.py"])
    return "/".join(["tests", *inner[:-1], f"test_{inner[-1]}"])


def _defines_anything(path: Path) -> bool:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return any(isinstance(node, definitions) for node in parse(path).body)


@pytest.mark.parametrize("name", sources())
def test_every_module_has_its_test_file(name: str) -> None:
    expected = _test_of(name)
    assert expected is None or (ROOT / expected).is_file(), f"{name} has no {expected}"


def test_every_test_file_has_its_module() -> None:
    known = {expected for name in sources() if (expected := _test_of(name))} | TOPICS
    stems = {test.removesuffix(".py") for test in known}
    stray = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        test = path.relative_to(ROOT).as_posix()
        aspect = any(test.startswith(f"{stem}_") for stem in stems)
        if test not in known and not aspect and not test.startswith(TOPIC_DIRS):
            stray.append(test)
    assert stray == [], "name them after a module, or put them into TOPICS"


def test_topics_exist() -> None:
    assert [topic for topic in sorted(TOPICS) if not (ROOT / topic).is_file()] == []


@pytest.mark.parametrize("folder", [*PACKAGE_DIRS, "tests"])
def test_every_folder_with_code_is_a_package(folder: str) -> None:
    folders = {path.parent for path in files(ROOT / folder, "*.py")}
    assert [str(found) for found in sorted(folders) if not (found / "__init__.py").is_file()] == []


@pytest.mark.parametrize("name", sources())
def test_modules_stay_small(name: str) -> None:
    path = sources()[name]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    functions = [
        node for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = [f"{f.name}: {size}" for f in functions if (size := _lines(f)) > MAX_FUNCTION_LINES]
    deep = [f"{f.name}: {depth}" for f in functions if (depth := _nesting(f)) > MAX_NESTING]
    assert long == [], "functions with too many lines"
    assert deep == [], "functions nested too deeply"


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _nesting(node: ast.AST) -> int:
    blocks = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match
    deepest = 0
    for child in ast.iter_child_nodes(node):
        # An elif is an If alone in the orelse of another; it nests no deeper than its if.
        chained = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        deepest = max(deepest, _nesting(child) + (isinstance(child, blocks) and not chained))
    return deepest
