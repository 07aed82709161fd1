"""Slots: how many lanes a server may hold, and who waits for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from openenv_gym.errors import CapacityError, ServerDrainingError

__all__ = ["Slots"]


class Slots:
    """Counts slots; a slot is taken before an environment is built and given back on every path.

    Args:
        maximum: Slots in all.
        make_room: Called when somebody waits; may end sessions that nobody uses.
    """

    def __init__(self, maximum: int, make_room: Callable[[int], None]) -> None:
        self.maximum = maximum
        self.active = 0
        self._make_room = make_room
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many newcomers wait."""
        return len(self._waiters)

    @property
    def lacking(self) -> int:
        """How many slots would have to come free for all who wait; 0 or less: none."""
        return self.active + sum(count for count, _ in self._waiters) - self.maximum

    def vacant(self, count: int) -> bool:
        """Whether so many slots can be had without a wait."""
        return not self._waiters and self.active + count <= self.maximum

    async def take(self, count: int, patience: float, *, room_expected: bool) -> None:
        """Take ``count`` slots, waiting up to ``patience`` seconds for them.

        Args:
            count: Slots to take.
            patience: Seconds to wait.
            room_expected: Whether ``make_room`` will free enough slots; then even the impatient wait for it.

        Raises:
            CapacityError: There is no room.
        """
        if count > self.maximum:
            raise self._full(count)
        if self.vacant(count):
            self.active += count
            return
        if patience <= 0 and not room_expected:
            raise self._full(count)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (count, future)
        self._waiters.append(entry)
        self._make_room(self.lacking)
        try:
            await asyncio.wait([future], timeout=max(patience, 10.0 if room_expected else 0.0))
        except asyncio.CancelledError:
            if future.done() and future.exception() is None:  # handed over at this very moment
                self.active -= count
            raise
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)
            self._serve()
        if not future.done():
            raise self._full(count)
        future.result()

    def give(self, count: int) -> None:
        """Give ``count`` slots back."""
        self.active -= count
        self._serve()

    def refuse_all(self) -> None:
        """Send everybody away who waits: the server shuts down."""
        for _, future in self._waiters:
            if not future.done():
                future.set_exception(ServerDrainingError("the server is shutting down"))
        self._waiters.clear()

    def _serve(self) -> None:
        """Hand free slots to those who wait, first come first served."""
        while self._waiters:
            count, future = self._waiters[0]
            if future.done():
                self._waiters.popleft()
            elif self.active + count <= self.maximum:
                self._waiters.popleft()
                self.active += count
                future.set_result(None)
            else:
                return

    def _full(self, count: int) -> CapacityError:
        wanted = f"{count} more were asked for; " if count > 1 else ""
        return CapacityError(
            f"the server is full: {self.active}/{self.maximum} sessions active; {wanted}"
            "raise --max-sessions there, or wait with slot_timeout=SECONDS",
            active=self.active,
            max=self.maximum,
            option="max_sessions",
        )
