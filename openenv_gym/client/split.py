"""A connection whose calls come in two parts, so that one thread can have many of them under way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from ..errors import LocalProtocolError, OpenEnvError, ServerConnectionError
from ..protocol.messages import Close, Error, Welcome
from ..protocol.states import Phase
from ..transport.endings import ChannelClosed, ChannelSilence
from . import flows
from .deadline import deadline_in, earliest
from .flows import Flow
from .pulse import Pulse
from .sync import CLOSE_TIMEOUT, NOTABLE, Connection

__all__ = ["SplitConnection"]

_LOG = logging.getLogger("openenv_gym.client")


class SplitConnection(Connection):
    """A :class:`~.sync.Connection` that asks for its session when it is made; :meth:`complete` waits for it.

    :meth:`post` sends a request, :meth:`collect` waits for its reply. Arguments and errors are those of the
    base class, and so is what happens when the connection is lost: nothing is executed twice.

    Attributes:
        unreachable: Whether the server could not be reached when the session was to end.
        crowded: Whether those that this process waits for may need its core, so that it sleeps at once.
        pulse: Whether the server still lives.
    """

    unreachable: bool = False
    crowded: bool = False
    pulse: Pulse
    _parked: tuple[Flow[Welcome], Any] | None = None
    _due: float | None = None

    def complete(self, deadline: float | None = None) -> None:
        """Wait until the session is open.

        Args:
            deadline: When to stop waiting (``time.monotonic()``).

        Raises:
            OpenEnvError: It could not be opened.
            TimeoutError: A deadline passed; the connection is dropped.
        """
        if self._parked is None:
            return
        flow, intent = self._parked
        self._parked = None
        if deadline is not None:
            intent = intent._replace(deadline=earliest(intent.deadline, deadline))
        try:
            while True:
                intent = self._advance(flow, intent)
        except StopIteration as stop:
            self._opened(stop.value)
        except BaseException:
            self.drop()
            raise

    def post(self, kind: Callable[..., Any], *args: Any) -> None:
        """Send a request. A connection that breaks meanwhile is noticed by :meth:`collect`."""
        with self.lock:
            channel = self._channel
            if channel is None:
                channel = self._restored()
            wire = self.wire
            message = kind(wire.last_id + 1, *args)
            # First, since no interrupt may come between the next two lines. What was given up and may still
            # be executed does not count.
            self._due = None if self._limit is None else max(monotonic(), self._occupied) + self._limit
            frame = wire.send(message)
            try:
                channel.send(frame)
            except ServerConnectionError:
                pass  # the channel says so again when it is asked for the reply
            except BaseException:
                wire.abandon()
                raise

    def collect(self, patience: float | None = None) -> Any:
        """Return the reply to what was posted.

        Args:
            patience: When to stop waiting (``time.monotonic()``). A broken connection is restored first,
                which ``connect_timeout`` bounds.

        Raises:
            TimeoutError: ``patience`` is over; the request stays outstanding, so this may be called again.
        """
        with self.lock:
            message, due, reply = self.wire.pending, self._due, None
            if message is None:
                raise LocalProtocolError("no request is outstanding; post() one first")
            until = due if patience is None else earliest(due, patience)
            while reply is None:
                try:
                    reply = self._receive(until)
                except BaseException as exc:
                    reply = self._received_none(exc, message, due, patience)
            if type(reply) is Error:
                raise self._error(reply)
            return reply

    @property
    def outstanding(self) -> bool:
        """Return whether a request waits for its reply."""
        return not self.over and self._parked is None and self.wire.pending is not None

    @property
    def due(self) -> float | None:
        """Return when the reply must be there (``time.monotonic()``); ``None``: whenever."""
        return self._due

    def connected(self) -> bool:
        """Return whether there is a connection, so that a reply can be had without making one."""
        return self._channel is not None and not self._channel.closed

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something arrives, or -1."""
        return -1 if self._channel is None else self._channel.fileno()

    def poll(self) -> bool:
        """Return, without waiting, whether :meth:`collect` has something to say.

        A peer that was silent for long is asked for a sign of life, and given up when none comes in time.
        """
        with self.lock:
            channel = self._channel
            if channel is None or channel.attend() != 0:
                return True
            if self.pulse.gone(channel):
                channel.abort()
                return True
            return False

    def stands(self) -> bool:
        """Return, without waiting, whether the connection still stands, as far as one can tell."""
        with self.lock:
            channel = self._channel
            return channel is not None and channel.attend() >= 0

    def abandon(self) -> None:
        """Give the outstanding request up: the server executes it, and its reply is dropped when it comes."""
        with self.lock:
            if self.wire.pending is not None:
                self._occupied = self._due or 0.0
            self.wire.abandon()

    def begin_close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Ask the server to end the session, which :meth:`close` waits for. Never raises.

        Args:
            timeout: How long the server has for it, in seconds.
        """
        with self.lock:
            if self.over or self._parked is not None:
                return
            self._limit = min(self._limit or timeout, timeout)
            self._talk.connect_timeout = 0.2
            self.wire.abandon()
            try:
                self.post(Close)
            except (OpenEnvError, OSError) as exc:
                self._not_in_order(exc)

    def close(self) -> None:
        """End the session; wait, for some seconds at most, until the environment is closed. Never raises."""
        with self.lock:
            try:
                self.complete(deadline_in(CLOSE_TIMEOUT))
                if not self.over and type(self.wire.pending) is not Close:
                    self.begin_close()
                if not self.over:
                    self.collect()
            except (OpenEnvError, OSError) as exc:
                self._not_in_order(exc)
            finally:
                if not self.over:
                    self.drop(goodbye=True)

    def discard(self) -> None:
        """Ask the server to end the session, wait for nothing, and close the connection. Never raises."""
        if self._parked is not None:
            self.drop()
            return
        if not self.over:
            self.wire.abandon()
        super().discard()

    # -- inside

    def _open(self, flow: Flow[Welcome]) -> None:
        self.pulse = Pulse(self._talk.keepalive)
        intent = next(flow)
        while not isinstance(intent, flows.Receive):
            intent = self._advance(flow, intent)
        self._parked = flow, intent

    def _receive(self, deadline: float | None) -> Any:
        channel, wire, reply = self._channel, self.wire, None
        if channel is None:
            raise ChannelClosed("the connection was given up", server=self._talk.server)
        while reply is None:
            data = channel.recv(deadline, self._silence, not self.crowded)
            reply = wire.receive(data)
            if len(data) > NOTABLE and not self._noted:
                self._note_size(len(data))
        return reply

    def _received_none(
        self, exc: BaseException, message: Any, due: float | None, patience: float | None
    ) -> Any:
        """Return the reply after all, ``None`` to go on waiting, or raise what became of the request."""
        if patience is None or self.over:
            return self._exceptional(exc, message, due)
        if isinstance(exc, TimeoutError) and (due is None or monotonic() < due):
            raise exc
        channel = self._channel
        if isinstance(exc, ChannelSilence) and channel is not None and not channel.closed:
            self.poll()
            return None
        if isinstance(exc, ServerConnectionError):
            return self._reconnect(exc, message, due)
        return self._exceptional(exc, message, due)

    def _reconnect(self, cause: ServerConnectionError, message: Any, due: float | None) -> None:
        """Restore the connection and repeat the request, without waiting for the reply."""
        flow = self._talk.recover(cause, due)
        try:
            intent = next(flow)
            while not (isinstance(intent, flows.Receive) and self.wire.phase is Phase.BUSY):
                intent = self._advance(flow, intent)
        except TimeoutError:
            self.drop()
            raise self._overdue(message) from None
        except (OpenEnvError, OSError):
            self.drop()
            raise
        except BaseException:
            self._disconnect()
            raise

    def _not_in_order(self, exc: Exception) -> None:
        _LOG.debug("%s: the session was not closed in order: %s", self._talk.server, exc)
        self.unreachable = isinstance(exc, ServerConnectionError)
        self.drop()
