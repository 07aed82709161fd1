"""What a blocking channel asks of its socket: limits on waiting, and calls that do not wait.

Two classes with the same members, over a connected stream socket: ``recv_into``, ``send``, ``sendmsg`` as
those of :class:`socket.socket`, but a call that would have to wait longer than allowed raises
``BlockingIOError``; ``now``, the value of ``flags`` with which a call does not wait at all; and
``refusable``, whether a send with that flag leaves the stream as it was when it gives up.
"""

from __future__ import annotations

import math
import socket
import struct
import sys

from ..errors import ConfigError

__all__ = ["DirectSocket", "PortableSocket", "room_for", "tune", "waiting_socket"]

_PROBES = 4
_UNKNOWN = -1.0
#: Seconds from which on down a wait is limited exactly.
_FINE = 0.002
_LONGEST = 1 << 20  # seconds; what the kernel's structures are sure to hold
_MOST_ROOM = 1 << 22
_COARSE = (1 << 16) - 1


class DirectSocket:
    """The kernel keeps the limits (``SO_RCVTIMEO``), so no call needs a ``poll`` before it."""

    __slots__ = ("_receive", "_send", "_sock", "now", "recv_into", "send", "sendmsg")
    refusable = True

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._receive: float | None = None
        self._send: float | None = None
        self.now = int(socket.MSG_DONTWAIT)
        self.recv_into = sock.recv_into
        self.send = sock.send
        self.sendmsg = sock.sendmsg

    def limit_receive(self, seconds: float | None) -> None:
        """Let a receive wait this long or somewhat shorter; ``None``: for ever.

        The kernel is told about half of it, and only when what it was told last is far from that: a
        deadline that moves on with every call then costs no call of the system.
        """
        told = self._receive
        if seconds is None:
            if told is None:
                return
        elif told is not None and told <= seconds <= 8 * told:
            return
        else:
            seconds = seconds / 2 if seconds > _FINE else max(seconds, 1e-6)
        self._receive = _UNKNOWN  # should an interrupt come before the last line
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(seconds))
        self._receive = seconds

    def limit_send(self, seconds: float | None) -> None:
        """Let a send wait this long without progress; ``None``: for ever."""
        if seconds != self._send:
            self._send = _UNKNOWN
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(seconds))
            self._send = seconds

    def restore(self) -> None:
        """Leave the socket as a plain blocking one."""
        self.limit_receive(None)
        self.limit_send(None)


class PortableSocket:
    """Python keeps the limits (``settimeout``); for TLS, and where the kernel cannot."""

    __slots__ = ("_receive", "_send", "_sock")
    refusable = False
    now = 1

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._receive: float | None = None
        self._send: float | None = None

    def recv_into(self, buffer: bytearray | memoryview, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into the whole of ``buffer``; ``flags`` not 0: do not wait."""
        self._sock.settimeout(0.0 if flags else self._receive)
        try:
            return self._sock.recv_into(buffer)
        except OSError as exc:
            raise _would_block(exc) from exc

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        """Send some of ``data``. It may wait whatever ``flags`` says: TLS cannot take back a record."""
        self._sock.settimeout(self._send)
        try:
            return self._sock.send(data)
        except OSError as exc:
            raise _would_block(exc) from exc

    def sendmsg(self, parts: list[bytes | bytearray | memoryview]) -> int:
        """Send some of ``parts``, which are one piece."""
        return self.send(b"".join(parts))

    def limit_receive(self, seconds: float | None) -> None:
        """Let a receive wait this long; ``None``: for ever."""
        self._receive = None if seconds is None else max(seconds, 1e-6)

    def limit_send(self, seconds: float | None) -> None:
        """Let a send wait this long; ``None``: for ever."""
        self._send = None if seconds is None else max(seconds, 1e-6)

    def restore(self) -> None:
        """Leave the socket as a plain blocking one."""
        self._sock.setblocking(True)


def waiting_socket(sock: socket.socket) -> DirectSocket | PortableSocket:
    """Return the faster of the two kinds that ``sock`` and this system allow."""
    plain = type(sock).recv_into is socket.socket.recv_into  # TLS has its own
    if sys.platform == "linux" and plain and hasattr(socket, "MSG_DONTWAIT"):
        return DirectSocket(sock)
    return PortableSocket(sock)


def tune(sock: socket.socket, keepalive: float | None) -> None:
    """Send small messages at once and notice a peer that has gone without a word.

    A peer that answers nothing for twice ``keepalive`` seconds counts as gone, whether data are on their
    way to it or not. Only TCP has this; other sockets are left alone, as are options the system lacks.

    Raises:
        ConfigError: ``keepalive`` is not a positive number of seconds or ``None`` (off).
    """
    if keepalive is not None and not 0 < keepalive < math.inf:
        raise ConfigError(f"keepalive must be a positive number of seconds or None (off), not {keepalive!r}")
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, keepalive is not None)
    span = 0.0 if keepalive is None else keepalive
    options = {"TCP_USER_TIMEOUT": min(int(2000 * span), 2**31 - 1)}
    if keepalive is not None:
        options["TCP_KEEPIDLE"] = min(max(1, round(span)), 32767)
        options["TCP_KEEPINTVL"] = min(max(1, round(span / _PROBES)), 32767)
        options["TCP_KEEPCNT"] = _PROBES
    for name, value in options.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def room_for(sock: socket.socket, size: int) -> int:
    """Let a message of ``size`` bytes wait in the socket, as far as the system allows; return that limit.

    So who sends it does not have to wait, piece by piece, for a receiver that is still reading another
    connection. TCP makes room by itself.
    """
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        return sys.maxsize
    size = min(size | _COARSE, _MOST_ROOM)
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * size:  # bookkeeping takes half of it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    return sys.maxsize if size == _MOST_ROOM else size


def _timeval(seconds: float | None) -> bytes:
    """Return the kernel's form of a limit; all zero means none, so the shortest is a microsecond."""
    if seconds is None:
        return struct.pack("@ll", 0, 0)
    micros = max(1, math.ceil(min(seconds, _LONGEST) * 1e6))
    return struct.pack("@ll", micros // 1_000_000, micros % 1_000_000)


def _would_block(exc: OSError) -> OSError:
    """Return ``exc``, or ``BlockingIOError`` if it means that the call would have to wait."""
    waits = isinstance(exc, TimeoutError) and exc.errno is None
    if waits or type(exc).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
        return BlockingIOError(*exc.args)
    return exc
