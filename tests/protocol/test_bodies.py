from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.protocol.bodies import Bodies


def _views(body: bytearray) -> list[Any]:
    """Return what may be left of a message when it has been read."""
    return [body, memoryview(body), memoryview(body)[5:9], np.frombuffer(memoryview(body), np.uint8)[3:]]


def test_memory_that_nobody_has_is_used_again() -> None:
    bodies = Bodies()
    first = bodies.take(100_000)
    first[:3] = b"abc"
    where = id(first)
    del first
    again = bodies.take(100_000)
    assert (id(again), bytes(again[:3]), len(again)) == (where, b"abc", 100_000)


@pytest.mark.parametrize("which", range(4))
def test_memory_that_somebody_has_is_left_alone(which: int) -> None:
    bodies = Bodies()
    body = bodies.take(100_000)
    body[:] = b"x" * 100_000
    held = _views(body)[which]
    del body
    for _ in range(4):
        other = bodies.take(100_000)
        other[:] = b"y" * 100_000
        del other
    assert bytes(held).count(b"y") == 0


def test_two_bodies_by_turns_are_enough_for_who_keeps_the_last_message() -> None:
    bodies = Bodies()
    kept, seen = bodies.take(50_000), set()
    for _ in range(20):
        kept = bodies.take(50_000)
        seen.add(id(kept))
    assert len(seen) == 2


@pytest.mark.parametrize("other", [-4096, -1, 1, 4096])
def test_sizes_that_are_near_share_memory(other: int) -> None:
    bodies = Bodies()
    where = id(bodies.take(100_000))
    body = bodies.take(100_000 + other)
    assert (id(body), len(body)) == (where, 100_000 + other)


@pytest.mark.parametrize("other", [-4097, 4097, 1_000_000, -90_000])
def test_others_do_not(other: int) -> None:
    bodies = Bodies()
    body = bodies.take(100_000)
    where = id(body)
    del body
    body = bodies.take(100_000 + other)
    assert (id(body) != where, len(body)) == (True, 100_000 + other)
