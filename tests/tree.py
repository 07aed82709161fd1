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


@cache
def sources() -> dict[str, Path]:
    """Return every source module by its installed name; a package stands for its ``__init__.py``."""
    found = {}
    for folder, package in PACKAGE_DIRS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path
    return found


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
