"""A seat shows each call of many on the board, without looking like another operation to the attendant."""

from __future__ import annotations

import socket
import threading
from itertools import pairwise
from typing import Any

import pytest

from openenv_gym.errors import ServerDrainingError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.servers import seat as module
from openenv_gym.servers.board import Board, Operation
from openenv_gym.servers.seat import Seat
from openenv_gym.servers.stages import Desk, Plan
from openenv_gym.transport.channel import Channel


class _Stage:
    def answer(self, request: Any) -> m.Reply:
        raise AssertionError(request)

    def close(self) -> None:
        pass


def _open(build: Any, cells: list[int], reports: list[Any], slow: bool | None = None) -> None:
    """Open and end a session whose construction is ``build(desk, seat)``."""
    ours, theirs = socket.socketpair()
    client = Channel(ours, client=True)
    seats: list[Seat] = []

    def plan_build(hello: m.Hello, desk: Desk) -> Any:
        build(desk, seats[0])
        return _Stage(), {"target": "fake"}

    seat = Seat(
        "a" * 32,
        encode(m.Hello(session="a" * 32, token=b"t" * 16)),
        False,
        Channel(theirs, client=False),
        cell=cells.append,
        report=lambda what, facts=None: reports.append((what, facts)),
        plan=Plan(plan_build, dict, 1.0, m.Limits(), "test"),
        slow=slow,
    )
    seats.append(seat)
    thread = threading.Thread(target=seat.run)
    thread.start()
    client.recv()
    seat.end(ServerDrainingError("the test is over"))
    thread.join(20.0)
    client.abort()


def test_ticks_change_the_cell_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TICKS", 3)
    cells: list[int] = []
    counts: list[int] = []

    def build(desk: Desk, seat: Seat) -> None:
        for _ in range(4):
            desk.tick()
            counts.append(seat.count)

    _open(build, cells, [])
    assert counts == [1] * 4
    shown = cells[:5]
    assert [value & 15 for value in shown] == [int(Operation.CONSTRUCTION)] * 5
    assert len(set(shown)) == 3  # it goes round, but no two in a row are the same
    assert all(a != b for a, b in pairwise(shown))


def test_the_largest_tick_fits_into_a_cell() -> None:
    board = Board(1)
    board.cells[0] = (((module._MOST_TICKS - 1) << 40) + (1 << 40) - 1) * 16 + 15
    assert board.cells[0] > 0


@pytest.mark.parametrize("slow", [None, True, False])
def test_what_is_known_and_what_is_found_goes_both_ways(slow: bool | None) -> None:
    known: list[Any] = []
    reports: list[Any] = []

    def build(desk: Desk, seat: Seat) -> None:
        known.append((desk.slow, desk.local))
        desk.measured(True)

    _open(build, [], reports, slow)
    assert known == [(slow, False)]
    assert reports[0] == ("measured", True)
