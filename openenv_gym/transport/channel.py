"""A blocking WebSocket connection, the same for client and server workers.

Strategy: one thread owns a channel and sends and receives on it. While the owner is busy elsewhere another
thread may :meth:`~Channel.attend` to it under a lock of theirs; only :meth:`~Channel.shutdown` and
:meth:`~Channel.stop_receiving` may come from anywhere at any time.

Bytes are received in a ``for`` over a :func:`map`: the number of bytes is stored in the same step that takes
them from the kernel, where an interrupt after a plain call could lose it and with it the place in the stream.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from itertools import repeat
from time import monotonic

from ..errors import LocalProtocolError, MessageTooLargeError, OpenEnvError, RemoteProtocolError
from ..protocol.frames import CLOSE, PING, PONG, TEXT, Frame, close_payload, parse_close
from ..protocol.reader import FrameReader
from .endings import ChannelClosed, ChannelSilence, lost, said_goodbye
from .polling import Poller, possible, worthwhile
from .sender import Sender
from .sockets import DirectSocket

__all__ = ["Channel"]

#: How many messages :meth:`Channel.attend` keeps before it stops reading.
_HELD = 4


class Channel(Sender):
    """A WebSocket connection on a connected socket whose handshake is done.

    Args:
        sock: The socket; the channel owns it from now on.
        client: Whether this end is the client.
        max_message: Largest message to receive in bytes; 0: no limit.
        initial: Bytes that arrived together with the handshake.
        compression: Whether permessage-deflate was negotiated, without context takeover on either side.
        poll: Whether to try before blocking; ``None``: where it is worthwhile.

    Attributes:
        last_received: ``time.monotonic()`` when something last arrived.
    """

    __slots__ = ("__weakref__", "_closing", "_held", "_poller", "_reader", "_reads", "last_received")

    _reader_class = FrameReader

    def __init__(
        self,
        sock: socket.socket,
        *,
        client: bool,
        max_message: int = 0,
        initial: bytes = b"",
        compression: bool = False,
        poll: bool | None = None,
    ) -> None:
        super().__init__(sock, masked=client, compression=compression)
        self._reader = self._reader_class(
            client=client, max_message=max_message, compression=compression, initial=initial
        )
        receive, buffer = self._io.recv_into, repeat(self._reader.buffer)
        self._reads = map(receive, buffer)
        self._poller: Poller | None = None
        if isinstance(self._io, DirectSocket) and (worthwhile() if poll is None else poll and possible()):
            self._poller = Poller(map(receive, buffer, repeat(0), repeat(self._io.now)))
        self._held: deque[bytes | bytearray | OpenEnvError] = deque()
        self._closing = False
        self.last_received = monotonic()

    def recv(
        self, deadline: float | None = None, silence: float | None = None, poll: bool = True
    ) -> bytes | bytearray:
        """Return the next binary message; pings are answered meanwhile.

        Args:
            deadline: When to give up, as a ``time.monotonic()`` value; the channel stays usable.
            silence: For how many seconds nothing at all may arrive while this call waits.
            poll: Whether a channel that tries before blocking does so for the beginning of a message.

        Raises:
            TimeoutError: The deadline has passed.
            ChannelSilence: Nothing arrived for ``silence`` seconds; the channel stays as it was.
            ChannelClosed: The connection has ended.
            MessageTooLargeError: A message is over the limit; it was dropped, the channel stays usable.
            RemoteProtocolError: The peer broke the rules; the channel is closed.
        """
        reader = self._reader
        try:
            if self._over is not None or self._held or reader.end or reader.arrived:
                event = self._waiting()
                if event is not None:
                    return event
            begun = 0.0 if silence is None else monotonic()
            while True:
                poller = self._poller if poll or reader.target is not reader.buffer else None
                if poller is None:
                    self._block(deadline, silence, begun)
                elif self._poll(poller) <= 0:
                    self._block(deadline, silence, begun)
                    poller.learn()
                self.last_received = monotonic()
                message = reader.next()
                if isinstance(message, Frame):
                    self._react(message)
                    message = self._next()
                if message is not None:
                    return message
                if deadline is not None and deadline <= self.last_received:
                    raise _late()
        except (RemoteProtocolError, LocalProtocolError) as exc:
            self._refuse(exc)
            raise
        except OSError as exc:
            if exc.errno is None:  # the deadline
                raise
            self._end(lost(exc))
            raise self._closed() from exc

    def be_patient(self) -> None:
        """Let receives bear with neighbours on the core for longer; see :class:`Poller`."""
        if self._poller is not None:
            self._poller.patient = True

    def attend(self) -> int:
        """Read what has arrived without waiting, answer pings, and keep messages for the next :meth:`recv`.

        For another thread while the owner is busy; it holds the lock that also guards sending.

        Returns:
            How many messages are kept, or -1 when the connection has ended (they can be received still).
        """
        reader = self._reader
        while not self.closed and len(self._held) < _HELD:
            if not self._sort():
                break
            reads = map(self._io.recv_into, (reader.target,), (0,), (self._io.now,))
            try:
                for reader.arrived in reads:
                    break
            except BlockingIOError:
                break
            except OSError as exc:
                self._end(lost(exc))
                break
            if not reader.arrived:
                if not self._stopped:
                    self._end(lost())
                break
            self.last_received = monotonic()
        return -1 if self.closed else len(self._held)

    def close(self, code: int = 1000, reason: str = "", timeout: float = 1.0) -> None:
        """Say goodbye, wait at most ``timeout`` seconds for the answer, and close the socket.

        Messages that arrive meanwhile are dropped. Never raises for what the peer or the network does. In a
        forked child nothing is said: the connection is its parent's.

        Raises:
            LocalProtocolError: The code may not be sent.
        """
        payload = close_payload(code, reason)
        if self._pid != os.getpid():
            self.abort()
        self._closing = True
        try:
            if self._control(CLOSE, payload):
                deadline = monotonic() + timeout
                while not self.closed and monotonic() < deadline:
                    self.recv(deadline)
        except (OpenEnvError, TimeoutError):
            pass  # however it ended, it has
        finally:
            self.abort()

    def detach(self) -> tuple[socket.socket, bytes]:
        """Give the socket away, blocking and without limits, with the bytes that arrived unread.

        Raises:
            LocalProtocolError: A message is half read, or kept by :meth:`attend`.
            ChannelClosed: The connection has ended.
        """
        if self._over is not None:
            raise self._closed()
        if self._held:
            raise LocalProtocolError("messages are waiting; receive them before giving the socket away")
        unread = self._reader.unread()
        self._io.restore()
        self._over = ChannelClosed("the channel's socket was given away", reason="detached")
        return self._sock, unread

    def _waiting(self) -> bytes | bytearray | None:
        """Return what was there before this receive, or raise what it was."""
        if self._held:
            item = self._held.popleft()
            if isinstance(item, OpenEnvError):
                raise item
            return item
        if self._over is not None:
            raise self._closed()
        return self._next()

    def _next(self) -> bytes | bytearray | None:
        while True:
            event = self._reader.next()
            if not isinstance(event, Frame):
                return event
            self._react(event)

    def _sort(self) -> bool:
        """Keep what has arrived: messages, and errors among them. Return whether the connection goes on."""
        while True:
            try:
                message = self._next()
            except MessageTooLargeError as exc:
                self._held.append(exc)
            except (RemoteProtocolError, LocalProtocolError) as exc:
                self._held.append(exc)
                self._refuse(exc)
                return False
            except ChannelClosed:
                return False
            else:
                if message is None:
                    return True
                self._held.append(message)

    def _react(self, event: Frame) -> None:
        if event.opcode == PING:
            self._control(PONG, event.payload)
        elif event.opcode == CLOSE:
            code, reason = parse_close(event.payload)
            if self._closing:
                self.abort()
            else:
                self._control(CLOSE, close_payload(1000 if code == 1005 else code))
                self._end(said_goodbye(code, reason))
            raise self._closed()
        elif event.opcode == TEXT:
            raise RemoteProtocolError(
                "a text message came where only binary ones are spoken; the connection is closed",
                close_code=1003,
            )

    def _poll(self, poller: Poller) -> int:
        """Receive without sleeping; return as :meth:`Poller.receive` does."""
        reader = self._reader
        if reader.target is reader.buffer:
            return poller.receive(reader)
        more = repeat(reader.target), repeat(0), repeat(self._io.now)
        return poller.follow(reader, map(self._io.recv_into, *more))

    def _block(self, deadline: float | None, silence: float | None, begun: float) -> None:
        """Wait until something arrives."""
        reader = self._reader
        receive = self._io.recv_into
        patience = self._patience(deadline, silence, begun)
        while True:
            self._io.limit_receive(patience)
            reads = self._reads if reader.target is reader.buffer else map(receive, (reader.target,))
            try:
                for reader.arrived in reads:
                    break
            except BlockingIOError:
                if patience is None or patience > 0:
                    # Who was kept from running meanwhile looks once more before giving up.
                    patience = self._patience(deadline, silence, begun)
                    continue
                if deadline is not None and deadline <= monotonic():
                    raise _late() from None
                raise ChannelSilence(
                    f"nothing arrived for {silence:g} s; the peer may be gone: connect again, or allow more"
                ) from None
            if not reader.arrived:
                if self._stopped:
                    raise ChannelClosed("this end stopped receiving", reason="stopped here")
                self._end(lost())
                raise self._closed()
            return

    def _patience(self, deadline: float | None, silence: float | None, begun: float) -> float | None:
        """Return for how many seconds to wait yet; ``None``: for ever."""
        if silence is not None:
            quiet = max(begun, self.last_received) + silence
            deadline = quiet if deadline is None else min(deadline, quiet)
        return None if deadline is None else deadline - monotonic()

    def _hear_out(self) -> None:
        self.attend()

    def _refuse(self, exc: OpenEnvError) -> None:
        """Tell the peer why, and end the connection."""
        self._control(CLOSE, close_payload(exc.details.get("close_code", 1011), exc.message))
        self._end(ChannelClosed(f"the connection was closed: {exc.message}", reason=exc.message))


def _late() -> TimeoutError:
    return TimeoutError("no message arrived before the deadline")
