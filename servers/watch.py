"""The watch: reads the board for deadlines and for sessions that nobody uses."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from openenv_gym.errors import DeadlineExceededError, OpenEnvError, SessionLostError

from .board import Operation
from .records import Record, Records
from .settings import ServerSettings

__all__ = ["Watch"]

_WITH_DEADLINES = 0.05
_WITHOUT = 1.0
_DEAF = 10.0
"""Seconds after which a worker that was told to end an idle session, and did nothing, will not."""
_LIMITED = (Operation.STEP, Operation.RESET, Operation.CONSTRUCTION)


class Watch:
    """Looks at every session's cell in turn.

    A cell that keeps its value stands for an operation that still runs (or for a session that is idle). Its
    age counts from the round that first saw the value, so a deadline is never enforced early.

    Args:
        records: The sessions.
        settings: The server's settings.
        end: Ends an idle session.
        condemn: Ends a session whose call overran.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        records: Records,
        settings: ServerSettings,
        end: Callable[[Record, OpenEnvError], None],
        condemn: Callable[[Record, OpenEnvError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._settings = settings
        self._end = end
        self._condemn = condemn
        self._clock = clock
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Look at once: there is a new session."""
        self._news.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._news.clear()
            urgent = False
            for record in list(self._records.living.values()):
                urgent |= self.look(record)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITH_DEADLINES if urgent else _WITHOUT):
                    await self._news.wait()

    def look(self, record: Record) -> bool:
        """Look at one session; return whether it has deadlines, of whichever operation."""
        # Ages err on the short side, however long this process is kept from running between two lines.
        now = self._clock()
        value = record.worker.board.cells[record.place]
        if value != record.value:
            record.value, record.since = value, self._clock()
        operation = Operation(value & 15)
        age = now - record.since
        if record.ending is not None:
            if operation is Operation.IDLE and age > _DEAF:
                record.since = now
                self._condemn(record, record.ending)
            return False
        if operation is Operation.IDLE:
            idle = self._settings.idle_timeout
            if idle is not None and age > idle:
                self._end(
                    record,
                    SessionLostError(
                        f"the session was idle for {idle:g} s (--idle-timeout); reset() starts anew"
                    ),
                )
            return self._hurried(record)
        deadline = self._deadline(record, operation)
        if deadline is not None and age > deadline:
            name = operation.name.lower()
            self._condemn(
                record,
                DeadlineExceededError(
                    f"the environment's {name} took longer than {deadline:g} s and was given up;"
                    " reset() starts a new session",
                    operation=name,
                    deadline=deadline,
                ),
            )
        return self._hurried(record)

    def _hurried(self, record: Record) -> bool:
        """Whether any operation has a deadline: the next one may begin right after this look."""
        return any(self._deadline(record, operation) is not None for operation in _LIMITED)

    def _deadline(self, record: Record, operation: Operation) -> float | None:
        """Return the shorter of the server's and the client's deadline for ``operation``."""
        settings, asked = self._settings, record.hello.limits
        match operation:
            case Operation.CONSTRUCTION:
                both = (settings.construction_deadline, asked.construction)
            case Operation.RESET:
                both = (settings.reset_deadline, asked.reset)
            case Operation.STEP | Operation.OTHER:
                both = (settings.step_deadline, asked.step)
            case _:
                return None
        return min((value for value in both if value), default=None)
