"""The source tree as the repository-wide tests see it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PACKAGE_DIRS = {
    "openenv_gym": "openenv_gym",
    "envs": "openenv_gym.envs",
    "servers": "openenv_gym.servers",
    "wrappers": "openenv_gym.wrappers",
}
"""Top-level folder -> the package it installs as."""


def files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder, without those that pip leaves where it installs an environment from."""
    found = (path for path in folder.rglob(pattern) if path.is_file())
    return sorted(
        path for path in found if not any(_is_built(part) for part in path.relative_to(folder).parts)
    )


def _is_built(part: str) -> bool:
    return part == "build" or part.endswith(".egg-info")


@cache
def sources() -> dict[str, Path]:
    """Return every source module by its installed name; a package stands for its ``__init__.py``."""
    found = {}
    for folder, package in PACKAGE_DIRS.items():
        for path in files(ROOT / folder, "*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path
    return found


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
