"""Imports go down only, and each row uses only the libraries it may."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tree import ROOT, parse, sources

ROWS: dict[str, int] = {
    "openenv_gym.error_codes": 0,
    "openenv_gym.errors": 0,
    "openenv_gym.models": 0,
    "openenv_gym.structs": 0,
    "openenv_gym.protocol": 0,
    "openenv_gym.transport": 1,
    "openenv_gym.client": 1,
    "openenv_gym.providers": 1,
    "openenv_gym": 2,
    "openenv_gym.asgi": 2,
    "openenv_gym.env": 2,
    "openenv_gym.environment": 2,
    "openenv_gym.foreign": 2,
    "openenv_gym.forms": 2,
    "openenv_gym.lane_infos": 2,
    "openenv_gym.playing": 2,
    "openenv_gym.registration": 2,
    "openenv_gym.reset_options": 2,
    "openenv_gym.rubrics": 2,
    "openenv_gym.sampling": 2,
    "openenv_gym.session_holder": 2,
    "openenv_gym.spaces": 2,
    "openenv_gym.testing": 2,
    "openenv_gym.tool_actions": 2,
    "openenv_gym.tools": 2,
    "openenv_gym.typed_env": 2,
    "openenv_gym.servers": 3,
    "openenv_gym.envs": 3,
    "openenv_gym.wrappers": 3,
    "openenv_gym.serve": 4,
    "openenv_gym.demo": 4,
}
"""Room -> row. The longest name that fits counts."""

LIBRARIES: dict[int, set[str]] = {
    0: {"msgspec", "numpy"},
    1: {"msgspec", "numpy", "websockets"},
    2: {"msgspec", "numpy", "gymnasium"},
    3: {"msgspec", "numpy", "gymnasium"},
    4: {"gymnasium"},
}
"""Row -> what it may use besides the standard library."""

EXTRA_LIBRARIES: dict[str, set[str]] = {
    "openenv_gym.client.toolclient": {"typing_extensions"},  # for type checkers, which bring it
    "openenv_gym.protocol.specs": {"gymnasium"},
    "openenv_gym.protocol.columns": {"gymnasium"},
    "openenv_gym.spaces": {"jsonschema", "referencing"},
    "openenv_gym.tools.links": {"fastmcp", "httpx2", "mcp"},
    "openenv_gym.servers": {"starlette", "uvicorn", "websockets"},
}
"""Room or module -> what it may use beyond its row."""

LATE = {"docker", "fastmcp", "httpx2", "jsonschema", "kubernetes", "mcp", "ray", "referencing", "websockets"}
"""Imported inside functions only, outside the server: a training worker that never needs them never pays."""


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    late: bool


def test_every_module_has_a_row() -> None:
    assert {name: row for name in sources() if (row := _row(name)) is None} == {}


@pytest.mark.parametrize("name", sources())
def test_imports_go_down_only(name: str) -> None:
    mine = _row(name)
    assert mine is not None
    wrong = [
        f"line {found.line}: {found.module} (row {row})"
        for found in _imports(name, sources()[name])
        if (row := _row(found.module)) is not None and not _allowed(name, mine, found.module, row)
    ]
    assert wrong == [], f"{name} (row {mine}) imports upwards or sideways"


@pytest.mark.parametrize("name", sources())
def test_libraries_stay_in_their_rows(name: str) -> None:
    mine = _row(name)
    assert mine is not None
    allowed = LIBRARIES[mine].union(*(more for room, more in EXTRA_LIBRARIES.items() if _within(name, room)))
    own = _within(name, "openenv_gym.envs") and name.count(".") > 1
    wrong = []
    for found in _imports(name, sources()[name]):
        top = found.module.partition(".")[0]
        if top == "openenv_gym" or top in sys.stdlib_module_names:
            continue
        if top not in allowed and not (own and found.late):
            wrong.append(f"line {found.line}: {top} is not of row {mine}")
        elif top in LATE and not found.late and not _within(name, "openenv_gym.servers"):
            wrong.append(f"line {found.line}: {top} must be imported inside a function")
    assert wrong == [], name


def test_folders_are_never_imported_by_their_bare_names() -> None:
    bare = {"envs", "servers", "wrappers"}
    everything = [*sources().values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line}"
        for path in everything
        for found in _imports("", path)
        if found.module.partition(".")[0] in bare
    ]
    assert wrong == []


def test_rule_refuses_an_upward_and_a_sideways_import() -> None:
    assert not _allowed("openenv_gym.protocol.session", 0, "openenv_gym.serve", 4)
    assert not _allowed("openenv_gym.servers.app", 3, "openenv_gym.envs.echo_env", 3)
    assert not _allowed("openenv_gym.serve", 4, "openenv_gym.servers.run", 3)
    assert _allowed("openenv_gym.servers.app", 3, "openenv_gym.errors", 0)
    assert _allowed("openenv_gym.envs.echo_env", 3, "openenv_gym.envs.echo_env.env", 3)


def _within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


def _row(name: str) -> int | None:
    if name == "openenv_gym":
        return ROWS[name]
    rooms = [room for room in ROWS if room != "openenv_gym" and _within(name, room)]
    return ROWS[max(rooms, key=len)] if rooms else None


def _allowed(name: str, mine: int, other: str, row: int) -> bool:
    if mine == 4 and row == 3:
        return False
    if mine == row == 3:
        return name.split(".")[:2] == other.split(".")[:2]
    return row <= mine


def _imports(name: str, path: Path) -> list[Import]:
    return list(
        _walk(parse(path), name.split(".") if path.name == "__init__.py" else name.split(".")[:-1], False)
    )


def _walk(node: ast.AST, package: list[str], late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from _from(child, package, late)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types(child)
            yield from _walk(child, package, late or inside)


def _from(node: ast.ImportFrom, package: list[str], late: bool) -> Iterator[Import]:
    base = node.module or ""
    if node.level:
        base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield Import(full if full in sources() else base, node.lineno, late)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
