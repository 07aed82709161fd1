"""Connections for every test of this folder."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.transport.ends import KINDS, connected


@pytest.fixture(params=KINDS)
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give the ends of a connection of each kind."""
    with connected(request.param) as pair:
        yield pair


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give the ends of one connection."""
    with connected("unix") as pair:
        yield pair
