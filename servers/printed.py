"""What a worker prints: the last lines are kept, and all of it is passed on to the server's standard error.

Whoever reads that may be slow, or stopped, as a terminal is by Ctrl-S; the server's event loop must not wait
for it. As long as standard error takes nothing, nothing is read from the worker either: its prints wait then,
as they would without a server in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections import deque

__all__ = ["Printed"]

_LINES = 50
_LONGEST_LINE = 2000
_PARTIAL = 1 << 16
#: Bytes that a pipe takes at once when it says that it takes any.
_PIECE: int = getattr(select, "PIPE_BUF", 512)
_PIECES = 256
"""Pieces in one go: an environment that floods must not keep the loop from its other work."""
_PAUSE = 0.05


class Printed:
    """The output of one worker.

    Args:
        pipe: Where it comes from; closed at its end, or by :meth:`close`.

    Attributes:
        lines: The last lines.
    """

    def __init__(self, pipe: int) -> None:
        self.lines: deque[str] = deque(maxlen=_LINES)
        self._pipe = pipe
        self._partial = b""
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(pipe, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pipe, self._read)

    def close(self) -> None:
        """Read what there is, whether or not somebody takes it, and be done."""
        if self._pause is not None:
            self._pause.cancel()
        if self._pipe >= 0:
            self._read(last=True)
        self._end()

    def _read(self, *, last: bool = False) -> None:
        """Read some of it, or at last all that is there."""
        out = sys.__stderr__.fileno() if sys.__stderr__ else 2
        for _ in range(_PIECES):
            taken = _takes(out)
            if not (taken or last):
                self._loop.remove_reader(self._pipe)
                self._pause = self._loop.call_later(_PAUSE, self._resume)
                return
            try:
                data = os.read(self._pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                self._end()
                return
            if taken:
                with contextlib.suppress(OSError):
                    os.write(out, data)
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._partial = self._partial[-_PARTIAL:]
            self.lines.extend(line.decode("utf-8", "replace")[:_LONGEST_LINE] for line in lines[-_LINES:])

    def _resume(self) -> None:
        self._loop.add_reader(self._pipe, self._read)

    def _end(self) -> None:
        if self._pipe >= 0:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1


def _takes(out: int) -> bool:
    """Return whether a write to ``out`` would not wait; one that fails does not."""
    try:
        return bool(select.select([], [out], [], 0)[1])
    except (OSError, ValueError):
        return True
