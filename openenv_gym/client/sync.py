"""A blocking connection to one session: the fast path of a request inline, everything else by a flow."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from ..errors import (
    DeadlineExceededError,
    LocalProtocolError,
    MessageTooLargeError,
    OpenEnvError,
    ServerConnectionError,
    ServerTimeoutError,
    SessionLostError,
)
from ..protocol.messages import Close, Error, Welcome
from ..protocol.states import Phase
from ..transport.channel import Channel
from ..transport.endings import ChannelClosed, ChannelSilence
from . import flows
from .deadline import deadline_in
from .flows import Conversation, Flow, error_of

__all__ = ["CLOSE_TIMEOUT", "NOTABLE", "Connection"]

_LOG = logging.getLogger("openenv_gym.client")
_T = TypeVar("_T")
# Bound here because access through an Enum class runs Python code, once or more for every message.
_IDLE = Phase.IDLE
#: From this size on a reply is worth a word.
NOTABLE = 4 << 20
#: How much longer than the server a client waits for a call that has a deadline.
_DEADLINE_GRACE = 0.5
CLOSE_TIMEOUT = 10.0


class Connection:
    """A session, kept over lost connections. Calls from several threads take turns.

    Args:
        talk: What is said.
        dial: Makes a channel before a deadline; raises :class:`~.flows.Unreachable` when nobody answers.
        request_timeout: Longest request in seconds, which the server enforces; ``None``: unlimited.
        deadline: When the session must be open (``time.monotonic()``); ``None``: whenever.
        patient: Whether to go on trying while nobody answers, up to the connect timeout.

    Attributes:
        welcome: What the server said of the session.
        lock: Held during a call; whoever holds it, too, between call and result keeps other threads out.
        over: Whether the session has ended, for this process at least.
        wire: The protocol session; ``wire.last_id + 1`` is the id of the next request.

    Raises:
        OpenEnvError: The session could not be opened.
        TimeoutError: ``deadline`` passed.
    """

    welcome: Welcome

    def __init__(
        self,
        talk: Conversation,
        dial: Callable[[float | None], Channel],
        *,
        request_timeout: float | None,
        deadline: float | None = None,
        patient: bool = False,
    ) -> None:
        self.over = False
        self._talk = talk
        self._dial = dial
        self._channel: Channel | None = None
        # Re-entrant, so that a signal handler that calls back gets an error instead of a deadlock.
        self.lock = threading.RLock()
        self._timeout = request_timeout
        self._limit = None if request_timeout is None else request_timeout + _DEADLINE_GRACE
        #: Until when a request that was given up may still be executed; the next one waits for it.
        self._occupied = 0.0
        self._silence = None if talk.keepalive is None else talk.keepalive[0]
        self._noted = False
        self._calling = False
        try:
            self._open(talk.open(deadline, patient=patient))
        except BaseException:
            self.drop()
            raise
        _connections.add(self)

    def request(self, kind: Callable[..., Any], *args: Any) -> Any:
        """Send a request and return the reply, which is no ``error``; executed at most once.

        Args:
            kind: Class of the message.
            args: Its fields after ``id``.

        Raises:
            OpenEnvError: What the server reports, or how the connection was lost. :attr:`over` says whether
                the session has ended with it.
        """
        with self.lock:
            if self._calling:
                raise LocalProtocolError("a call is under way; a signal handler cannot make another one")
            self._calling = True
            try:
                channel, wire = self._channel, self.wire
                if channel is None or wire.phase is not _IDLE:
                    channel = self._settled()
                deadline = None if self._limit is None else max(monotonic(), self._occupied) + self._limit
                message = kind(wire.last_id + 1, *args)
                frame = wire.send(message)
                try:
                    channel.send(frame)
                    data = channel.recv(deadline, self._silence)
                    reply = wire.receive(data)
                    while reply is None:
                        data = channel.recv(deadline, self._silence)
                        reply = wire.receive(data)
                except BaseException as exc:
                    reply = self._exceptional(exc, message, deadline)
                else:
                    if len(data) > NOTABLE and not self._noted:
                        self._note_size(len(data))
                if type(reply) is Error:
                    raise self._error(reply)
                return reply
            finally:
                self._calling = False

    def check(self) -> None:
        """Make sure, without a request, that the session still stands; resume it when the connection is gone.

        Raises:
            OpenEnvError: It does not; nothing was executed.
        """
        with self.lock:
            channel = self._channel
            if channel is not None and channel.attend() < 0:
                self._channel = None
                channel.abort()
            if self._channel is None:
                self._restored()

    def close(self) -> None:
        """End the session; wait, for some seconds at most, until the environment is closed. Never raises."""
        with self.lock:
            if self.over:
                return
            self._limit = min(self._limit or CLOSE_TIMEOUT, CLOSE_TIMEOUT)
            self._occupied = 0.0
            self._talk.connect_timeout = 0.2
            try:
                self.request(Close)
            except (OpenEnvError, OSError) as exc:
                _LOG.debug("%s: the session was not closed in order: %s", self._talk.server, exc)
            finally:
                self.drop(goodbye=True)

    def discard(self) -> None:
        """Ask the server to end the session, wait for nothing, and close the connection. Never raises."""
        channel = self._channel
        if self.over or channel is None:
            return
        try:
            channel.send_timeout = 0.1
            channel.send(self.wire.send(Close(self.wire.last_id + 1)))
        except (OpenEnvError, OSError):
            pass
        finally:
            self.drop()

    def drop(self, *, goodbye: bool = False) -> None:
        """Close the connection; the session is over for this client."""
        self.over = True
        channel, self._channel = self._channel, None
        if channel is not None:
            if goodbye:
                channel.close(timeout=0.2)
            else:
                channel.abort()

    def forget(self) -> None:
        """In a forked child: leave the connection to the parent."""
        self.over = True
        self.lock = threading.RLock()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort()  # closes this process's descriptor, which says nothing to the peer

    # -- when something is out of the ordinary

    def _open(self, flow: Flow[Welcome]) -> None:
        self._opened(self._run(flow))

    def _opened(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.wire = self._talk.wire

    def _settled(self) -> Channel:
        """Return a channel that is ready for a request, whatever interrupts left behind."""
        self.wire.abandon()
        if self._channel is not None and self.wire.phase is not _IDLE:
            self._disconnect()
        return self._channel or self._restored()

    def _restored(self) -> Channel:
        """Return a channel on which the session goes on."""
        if self.over:
            raise SessionLostError(
                "the session has ended, or belongs to the process that this one was forked from;"
                " reset() starts a new one",
                server=self._talk.server,
            )
        try:
            self._recover(ServerConnectionError("it was given up"), deadline_in(self._limit))
        except TimeoutError:
            self.drop()
            raise ServerTimeoutError(
                f"{self._talk.server} did not resume the session within step_timeout={self._timeout} s",
                server=self._talk.server,
            ) from None
        assert self._channel is not None
        return self._channel

    def _exceptional(self, exc: BaseException, message: Any, deadline: float | None) -> Any:
        """Return the reply after all, or raise what became of the request."""
        if self.over:  # a signal handler closed it
            raise exc
        try:
            if isinstance(exc, ChannelSilence) and self._channel is not None and not self._channel.closed:
                try:
                    return self._run(self._talk.after_silence(deadline))
                except ServerConnectionError as lost:
                    exc = lost
            if isinstance(exc, ServerConnectionError):
                words = self._last_words()
                return self._recover(exc, deadline) if words is None else words
            raise exc
        except TimeoutError:
            if deadline is None:  # not ours: a signal handler's
                self.wire.abandon()
                raise
            self.drop()
            raise self._overdue(message) from None
        except MessageTooLargeError:
            self.wire.abandon()  # the reply was dropped; what follows is in step
            raise
        except (OpenEnvError, OSError):
            self.drop()
            raise
        except BaseException:
            # An interrupt: the request may be executed or not, and its reply is nobody's.
            self.wire.abandon()
            self._occupied = deadline or 0.0
            raise

    def _last_words(self) -> Error | None:
        """Return what the server said before it closed the connection, where that failed our sending."""
        channel = self._channel
        if channel is None or not channel.closed:
            return None
        try:
            reply = self.wire.receive(channel.recv())
        except (OpenEnvError, OSError):
            return None
        return reply if type(reply) is Error else None

    def _recover(self, cause: ServerConnectionError, deadline: float | None) -> Any:
        _LOG.info("%s: connecting again: %s", self._talk.server, cause.message)
        try:
            return self._run(self._talk.recover(cause, deadline))
        except TimeoutError:
            raise
        except (OpenEnvError, OSError):
            self.drop()
            raise
        except BaseException:
            self._disconnect()
            raise

    def _error(self, reply: Error) -> OpenEnvError:
        if not reply.alive:
            self.drop()
        return error_of(reply, self._talk.server)

    def _overdue(self, message: Any) -> DeadlineExceededError:
        operation = type(message).__struct_config__.tag
        return DeadlineExceededError(
            f"{operation} took longer than step_timeout={self._timeout} s, and the server did not stop it;"
            " reset() starts a new session",
            server=self._talk.server,
            operation=operation,
            deadline=self._timeout,
        )

    def _note_size(self, size: int) -> None:
        self._noted = True
        _LOG.warning(
            "%s (%s) sends messages of %d bytes (said once; the limit is %d, OPENENV_MAX_MESSAGE_SIZE)",
            self.welcome.target,
            self._talk.server,
            size,
            self._talk.hello.limits.message,
        )

    # -- the driver

    def _run(self, flow: Flow[_T]) -> _T:
        """Carry out what ``flow`` intends; return what it returns."""
        try:
            intent = next(flow)
            while True:
                intent = self._advance(flow, intent)
        except StopIteration as stop:
            result: _T = stop.value
            return result

    def _advance(self, flow: Flow[Any], intent: Any) -> Any:
        """Carry out what ``flow`` intends; return what it intends next."""
        try:
            result = self._carry_out(intent)
        except Exception as exc:
            return flow.throw(exc)
        return flow.send(result)

    def _carry_out(self, intent: Any) -> Any:
        match intent:
            case flows.Connect(deadline):
                self._disconnect()
                self._channel = self._dial(deadline)
                return None
            case flows.Pause(seconds):
                time.sleep(seconds)
                return None
        channel = self._channel
        if channel is None:
            raise ChannelClosed("the connection is closed", server=self._talk.server)
        match intent:
            case flows.Send(frame):
                return channel.send(frame)
            case flows.Receive(deadline, silence):
                return channel.recv(deadline, silence)
            case flows.Ping():
                return channel.ping()
            case flows.LastHeard():
                return channel.last_received
        raise LocalProtocolError(f"a flow intends {intent!r}, which nobody can do")

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort()
        self._talk.wire.disconnect()


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_connections):
        connection.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
