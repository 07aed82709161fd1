"""What a client does when more than one exchange is needed: open, resume, repeat. Generators without I/O.

A flow yields intents (:class:`Connect`, :class:`Send` ...) to a driver, which carries each out and sends the
result in, or throws what went wrong: :class:`Unreachable` and the channel's errors. ``sync.py`` holds the
blocking driver.

A request keeps its id for good. After a lost connection ``resume`` says which request the server executed
last; the outstanding one is sent again under its old id, and the server answers it from its cache if it had
executed it already. So nothing is executed twice, however often the connection breaks.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..errors import (
    OpenEnvError,
    RemoteProtocolError,
    ServerConnectionError,
    SessionLostError,
    VersionMismatchError,
    from_wire,
)
from ..protocol.messages import SUBPROTOCOL, VERSION, Error, Hello, Resume, Resumed, Welcome
from ..protocol.session import Session, Side
from ..transport.endings import ChannelSilence
from .deadline import earliest

__all__ = [
    "Connect",
    "Conversation",
    "Flow",
    "LastHeard",
    "Pause",
    "Ping",
    "Receive",
    "Send",
    "Unreachable",
    "error_of",
]

_T = TypeVar("_T")
#: What a flow is: it yields intents, is sent results, and returns a ``T``.
Flow = Generator[Any, Any, _T]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_MOST_CUTS = 16
_MOST_GREETINGS = 3


class Unreachable(ServerConnectionError):
    """Nobody answers at the address; a later attempt may succeed. Users get the :meth:`public` form."""

    def public(self) -> ServerConnectionError:
        """Return the error as the error reference has it."""
        return ServerConnectionError(self.message, server=self.server, **self.details)


class Connect(NamedTuple):
    """Intent: replace the connection by a new one, before ``deadline``."""

    deadline: float | None


class Send(NamedTuple):
    """Intent: send a frame."""

    frame: bytes


class Receive(NamedTuple):
    """Intent: receive a frame. Throws TimeoutError at ``deadline``, ChannelSilence after ``silence``."""

    deadline: float | None
    silence: float | None


class Ping(NamedTuple):
    """Intent: ask the peer for a sign of life."""


class LastHeard(NamedTuple):
    """Intent: when the peer was last heard of (``time.monotonic()``)."""


class Pause(NamedTuple):
    """Intent: wait."""

    seconds: float


@dataclass(slots=True)
class Conversation:
    """A session with a server, as far as it can be told without I/O.

    Attributes:
        hello: What opens the session; its ``session`` and ``token`` are chosen anew for each greeting.
        keepalive: ``(interval, timeout)`` in seconds, or ``None``.
        connect_timeout: Longest time to reach the server, in seconds; ``None``: unlimited.
        server: How errors call the server.
        clock: ``time.monotonic``, or a test's.
        wire: The protocol session.
    """

    hello: Hello
    keepalive: tuple[float, float] | None
    connect_timeout: float | None
    server: str
    clock: Callable[[], float] = time.monotonic
    wire: Session = field(init=False)

    def __post_init__(self) -> None:
        self._choose_session()

    def open(self, deadline: float | None, *, patient: bool) -> Flow[Welcome]:
        """Connect and open the session.

        Args:
            deadline: When to give up.
            patient: Whether to go on trying while nobody answers, up to ``connect_timeout``.

        Raises:
            ServerConnectionError: The server cannot be reached.
            OpenEnvError: The server refuses.
        """
        for _ in range(_MOST_GREETINGS):
            try:
                yield from self._connect(deadline, patient)
            except Unreachable as exc:
                raise exc.public() from exc.__cause__
            try:
                yield Send(self.wire.send(self.hello))
                reply = yield from self._admission(deadline)
            except ServerConnectionError as exc:
                try:
                    reply = yield from self.recover(exc, deadline)
                except SessionLostError as lost:
                    if type(lost) is not SessionLostError:
                        raise
                    self._choose_session()  # the hello had not arrived: nothing was built
                    continue
            return self._welcome(reply)
        raise ServerConnectionError(
            f"{self.server}: the connection broke {_MOST_GREETINGS} times before the session was open",
            server=self.server,
        )

    def recover(self, cause: ServerConnectionError, deadline: float | None) -> Flow[Any]:
        """Connect again, resume, repeat what is outstanding; return its reply (or what ``resume`` got).

        Args:
            cause: How the connection was lost.
            deadline: When the outstanding request must be answered.

        Raises:
            ServerConnectionError: The server cannot be reached any more.
            OpenEnvError: The server says that the session is over.
            TimeoutError: ``deadline`` passed.
        """
        cuts = 0
        while True:
            self.wire.disconnect()
            try:
                yield from self._connect(deadline, True)
            except Unreachable as exc:
                raise self._gone(cause, exc) from cause
            try:
                answer = yield from self._resume(deadline)
                frame = self.wire.repeat()
                if frame is None:
                    return answer
                yield Send(frame)
                return (yield from self.reply(deadline))
            except ChannelSilence as exc:
                cause = exc  # it had shown life in between, so this may go on as long as that
            except ServerConnectionError as exc:
                cause, cuts = exc, cuts + 1
                if cuts >= _MOST_CUTS or type(exc) is ServerConnectionError:
                    raise
                yield Pause(min(_FIRST_PAUSE * 2**cuts, _LONGEST_PAUSE))

    def reply(self, deadline: float | None) -> Flow[Any]:
        """Receive the reply to the outstanding request; late ones are dropped."""
        while True:
            message = self.wire.receive((yield from self._frame(deadline)))
            if message is not None:
                return message

    def after_silence(self, deadline: float | None) -> Flow[Any]:
        """Go on waiting for a reply after ``interval`` of silence."""
        return (yield from self._message((yield from self._asked(deadline)), deadline))

    # -- parts

    def _admission(self, deadline: float | None) -> Flow[Any]:
        """Receive the reply to ``hello``; who waits for a slot is not asked for signs of life."""
        if self.keepalive is None or self.hello.slot_timeout == math.inf:
            return (yield from self._message((yield Receive(deadline, None)), deadline))
        try:
            frame = yield Receive(deadline, self.keepalive[0] + self.hello.slot_timeout)
        except ChannelSilence:
            return (yield from self.after_silence(deadline))
        return (yield from self._message(frame, deadline))

    def _message(self, frame: Any, deadline: float | None) -> Flow[Any]:
        """Return the message in ``frame``, or the next one if it is a late reply or there is no frame."""
        message = None if frame is None else self.wire.receive(frame)
        return message if message is not None else (yield from self.reply(deadline))

    def _connect(self, deadline: float | None, patient: bool) -> Flow[None]:
        timeout = self.connect_timeout
        end = earliest(deadline, None if timeout is None else self.clock() + timeout)
        pause = _FIRST_PAUSE
        while True:
            try:
                yield Connect(end)
                return
            except Unreachable as exc:
                late = deadline is not None and self.clock() >= deadline
                if late and isinstance(exc.__cause__, TimeoutError):
                    raise TimeoutError from exc  # what was asked for is late, whoever is to blame
                if not patient or (end is not None and self.clock() + pause >= end):
                    raise
            yield Pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _resume(self, deadline: float | None) -> Flow[Any]:
        yield Send(self.wire.send(Resume(session=self.hello.session, token=self.hello.token)))
        asked = self.clock()
        if self.keepalive is not None:
            yield Ping()  # what stands before a busy worker may answer that by itself
        try:
            # Who switched the questions off knows that signs of life may not come through.
            frame = yield Receive(deadline, self.connect_timeout if self.keepalive else None)
        except ChannelSilence:
            if (yield LastHeard()) < asked:
                raise self._silent() from None
            frame = yield from self._frame(deadline)
        answer = self.wire.receive(frame)
        if isinstance(answer, Error):
            raise error_of(answer, self.server)
        if isinstance(answer, Resumed) and answer.last > self.wire.last_id:
            raise RemoteProtocolError(
                f"the server executed request {answer.last}, the last one sent is {self.wire.last_id}",
                server=self.server,
            )
        return answer

    def _frame(self, deadline: float | None) -> Flow[Any]:
        """Receive a frame; a silent peer is asked for a sign of life, and must give one."""
        if self.keepalive is None:
            return (yield Receive(deadline, None))
        while True:
            try:
                return (yield Receive(deadline, self.keepalive[0]))
            except ChannelSilence:
                frame = yield from self._asked(deadline)
                if frame is not None:
                    return frame

    def _asked(self, deadline: float | None) -> Flow[Any]:
        """Ask for a sign of life; return a frame, or ``None`` when another sign came."""
        assert self.keepalive is not None
        asked = self.clock()
        yield Ping()
        try:
            return (yield Receive(deadline, self.keepalive[1]))
        except ChannelSilence:
            if (yield LastHeard()) < asked:
                raise
            return None

    def _choose_session(self) -> None:
        self.hello = msgspec.structs.replace(self.hello, session=os.urandom(16).hex(), token=os.urandom(16))
        self.wire = Session(Side.CLIENT, self.hello.limits.message)

    def _welcome(self, reply: Any) -> Welcome:
        if isinstance(reply, Error):
            raise error_of(reply, self.server)
        if not isinstance(reply, Welcome):
            raise RemoteProtocolError("the server did not answer 'hello' with 'welcome'", server=self.server)
        if reply.version != VERSION:
            raise VersionMismatchError(
                f"{self.server} speaks version {reply.version} of {SUBPROTOCOL}, this client version"
                f" {VERSION}; install the same openenv-gym on both sides",
                server=self.server,
            )
        return reply

    def _gone(self, cause: ServerConnectionError, last: Unreachable) -> ServerConnectionError:
        if isinstance(cause, ChannelSilence):
            text = f"{self.server} gave no sign of life within keepalive={self.keepalive} s (None: not asked)"
        else:
            text = f"{self.server}: the connection was lost ({cause.details.get('reason') or cause.message})"
        text += f", and there is no new one: {last.message}"
        return ServerConnectionError(text, server=self.server)

    def _silent(self) -> ServerConnectionError:
        span = self.connect_timeout
        return ServerConnectionError(
            f"{self.server} takes connections but gave no sign of life for {span:g} s. If something between"
            " client and server drops WebSocket pings, set keepalive=None (OPENENV_KEEPALIVE=none)",
            server=self.server,
            option="keepalive",
        )


def error_of(reply: Error, server: str) -> OpenEnvError:
    """Return the exception for an ``error`` reply; the environment's traceback is part of its text."""
    message = reply.message
    traceback = reply.details.get("traceback")
    if isinstance(traceback, str) and traceback:
        message = f"{message}\n\nIn the environment:\n{traceback.rstrip()}"
    return from_wire(reply.code, message, reply.details, server=server)
