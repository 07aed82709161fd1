"""A channel of text messages, for peers that speak JSON. Everything else is as in :mod:`.channel`."""

from __future__ import annotations

from ..protocol.frames import TEXT, Frame, frame, wrong
from ..protocol.reader import FrameReader
from .channel import Channel

__all__ = ["TextChannel"]


class _TextReader(FrameReader):
    """Gives text messages as bytes; a binary one is an error."""

    __slots__ = ()

    def next(self) -> bytes | bytearray | Frame | None:
        return self._next()  # past the short way, which takes binary messages for granted

    def _deliver(self, first: int, data: bytes | bytearray, consumed: int) -> bytes | bytearray | Frame:
        event = super()._deliver(first, data, consumed)
        if not isinstance(event, Frame):
            raise wrong("a binary message came where only text is spoken", 1003)
        return event.payload if event.opcode == TEXT else event


class TextChannel(Channel):
    """A WebSocket connection that sends and receives text messages, given and returned as UTF-8 bytes.

    What is received may not be UTF-8; whoever decodes it will see.
    """

    __slots__ = ()

    _reader_class = _TextReader

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        """Send one text message. Errors as for :meth:`.Channel.send`."""
        if self._over is not None:
            raise self._closed()
        data = frame(TEXT, payload, masked=self._masked)
        try:
            self._finish([data], self._send(data))
        except BaseException as exc:
            self._sending_failed(exc)
