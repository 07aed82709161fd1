"""A server of the typed environment that the tests of clients share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.sleeper import Gate
from tests.support.serverproc import serving


@pytest.fixture(scope="module")
def sleeper_url() -> Iterator[str]:
    """The address of a server of :class:`tests.client.sleeper.Sleeper`."""
    with serving("tests.client.sleeper:Sleeper", "--max-sessions", "60") as server:
        yield server.url


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A shut gate, which is open at the end."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()
