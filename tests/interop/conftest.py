"""What the tests with the openenv package have in common: its servers, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .peer import KINDS, PACKAGES, peer_serving
from .targets import TARGETS, ours_serving
from .venvs import interpreter


@pytest.fixture(scope="session")
def openenv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a virtual environment with the newest openenv."""
    return interpreter("OPENENV_VENV", PACKAGES, tmp_path_factory.mktemp("openenv") / "venv")


@pytest.fixture(scope="session")
def theirs(openenv: Path) -> Iterator[dict[str, str]]:
    """Serve the environments of ``theirs.py``; yields their base URLs by kind."""
    with peer_serving(openenv, *KINDS) as urls:
        yield urls


@pytest.fixture(scope="session")
def ours() -> Iterator[dict[str, str]]:
    """Serve environments of ours; yields their base URLs by kind."""
    with ours_serving(*TARGETS) as urls:
        yield urls
