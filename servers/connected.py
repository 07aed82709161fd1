"""The connection of a session, which other threads may replace or end.

:meth:`Connected.attach` leaves a new connection in ``_arrivals`` and wakes the session's thread by ending the
old one; :meth:`Connected.end` works the same way. Both are safe from any thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from openenv_gym.errors import OpenEnvError, ServerConnectionError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.session import Session
from openenv_gym.transport.channel import Channel

from .replies import error_reply

__all__ = ["Connected"]

_GOING_AWAY = 1001
_LAST_PATIENCE = 1.0
"""Seconds that a client may take to accept the last words it is told."""


class Connected:
    """What has a connection to a client, or waits for one.

    Args:
        channel: The connection.
        wire: What is said on it.
        report: See :class:`.Seat`.

    Attributes:
        io: Held by whoever sends or receives.
        busy: Whether the environment runs, and ``io`` is free.
        channel: The connection, if there is one.
    """

    def __init__(self, channel: Channel, wire: Session, report: Callable[..., None]) -> None:
        self.io = threading.Lock()
        self.busy = False
        self.channel: Channel | None = channel
        self._wire = wire
        self._report = report
        self._arrivals: deque[Channel] = deque()
        self._changed = threading.Event()
        self._ending: OpenEnvError | None = None
        self._last_words: m.Error | None = None
        self._left = False

    # -- from other threads

    def attach(self, channel: Channel) -> None:
        """Take over a new connection; the old one is ended."""
        self._arrivals.append(channel)
        if self._left:  # nobody would serve it; the client comes back and hears how the session ended
            channel.abort()
            return
        self._report("attached")
        self._wake()

    def end(self, reason: OpenEnvError) -> None:
        """End the session as soon as the request that runs is done."""
        self._ending = self._ending or reason
        self._wake()

    def condemn(self, reason: OpenEnvError) -> None:
        """End the session now for the client; the environment is closed when (and if) its call returns."""
        self.end(reason)
        if self.busy and self.io.acquire(timeout=0.5):
            try:
                if self.busy:
                    self._farewell()
            finally:
                self.io.release()

    def attend(self) -> None:
        """While the environment runs: answer pings, notice the end of the connection."""
        if not self.busy or not self.io.acquire(blocking=False):
            return
        try:
            channel = self._newest()
            if not self.busy or channel is None or channel.closed:
                return
            if channel.attend() < 0 and channel is self._newest():
                self._report("detached")
        finally:
            self.io.release()

    def beat(self) -> None:
        """While the environment runs: show the client that this side lives."""
        if not self.busy or not self.io.acquire(blocking=False):
            return
        try:
            channel = self._newest()
            if self.busy and channel is not None:
                channel.pong()
        finally:
            self.io.release()

    def _newest(self) -> Channel | None:
        return self._arrivals[-1] if self._arrivals else self.channel

    def _wake(self) -> None:
        self._changed.set()
        channel = self.channel
        if channel is not None and not self.busy:
            channel.stop_receiving()

    # -- the session's thread

    def _say(self, reply: m.Reply) -> None:
        """Send a reply; a connection that cannot take it is lost, which the next read will show."""
        channel = self.channel
        if channel is None:
            return
        with contextlib.suppress(OSError, ServerConnectionError):
            channel.send(self._wire.send(reply))

    def _farewell(self) -> None:
        """Tell a client that is still there why its session ends."""
        if self._last_words is None and self._ending is not None:
            self._last_words = error_reply(self._ending, alive=False)
        for channel in (self.channel, *self._arrivals):
            if channel is None or channel.closed:
                continue
            with contextlib.suppress(OSError, OpenEnvError):
                channel.send_timeout = _LAST_PATIENCE
                if self._last_words is not None:
                    channel.send(encode(self._last_words))
                channel.close(_GOING_AWAY, "the session has ended", timeout=0.0)

    def _drop_channel(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.abort()
