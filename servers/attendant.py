"""The attendant: one thread a host that keeps connections alive while environments work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from .seat import Seat

__all__ = ["Attendant"]

_LOG = logging.getLogger("openenv_gym.server")
_ROUND = 1.0
"""Seconds between rounds: a ping is answered within it even while a step runs."""


class Attendant:
    """Looks after the seats whose environment has been busy for a whole round.

    Args:
        seats: Returns the open seats.
        keepalive: Seconds between unsolicited pongs during a long call; ``None``: none.
    """

    def __init__(self, seats: Callable[[], Iterable[Seat]], keepalive: float | None) -> None:
        self._seats = seats
        self._keepalive = keepalive
        self._lock = threading.Lock()
        self._running = False
        self._seen: dict[str, tuple[int, float]] = {}

    def start(self) -> None:
        """See that the thread runs; it ends when there are no seats any more."""
        with self._lock:
            if not self._running:
                threading.Thread(target=self._run, name="attendant", daemon=True).start()
                self._running = True

    def _run(self) -> None:
        while self._needed():
            time.sleep(_ROUND)
            self.round(time.monotonic())

    def _needed(self) -> bool:
        with self._lock:
            self._running = any(True for _ in self._seats())
            return self._running

    def round(self, now: float) -> None:
        """Attend to the seats that are as busy as they were in the last round."""
        seen: dict[str, tuple[int, float]] = {}
        for seat in self._seats():
            if not seat.busy:
                continue
            count, beaten = self._seen.get(seat.session, (-1, now))
            if count != seat.count or self._attend(seat, now - beaten):
                beaten = now
            seen[seat.session] = (seat.count, beaten)
        self._seen = seen

    def _attend(self, seat: Seat, quiet: float) -> bool:
        """Attend to a seat that was ``quiet`` for so many seconds; return whether it gave a sign of life."""
        try:
            seat.attend()
            if self._keepalive is None or quiet < self._keepalive:
                return False
            seat.beat()
        except Exception:  # such as no memory for what one client sends: the other sessions need it, too
            _LOG.exception("session %s cannot be attended to", seat.session)
        return True
