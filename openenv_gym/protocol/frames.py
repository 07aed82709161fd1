"""WebSocket frames (RFC 6455): their parts, and how they are written; :mod:`.reader` reads them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..errors import LocalProtocolError, RemoteProtocolError
from .masking import apply_mask, masking_key

__all__ = [
    "BINARY",
    "CLOSE",
    "CONT",
    "FIN",
    "MASKED",
    "PING",
    "PONG",
    "RSV1",
    "RSV23",
    "TEXT",
    "Frame",
    "close_payload",
    "frame",
    "header",
    "masked_message",
    "message_parts",
    "parse_close",
    "plain_message",
    "wrong",
]

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, RSV1, RSV23, MASKED = 0x80, 0x40, 0x30, 0x80

_PLAIN = tuple(bytes((FIN | BINARY, size)) for size in range(126))
_SHORT = tuple(bytes((FIN | BINARY, MASKED | size)) for size in range(126))


class Frame(NamedTuple):
    """Whatever is not a binary message: a control frame, or a whole text message (not decoded)."""

    opcode: int
    payload: bytes


def header(first: int, size: int, masked: bool) -> bytes:
    """Return the header of a frame up to the masking key; ``first`` is its first byte."""
    mask = MASKED if masked else 0
    if size < 126:
        return bytes((first, mask | size))
    if size < 65536:
        return struct.pack(">BBH", first, mask | 126, size)
    return struct.pack(">BBQ", first, mask | 127, size)


def frame(
    opcode: int,
    payload: bytes | bytearray | memoryview = b"",
    *,
    masked: bool,
    fin: bool = True,
    rsv1: bool = False,
) -> bytes:
    """Return one frame. A client's frames are masked, a server's are not.

    Raises:
        LocalProtocolError: A control frame with more than 125 bytes, or in fragments.
    """
    if opcode >= CLOSE and (len(payload) > 125 or not fin):
        raise LocalProtocolError(f"a control frame is whole and has at most 125 bytes, not {len(payload)}")
    first = (FIN if fin else 0) | (RSV1 if rsv1 else 0) | opcode
    if not masked:
        return header(first, len(payload), False) + payload
    key = masking_key()
    return header(first, len(payload), True) + key + apply_mask(payload, key)


def plain_message(payload: bytes | bytearray | memoryview) -> bytes:
    """Return the frame of a server's binary message."""
    size = len(payload)
    if size < 126:
        return _PLAIN[size] + payload
    return header(FIN | BINARY, size, False) + payload


def masked_message(payload: bytes | bytearray | memoryview) -> bytes:
    """Return the frame of a client's binary message."""
    size = len(payload)
    head = _SHORT[size] if size < 126 else header(FIN | BINARY, size, True)
    key = masking_key()
    return head + key + apply_mask(payload, key)


def message_parts(
    payload: bytes | bytearray | memoryview, *, masked: bool, rsv1: bool = False
) -> list[bytes | bytearray | memoryview]:
    """Return the frame of a binary message in two pieces, the payload not copied unless it is masked."""
    head = header(FIN | BINARY | (RSV1 if rsv1 else 0), len(payload), masked)
    if not masked:
        return [head, payload]
    key = masking_key()
    return [head + key, apply_mask(payload, key)]


def close_payload(code: int = 1000, reason: str = "") -> bytes:
    """Return the payload of a close frame; a reason that is too long is cut at a character.

    Raises:
        LocalProtocolError: The code may not be sent.
    """
    if not _may_be_sent(code):
        raise LocalProtocolError(f"close code {code} may not be sent; take 1000 or one of 3000 to 4999")
    text = reason.encode("utf-8", "replace")[:123].decode("utf-8", "ignore")
    return code.to_bytes(2, "big") + text.encode()


def parse_close(payload: bytes) -> tuple[int, str]:
    """Return code and reason of a close frame; code 1005 when it has none.

    Raises:
        RemoteProtocolError: The payload is malformed.
    """
    if not payload:
        return 1005, ""
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or not _may_be_sent(code):
        raise wrong("a close frame has no valid code")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError as exc:
        raise wrong("the reason in a close frame is not UTF-8", 1007) from exc


def _may_be_sent(code: int) -> bool:
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999


def wrong(what: str, close_code: int = 1002) -> RemoteProtocolError:
    """Return the error for a peer that broke the rules; ``close_code`` is what to close with."""
    return RemoteProtocolError(f"{what}; the connection is closed", close_code=close_code)
