"""Servers of ours for the tests with the openenv package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.serverproc import serving

__all__ = ["TARGETS", "ours_serving"]

TARGETS = {
    "probe": "tests.interop.ours:Probe",
    "solo": "tests.interop.ours:Probe",
    "broken": "tests.interop.ours:Broken",
    "tools": "tests.interop.ours:Tools",
    "closed": "tests.interop.ours:Tools",
    "echo": "echo",
    "cartpole": "CartPole-v1",
}
"""The kinds of ``theirs.py``, and more."""


@contextlib.contextmanager
def ours_serving(*kinds: str) -> Iterator[dict[str, str]]:
    """Serve environments; yields their base URLs by kind."""
    with contextlib.ExitStack() as stack:
        urls = {}
        for kind in kinds:
            slots = "1" if kind == "solo" else "8"
            mode = "production" if kind == "closed" else "simulation"
            options = ("--workers", "1", "--slot-wait", "0", "--max-sessions", slots, "--mode", mode)
            server = stack.enter_context(serving(TARGETS[kind], *options))
            urls[kind] = server.url.replace("ws://", "http://")
        yield urls
