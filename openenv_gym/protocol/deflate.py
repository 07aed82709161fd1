"""permessage-deflate (RFC 7692) without context takeover: every message is compressed by itself."""

from __future__ import annotations

import zlib

from ..errors import MessageTooLargeError, RemoteProtocolError

__all__ = ["deflate", "inflate"]

_TAIL = b"\x00\x00\xff\xff"  # the sender cuts it off
_LAST = b"\x01\x00\x00\xff\xff"  # an empty last block: only a whole stream reaches its end
_LEVEL = 1


def deflate(payload: bytes | bytearray | memoryview) -> bytes:
    """Return the compressed form of a message."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[: -len(_TAIL)]


def inflate(payload: bytes | bytearray, limit: int = 0) -> bytes:
    """Return the message whose compressed form is ``payload``.

    Never takes more than ``limit`` bytes and a few kilobytes; 0: no limit.

    Raises:
        MessageTooLargeError: The message is larger than ``limit``.
        RemoteProtocolError: ``payload`` is not the compressed form of a message.
    """
    packed = bytes(payload) + _TAIL + _LAST
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        message = unpacker.decompress(packed, limit + 1 if limit else 0)
    except zlib.error as exc:
        raise _broken() from exc
    if limit and len(message) > limit:
        raise MessageTooLargeError(
            f"a compressed message holds more than the {limit} bytes allowed; raise the limit with"
            " --max-message-size at the server and OPENENV_MAX_MESSAGE_SIZE at the client",
            size=len(message),
            limit=limit,
            option="max_message_size",
        )
    # A sender may end with a last block of its own; then what was appended here is left over, after
    # the one zero byte that section 7.2.3.4 adds.
    if not unpacker.eof or unpacker.unused_data not in (b"", _TAIL + _LAST, b"\x00" + _TAIL + _LAST):
        raise _broken()
    return message


def _broken() -> RemoteProtocolError:
    return RemoteProtocolError(
        "a compressed message cannot be inflated; the connection is closed", close_code=1007
    )
