"""Reads the WebSocket frames of one connection, without socket, clock or thread.

Strategy: received bytes go straight to where they are wanted. :attr:`FrameReader.target` is a small kept
buffer between messages, and the message itself, allocated once, while one is read that does not fit in it.
The usual case, one whole binary message in the buffer, is settled by a few comparisons.
"""

from __future__ import annotations

from ..errors import LocalProtocolError, OpenEnvError
from .bodies import Bodies
from .deflate import inflate
from .frames import BINARY, CLOSE, CONT, FIN, MASKED, PONG, RSV1, RSV23, TEXT, Frame, wrong
from .masking import apply_mask
from .session import too_large

__all__ = ["FrameReader"]

#: Size of the kept buffer. A server has many connections with short requests; what a client gets is short
#: too, or the results of many lanes, which then take one call of the system instead of two or more.
_KEPT = 4096
_KEPT_BY_CLIENT = 32768
#: A message is given this much memory at first, and more as it arrives: a header may lie.
_TRUSTED = 1 << 24

#: A frame was read and gave nothing yet: a fragment, or one that is dropped.
_CONSUMED = Frame(-1, b"")


class FrameReader:
    """Takes a connection's bytes and gives its messages.

    Put bytes into :attr:`target`, add their number to :attr:`arrived`, then call :meth:`next` until it
    returns ``None``; only then use :attr:`target` again.

    A message over the limit is refused when its header has arrived, before it is given memory: :meth:`next`
    raises once, drops the message as it comes in, and goes on with the one that follows.

    Args:
        client: Whether this end is the client; it takes unmasked frames only, a server masked ones only.
        max_message: Largest message in bytes; 0: no limit.
        compression: Whether permessage-deflate was negotiated, without context takeover on either side.
        initial: Bytes that arrived together with the handshake.

    Attributes:
        buffer: The kept buffer.
        target: Where the next bytes go: :attr:`buffer` itself when nothing is under way, else a view.
        arrived: How many bytes of ``target`` are new.
        end: Not 0 when the buffer holds bytes that :meth:`next` has not given out.
    """

    __slots__ = (
        "_bodies",
        "_body",
        "_calm",
        "_compression",
        "_filled",
        "_first",
        "_head",
        "_key",
        "_limit",
        "_masked",
        "_partial",
        "_size",
        "_skip",
        "_start",
        "_torn",
        "_view",
        "arrived",
        "buffer",
        "end",
        "target",
    )

    def __init__(
        self, *, client: bool, max_message: int = 0, compression: bool = False, initial: bytes = b""
    ) -> None:
        self.buffer = bytearray(max(_KEPT_BY_CLIENT if client else _KEPT, len(initial)))
        self.buffer[: len(initial)] = initial
        self._view = memoryview(self.buffer)
        # With a tiny limit no message takes the short way, which does not look at the limit.
        self._calm: bytearray | memoryview = self._view if 0 < max_message < 126 else self.buffer
        self.target: bytearray | memoryview = self._view[len(initial) :] if initial else self._calm
        self.arrived = 0
        self.end = len(initial)
        self._start = 0
        self._masked = not client
        self._limit = max_message
        self._compression = compression
        self._first = 0  # first byte of the fragmented message under way
        self._partial: bytearray | None = None  # its payload so far; None: it is being dropped
        self._bodies = Bodies()
        self._body: bytearray | None = None  # payload of the frame under way, when larger than the buffer
        self._head = 0  # its first byte, size, key, and how much of it is there
        self._size = 0
        self._key = b""
        self._filled = 0
        self._skip = 0  # bytes still to be dropped
        self._torn = False

    def next(self) -> bytes | bytearray | Frame | None:
        """Return the next binary message, or :class:`Frame` of another kind; ``None``: not all is there.

        Raises:
            MessageTooLargeError: A message is over the limit; it is dropped, the connection lives.
            RemoteProtocolError: The peer broke the rules (``details["close_code"]``), nothing can follow.
            LocalProtocolError: An earlier call was interrupted; the rest of the stream cannot be read.
        """
        buffer = self.buffer
        if self.target is buffer and buffer[0] == FIN | BINARY:
            end = self.arrived
            second = buffer[1]
            if self._masked:
                if second == end + 122 and 127 < second < 254:
                    message = apply_mask(buffer[6:end], buffer[2:6])
                    self.arrived = 0  # last: an interrupt before this line leaves everything as it was
                    return message
                if second == 254 and self._is_whole(end - 8):
                    message = apply_mask(buffer[8:end], buffer[4:8])
                    self.arrived = 0
                    return message
            elif second == end - 2 and second < 126:
                self.arrived = 0
                return buffer[2:end]
            elif second == 126 and self._is_whole(end - 4):
                self.arrived = 0
                return buffer[4:end]
        return self._next()

    def unread(self) -> bytes:
        """Return the bytes that arrived and belong to no message given out yet.

        Raises:
            LocalProtocolError: A message is half read.
        """
        if self._body is not None or self._first or self._skip:
            raise LocalProtocolError("a message is half read; take the connection over between messages")
        return bytes(self.buffer[self._start : self.end + self.arrived])

    def _is_whole(self, size: int) -> bool:
        """Return whether the frame in the buffer, of the middle kind, has just this size and is welcome."""
        written = self.buffer[2] << 8 | self.buffer[3]
        return 125 < written == size and (not self._limit or size <= self._limit)

    def _next(self) -> bytes | bytearray | Frame | None:
        if self._torn:
            raise LocalProtocolError("reading was interrupted in the middle of a frame; connect again")
        arrived, self.arrived = self.arrived, 0
        if self._body is None:
            self.end += arrived
        else:
            self._filled += arrived
        try:
            return self._parse()
        except OpenEnvError:
            self._settle()
            raise
        except BaseException:
            self._torn = True
            raise

    def _parse(self) -> bytes | bytearray | Frame | None:
        while True:
            if self._skip:
                self._drop()
            event = self._parse_head() if self._body is None else self._fill()
            if event is not _CONSUMED:
                if event is None or self._start == self.end:
                    self._settle()
                return event

    def _drop(self) -> None:
        dropped = min(self._skip, self.end - self._start)
        self._skip -= dropped
        self._start += dropped

    def _settle(self) -> None:
        """Point ``target`` at the place for what comes next."""
        if self._body is not None:
            self.target = memoryview(self._body)[self._filled :]
            return
        kept = self.end - self._start
        if kept and self._start:
            self.buffer[:kept] = self.buffer[self._start : self.end]
        self._start, self.end = 0, kept
        calm = not (kept or self._first or self._skip)
        self.target = self._calm if calm else self._view[kept:]

    def _parse_head(self) -> bytes | bytearray | Frame | None:
        buffer, start = self.buffer, self._start
        have = self.end - start
        if have < 2:
            return None
        first, size = buffer[start], buffer[start + 1]
        self._check(first, size)
        size &= 127
        at = 2
        if size > 125:
            at = 4 if size == 126 else 10
            if have < at:
                return None
            least = 126 if at == 4 else 65536
            size = int.from_bytes(buffer[start + 2 : start + at], "big")
            if size < least or size >> 63:
                raise wrong(f"a frame spells its size of {size} bytes in a form that is not allowed")
        if not first & CLOSE and not self._admit(first, size, at):
            return _CONSUMED
        payload = at + 4 if self._masked else at
        total = payload + size
        if have < total:
            if total > len(buffer) and have >= payload:
                self._begin(first, size, payload)
                return _CONSUMED
            return None
        data = buffer[start + payload : start + total]
        if self._masked:
            event = self._deliver(first, apply_mask(data, buffer[start + at : start + payload]), total)
        else:
            event = self._deliver(first, data, total)
        return event

    def _check(self, first: int, second: int) -> None:
        if (second >= MASKED) is not self._masked:
            rule = "masked" if self._masked else "unmasked"
            raise wrong(f"a frame is not {rule}, as this side requires")
        opcode = first & 15
        if first & RSV23 or (first & RSV1 and not (self._compression and opcode in (TEXT, BINARY))):
            raise wrong("a frame has reserved bits set that no extension explains")
        if opcode > BINARY and not CLOSE <= opcode <= PONG:
            raise wrong(f"a frame has the unknown opcode {opcode}")
        if opcode >= CLOSE:
            if first < FIN or second & 127 > 125:
                raise wrong("a control frame is fragmented or longer than 125 bytes")
        elif opcode == CONT and not self._first:
            raise wrong("a continuation frame continues nothing")
        elif opcode != CONT and self._first:
            raise wrong("a message begins before the one under way has ended")

    def _admit(self, first: int, size: int, at: int) -> bool:
        """Return whether a data frame is to be read; prepare for dropping it otherwise."""
        continued = first & 15 == CONT
        dropping = continued and self._partial is None
        total = size + (len(self._partial) if continued and self._partial is not None else 0)
        if not dropping and (not self._limit or total <= self._limit):
            return True
        self._start += at
        self._skip = size + (4 if self._masked else 0)
        self._partial = None
        self._first = 0 if first & FIN else first | BINARY
        if dropping:
            return False
        raise too_large(total, self._limit)

    def _begin(self, first: int, size: int, payload: int) -> None:
        """Give a frame that is larger than the buffer a place of its own."""
        there = self._start + payload
        body = self._bodies.take(size) if size <= _TRUSTED else bytearray(_TRUSTED)
        filled = self.end - there
        body[:filled] = self._view[there : self.end]
        self._key = bytes(self.buffer[there - 4 : there])
        self._head, self._size, self._filled, self._body = first, size, filled, body
        self._start = self.end = 0

    def _fill(self) -> bytes | bytearray | Frame | None:
        body = self._body
        assert body is not None
        if self._filled < len(body):
            return None
        missing = self._size - len(body)
        if missing:
            self.target = self._view  # lets go of ``body``, which could not grow otherwise
            body += bytes(min(missing, len(body)))
            return None
        self._body = None
        return self._deliver(self._head, apply_mask(body, self._key) if self._masked else body, 0)

    def _deliver(self, first: int, data: bytes | bytearray, consumed: int) -> bytes | bytearray | Frame:
        self._start += consumed
        opcode = first & 15
        if opcode >= CLOSE:
            return Frame(opcode, bytes(data))
        if opcode == CONT or first < FIN:
            if opcode != CONT:
                self._first, self._partial = first, bytearray()
            assert self._partial is not None
            self._partial += data
            if first < FIN:
                return _CONSUMED
            first, data = self._first, self._partial
            self._first, self._partial = 0, None
        if first & RSV1:
            data = inflate(data, self._limit)
        return data if first & 15 == BINARY else Frame(TEXT, bytes(data))
