"""The board is memory that two processes share."""

from __future__ import annotations

import os

from openenv_gym.servers.board import Board, Operation


def test_what_one_process_writes_the_other_reads() -> None:
    board = Board.shared(4)
    assert board.fd is not None
    other = Board(4, os.dup(board.fd))
    other.cells[3] = 16 * 7 + Operation.STEP
    assert list(board.cells) == [0, 0, 0, 115]
    assert Operation(board.cells[3] & 15) is Operation.STEP
    other.close()
    board.close()


def test_a_private_board_needs_no_descriptor() -> None:
    board = Board(2)
    board.cells[1] = 5
    assert (board.fd, list(board.cells)) == (None, [0, 5])
    board.close()


def test_what_a_broken_worker_writes_is_no_operation() -> None:
    assert {Operation(value) for value in range(6, 16)} == {Operation.VACANT}
