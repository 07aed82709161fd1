"""Deadlines instead of repeated timeouts: one point in time bounds all that has to happen before it."""

from __future__ import annotations

import time

__all__ = ["deadline_in", "earliest", "time_left"]


def deadline_in(seconds: float | None) -> float | None:
    """Return the ``time.monotonic()`` value ``seconds`` from now; ``None`` (unlimited) stays ``None``."""
    return None if seconds is None else time.monotonic() + seconds


def time_left(deadline: float | None) -> float | None:
    """Return the seconds until ``deadline``, never less than 0; ``None`` when it is unlimited."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def earliest(*deadlines: float | None) -> float | None:
    """Return the first of several deadlines; ``None`` when all are unlimited."""
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
