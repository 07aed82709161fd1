"""The sending half of a channel, and its end.

An interrupt never leaves the stream in an unknown place: when nobody knows how much of a frame went out, the
connection ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import NoReturn

from ..protocol.deflate import deflate
from ..protocol.frames import (
    BINARY,
    FIN,
    PING,
    PONG,
    frame,
    header,
    masked_message,
    message_parts,
    plain_message,
)
from .endings import ChannelClosed, ChannelSilence, lost
from .sockets import room_for, waiting_socket

__all__ = ["Sender"]

#: From this size on a payload is not copied behind its header but sent from where it is.
_APART = 32768
#: Smaller messages are not worth compressing.
_WORTH_DEFLATING = 1024
_SEND_TIMEOUT = 30.0


class Sender:
    """Sends messages and control frames on a connected socket, and closes it once.

    Args:
        sock: The socket; it belongs to the sender from now on.
        masked: Whether this end is the client, whose frames are masked.
        compression: Whether messages that gain by it are compressed.
    """

    __slots__ = (
        "_compression",
        "_encode",
        "_io",
        "_masked",
        "_over",
        "_pid",
        "_room",
        "_send",
        "_send_timeout",
        "_sock",
        "_stopped",
    )

    def __init__(self, sock: socket.socket, *, masked: bool, compression: bool = False) -> None:
        self._sock = sock
        self._io = waiting_socket(sock)
        self._send = self._io.send
        self._masked = masked
        self._encode = masked_message if masked else plain_message
        self._compression = compression
        self._over: ChannelClosed | None = None
        self._stopped = False
        self._pid = os.getpid()
        self._room = 0
        self.send_timeout = _SEND_TIMEOUT

    @property
    def closed(self) -> bool:
        """Return whether the connection has ended; messages that arrived before may still be received."""
        return self._over is not None

    @property
    def send_timeout(self) -> float | None:
        """Return how many seconds a send may wait without progress; ``None``: for ever."""
        return self._send_timeout

    @send_timeout.setter
    def send_timeout(self, seconds: float | None) -> None:
        self._io.limit_send(seconds)
        self._send_timeout = seconds

    def fileno(self) -> int:
        """Return the socket's file descriptor, -1 when it is closed."""
        return self._sock.fileno()

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        """Send one binary message.

        Args:
            payload: The message; a memoryview must be one-dimensional, of bytes.

        Raises:
            ChannelClosed: The connection has ended; what arrived before can still be received.
            ChannelSilence: The peer took nothing for ``send_timeout`` seconds; the channel is closed.
        """
        if self._over is not None:
            raise self._closed()
        if len(payload) >= _APART or self._compression:
            self._send_large(payload)
            return
        data = self._encode(payload)
        try:
            sent = self._send(data)
            if sent != len(data):
                self._finish([data], sent)
        except BaseException as exc:
            self._sending_failed(exc)

    def send_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send one binary message that comes in pieces. Errors as for :meth:`send`."""
        if self._over is not None:
            raise self._closed()
        if self._masked or self._compression:
            self._send_large(b"".join(pieces))
        else:
            size = sum(map(len, pieces))
            self._send_parts([header(FIN | BINARY, size, False), *pieces], size)

    def ping(self, payload: bytes = b"") -> bool:
        """Send a ping; return whether it went out, which it does not when the peer takes nothing."""
        return self._control(PING, payload)

    def pong(self, payload: bytes = b"") -> bool:
        """Send a pong; return whether it went out, which it does not when the peer takes nothing."""
        return self._control(PONG, payload)

    def abort(self) -> None:
        """Close the socket at once."""
        self._end(ChannelClosed("the channel was closed at this end", close_code=1006, reason="closed here"))

    def shutdown(self) -> None:
        """End the connection, from any thread at any time; a receive that waits sees it end."""
        if self._over is None:
            self._shut()

    def stop_receiving(self) -> None:
        """Receive nothing more, from any thread at any time; a receive that waits raises ChannelClosed.

        What this end sends still goes out, so it can say goodbye; not over TLS, which ends with either half.
        """
        self._stopped = True
        if self._over is None:
            self._shut(socket.SHUT_RD)

    def _closed(self) -> ChannelClosed:
        """Return a new error, since one that is raised twice gathers the traces of both."""
        over = self._over
        assert over is not None
        return ChannelClosed(over.message, server=over.server, **over.details)

    def _send_large(self, payload: bytes | bytearray | memoryview) -> None:
        packed = payload
        if self._compression and len(payload) >= _WORTH_DEFLATING:
            packed = deflate(payload)
            if len(packed) >= len(payload):
                packed = payload
        parts = message_parts(packed, masked=self._masked, rsv1=packed is not payload)
        self._send_parts(parts, len(packed))

    def _send_parts(self, parts: list[bytes | bytearray | memoryview], size: int) -> None:
        """Send a header and what follows it, ``size`` bytes."""
        try:
            if size > self._room:
                self._room = room_for(self._sock, size)
            sent = self._io.sendmsg(parts)
            if sent != len(parts[0]) + size:
                self._finish(parts, sent)
        except BaseException as exc:
            self._sending_failed(exc)

    def _finish(self, parts: Sequence[bytes | bytearray | memoryview], sent: int) -> None:
        """Send what is left of ``parts`` after the first ``sent`` bytes."""
        for part in parts:
            rest = memoryview(part)[sent:]
            sent = max(0, sent - len(part))
            while rest:
                rest = rest[self._send(rest) :]

    def _sending_failed(self, exc: BaseException) -> NoReturn:
        """End the connection, since nobody knows how much of a frame went out."""
        if isinstance(exc, BlockingIOError):
            message = f"the peer took nothing for {self._send_timeout} s; the connection is closed"
            self._end(ChannelClosed(message, reason="send timeout"))
            raise ChannelSilence(message) from None
        if isinstance(exc, OSError):
            self._hear_out()
            self._end(lost(exc))
            raise self._closed() from exc
        self._end(ChannelClosed("sending was interrupted; connect again", reason="interrupted"))
        raise exc

    def _hear_out(self) -> None:
        """Read what the peer said before it went, if this end can read."""

    def _control(self, opcode: int, payload: bytes) -> bool:
        """Send a control frame, if that is possible at once: a peer that takes nothing needs none."""
        data = frame(opcode, payload, masked=self._masked)
        if self._over is not None:
            return False
        sent = 0
        try:
            sent = self._send(data, self._io.now)
            if sent != len(data):
                self._finish([data], sent)
        except BlockingIOError as exc:
            if sent or not self._io.refusable:
                self._end(lost(exc))
            return False
        except OSError:
            return False  # the next receive says why
        except BaseException as exc:
            self._sending_failed(exc)
        return True

    def _end(self, why: ChannelClosed) -> None:
        if self._over is None:
            self._over = why
            if self._pid == os.getpid():  # a forked child lets go without ending its parent's connection
                self._shut()
            self._sock.close()

    def _shut(self, how: int = socket.SHUT_RDWR) -> None:
        try:
            # TLS's own method would forget the keys, and what is sent later would go out in the clear.
            socket.socket.shutdown(self._sock, how)
        except OSError:
            pass  # it has ended already
