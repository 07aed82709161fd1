"""What parent, template and workers say to each other: MessagePack over Unix sockets, with descriptors.

A stream socket keeps the order of bytes and descriptors, and a read ends with the first bytes that
descriptors came with: so each message that has some finds its own. A receiver that may open no more of them
gets fewer or none; the message is given out all the same, with :data:`LOST` in their place.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from openenv_gym.protocol.messages import Error

__all__ = [
    "LOST",
    "Attach",
    "Attached",
    "ControlSocket",
    "Describe",
    "Described",
    "Detached",
    "Drain",
    "End",
    "Ended",
    "Exited",
    "Fork",
    "Forked",
    "Measured",
    "Message",
    "Open",
    "Opened",
    "Setup",
    "Warm",
]


class Open(msgspec.Struct, tag=True):
    """Parent to worker, with the client's socket: open a session.

    ``place`` is its cell on the board, ``unread`` what arrived after ``hello``; ``local`` says that only this
    machine can reach the server, ``deflate`` that compression was negotiated, ``slow`` whether lanes of this
    kind were found to be slow (nil: nobody tried).
    """

    session: str
    place: int
    hello: bytes
    unread: bytes
    local: bool
    deflate: bool = False
    slow: bool | None = None


class Attach(msgspec.Struct, tag=True):
    """Parent to worker, with a new socket: the client resumes its session."""

    session: str
    unread: bytes
    deflate: bool = False


class End(msgspec.Struct, tag=True):
    """Parent to worker: end a session and close its environment.

    ``now``: tell the client at once, even while a call runs.
    """

    session: str
    code: str
    message: str
    details: dict[str, Any] = {}
    now: bool = False


class Describe(msgspec.Struct, tag=True):
    """Parent to worker: build an environment, say what it is, close it."""

    place: int


class Drain(msgspec.Struct, tag=True):
    """Parent to worker: finish what runs, ``within`` so many seconds, then leave."""

    within: float


class Opened(msgspec.Struct, tag=True):
    """Worker to parent: the environment is built; ``facts``: a description of it, if it was the first."""

    session: str
    facts: Any


class Detached(msgspec.Struct, tag=True):
    """Worker to parent: the session lost its connection and waits to be resumed."""

    session: str


class Attached(msgspec.Struct, tag=True):
    """Worker to parent: the session was resumed."""

    session: str


class Measured(msgspec.Struct, tag=True):
    """Worker to parent: the lanes of the session, and others of their kind, are slow or not."""

    session: str
    slow: bool


class Ended(msgspec.Struct, tag=True):
    """Worker to parent: the session is over, its environment closed; ``error``: what its client was told."""

    session: str
    error: Error | None = None


class Described(msgspec.Struct, tag=True):
    """Worker to parent: answer to :class:`Describe`."""

    place: int
    facts: Any
    error: str | None = None


class Setup(msgspec.Struct, tag=True):
    """Parent to template or spawned worker, first of all: what is served, and how."""

    target: str
    settings: dict[str, Any]


class Fork(msgspec.Struct, tag=True):
    """Parent to template, with control socket, board and log pipe: start a worker."""

    worker: int


class Forked(msgspec.Struct, tag=True):
    """Template to parent: the worker runs as ``pid``."""

    worker: int
    pid: int


class Exited(msgspec.Struct, tag=True):
    """Template to parent: a worker ended; ``status`` as ``os.waitpid`` gives it."""

    worker: int
    status: int


class Warm(msgspec.Struct, tag=True):
    """Template to parent: the environment's module is imported (``error``: if not, why, or the traceback).

    ``exclusive``: a process can have one such environment only.
    """

    error: str | None = None
    exclusive: bool = False


Message = (
    Open
    | Attach
    | End
    | Describe
    | Drain
    | Opened
    | Detached
    | Attached
    | Measured
    | Ended
    | Described
    | Setup
    | Fork
    | Forked
    | Exited
    | Warm
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_HEAD = struct.Struct("<IB")
_MAX_FDS = 4
LOST = -1
"""Stands for a descriptor that was sent and could not be received."""


class ControlSocket:
    """One end of a control connection; blocking and non-blocking use share the parsing.

    Args:
        sock: A connected Unix stream socket; owned from here on.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._received = bytearray()
        self._fds: deque[list[int]] = deque()  # those of one message each
        self._unsent: deque[tuple[memoryview, tuple[int, ...]]] = deque()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.sock.fileno()

    def close(self) -> None:
        """Close the socket and every descriptor that nobody took."""
        self.sock.close()
        for fds in (*self._fds, *(fds for _, fds in self._unsent)):
            for fd in fds:
                _close(fd)
        self._fds.clear()
        self._unsent.clear()

    # -- sending: descriptors given to post() are closed here once they are sent

    def post(self, message: Message, fds: Sequence[int] = ()) -> bool:
        """Queue ``message`` and send what fits; return whether everything is sent.

        The descriptors belong to this object from now on.
        """
        body = _ENCODER.encode(message)
        self._unsent.append((memoryview(_HEAD.pack(len(body), len(fds)) + body), tuple(fds)))
        return self.flush()

    def flush(self) -> bool:
        """Send queued messages; return whether the queue is empty. Raises OSError when the peer is gone."""
        while self._unsent:
            data, fds = self._unsent[0]
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                sent = self.sock.sendmsg([data], ancillary)
            except BlockingIOError:
                return False
            for fd in fds:  # they went with the first byte
                _close(fd)
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], ())
        return True

    # -- receiving

    def fill(self) -> bool:
        """Read once; return False at the end of the stream. May raise BlockingIOError."""
        data, ancillary, flags, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4 * _MAX_FDS))
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if fds or flags & socket.MSG_CTRUNC:
            self._fds.append(fds.tolist())
        self._received += data
        return bool(data)

    def take(self) -> tuple[Message, list[int]] | None:
        """Return the next complete message and its descriptors (some :data:`LOST`), or None."""
        if len(self._received) < _HEAD.size:
            return None
        length, count = _HEAD.unpack_from(self._received)
        end = _HEAD.size + length
        if len(self._received) < end or (count and not self._fds):
            return None
        body = bytes(self._received[_HEAD.size : end])
        del self._received[:end]
        fds = self._fds.popleft() if count else []
        return _DECODER.decode(body), fds + [LOST] * (count - len(fds))

    def receive(self) -> tuple[Message, list[int]] | None:
        """Wait for the next message; None at the end of the stream."""
        while (item := self.take()) is None:
            try:
                if not self.fill():
                    return None
            except InterruptedError:  # a signal handler ran
                continue
            except ConnectionError:
                return None
        return item


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
