"""Where WebSocket frames begin and end in one direction of a TCP stream, for the faulty network."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

__all__ = ["CLOSE", "PING", "PONG", "FrameMeter", "Piece"]

CLOSE, PING, PONG = 8, 9, 10
_MAX_HEAD = 64 * 1024


class Piece(NamedTuple):
    """A part of the stream that lies within one frame.

    Attributes:
        data: The bytes.
        opcode: The frame's; ``None`` in the handshake and in a stream that holds no frames.
        start: Position of ``data`` within the frame.
        size: The frame's size in bytes, header included.
        number: Which data frame this is, from 1; 0: the handshake; a control frame has its predecessor's.
    """

    data: bytes
    opcode: int | None
    start: int
    size: int
    number: int

    @property
    def control(self) -> bool:
        """Whether this belongs to a ping, a pong or a close."""
        return self.opcode is not None and self.opcode >= CLOSE

    @property
    def last(self) -> bool:
        """Whether the frame ends with this piece."""
        return self.start + len(self.data) >= self.size


class FrameMeter:
    """Cuts one direction of a connection into pieces; keeps back only what it can't judge yet.

    Attributes:
        number: Data frames begun so far.
    """

    def __init__(self) -> None:
        self.number = 0
        self._head: bytes | None = b""
        self._rest = b""
        self._raw = False
        self._frame = (0, 0, 0)

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Return the pieces that ``data`` completes or continues."""
        if self._head is not None:
            data = yield from self._handshake(self._head + data)
        if self._raw:
            if data:
                yield Piece(data, None, 0, len(data), 0)
            return
        data, self._rest = self._rest + data, b""
        while data:
            opcode, start, size = self._frame
            if start == size:
                header = _header(data)
                if header is None:
                    self._rest = data
                    return
                (opcode, size), start = header, 0
                self.number += opcode < CLOSE
            part, data = data[: size - start], data[size - start :]
            self._frame = opcode, start + len(part), size
            yield Piece(part, opcode, start, size, self.number)

    def _handshake(self, data: bytes) -> Generator[Piece, None, bytes]:
        end = data.find(b"\r\n\r\n")
        if end < 0 and len(data) < _MAX_HEAD:
            self._head = data
            return b""
        self._head = None
        head = data[: end + 4] if end >= 0 else data
        response = head.startswith(b"HTTP/")
        self._raw = not (b" 101 " in head[:20] if response else b"websocket" in head.lower())
        yield Piece(head, None, 0, len(head), 0)
        return data[len(head) :]


def _header(data: bytes) -> tuple[int, int] | None:
    """Return opcode and whole size of the frame that begins ``data``; ``None``: more bytes are needed."""
    if len(data) < 2:
        return None
    short = data[1] & 0x7F
    extra = {126: 2, 127: 8}.get(short, 0)
    if len(data) < 2 + extra:
        return None
    length = int.from_bytes(data[2 : 2 + extra], "big") if extra else short
    return data[0] & 0x0F, 2 + extra + (4 if data[1] & 0x80 else 0) + length
