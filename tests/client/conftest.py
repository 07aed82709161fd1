"""A server of the typed environment that the tests of clients share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.serverproc import serving


@pytest.fixture(scope="module")
def sleeper_url() -> Iterator[str]:
    """The address of a server of :class:`tests.client.sleeper.Sleeper`."""
    with serving("tests.client.sleeper:Sleeper", "--max-sessions", "60") as server:
        yield server.url
