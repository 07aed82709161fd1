"""The board: a page of memory on which a worker's sessions say what they are doing.

Each session has one cell, ``count * 16 + operation``. It changes when an operation starts and when it ends,
so the parent sees how long an operation runs by noting when it first saw the cell's value: no clock is read
and no message sent on the step path, and a worker whose GIL is kept by a C call can still be read.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum

__all__ = ["Board", "Operation"]

_CELL = 8


class Operation(IntEnum):
    """What a session is doing."""

    IDLE = 0
    CONSTRUCTION = 1
    RESET = 2
    STEP = 3
    OTHER = 4
    CLOSE = 5
    VACANT = 15

    @classmethod
    def _missing_(cls, value: object) -> Operation:
        """Take what a broken worker has written for nothing."""
        return cls.VACANT


class Board:
    """``places`` cells of shared memory.

    Args:
        places: Number of cells.
        fd: Descriptor of the memory, kept; ``None``: memory of this process alone.
    """

    def __init__(self, places: int, fd: int | None = None) -> None:
        size = max(places, 1) * _CELL
        if fd is None:
            self._memory: mmap.mmap | bytearray = bytearray(size)
        else:
            if os.fstat(fd).st_size < size:
                os.ftruncate(fd, size)
            self._memory = mmap.mmap(fd, size)
        self.cells = memoryview(self._memory).cast("q")
        self.fd = fd

    @classmethod
    def shared(cls, places: int) -> Board:
        """Return a board whose descriptor can be given to another process."""
        return cls(places, os.memfd_create("openenv-board", os.MFD_CLOEXEC))

    def close(self) -> None:
        """Give the memory back."""
        self.cells.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
