"""Whether a silent peer still lives: it is asked for a sign of life, and given up when none comes."""

from __future__ import annotations

from time import monotonic

from ..transport.channel import Channel

__all__ = ["Pulse"]


class Pulse:
    """Asks a peer that was silent for an interval, and gives it some time to answer.

    Args:
        keepalive: ``(interval, timeout)`` in seconds; ``None``: it is never asked.

    Attributes:
        span: How many seconds may pass between two looks, at most.
    """

    def __init__(self, keepalive: tuple[float, float] | None) -> None:
        self._keepalive = keepalive
        self._asked: float | None = None
        self.span = 1.0 if keepalive is None else min(1.0, *(span / 2 for span in keepalive))

    def gone(self, channel: Channel) -> bool:
        """Return, without waiting, whether the peer had time to give a sign of life and gave none."""
        if self._keepalive is None:
            return False
        interval, timeout = self._keepalive
        now, heard = monotonic(), channel.last_received
        if self._asked is not None and heard >= self._asked:
            self._asked = None
        if self._asked is not None:
            if now - self._asked > timeout:
                self._asked = None
                return True
        elif now - heard > interval:
            self._asked = now
            channel.ping()
        return False
