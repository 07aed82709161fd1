"""Messages to bytes and back, with one encoder and one decoder a direction."""

from __future__ import annotations

import msgspec

from ..errors import LocalProtocolError, RemoteProtocolError
from .messages import SUBPROTOCOL, Hello, Reply, Request, Resume
from .values import unpack_ext

__all__ = ["Greeting", "decode_first", "decode_reply", "decode_request", "encode"]


class Greeting(Hello, tag="hello"):
    """A ``hello`` whose constructor arguments are left as they came.

    Maps and sets whose keys an adversary chose take long to read; a server leaves that to the session's own
    process.
    """

    env_kwargs: msgspec.Raw = msgspec.Raw(b"\xc0")


#: msgspec raises RecursionError, not DecodeError, on a body that is nested too deeply, and before 0.22
#: TypeError on a map whose key is no possible key.
_MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError)

_ENCODER = msgspec.msgpack.Encoder()
_FIRST: msgspec.msgpack.Decoder[Greeting | Resume] = msgspec.msgpack.Decoder(Greeting | Resume)
_REQUEST: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request, ext_hook=unpack_ext)
_REPLY: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply, ext_hook=unpack_ext)


def encode(message: Request | Reply) -> bytes:
    """Return the MessagePack form of ``message``; its free values are packed already.

    Raises:
        LocalProtocolError: A value was not packed (a fault of the caller, not of the user's data).
    """
    try:
        return _ENCODER.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise LocalProtocolError(f"a message cannot be encoded: {exc}") from exc


def decode_first(frame: bytes | bytearray | memoryview) -> Greeting | Resume:
    """Return the message in ``frame`` that begins a connection.

    Raises:
        RemoteProtocolError: There is none.
    """
    try:
        return _FIRST.decode(frame)
    except _MALFORMED as exc:
        raise RemoteProtocolError(f"a connection begins with 'hello' or 'resume': {exc}") from exc


def decode_request(frame: bytes | bytearray | memoryview) -> Request:
    """Return the request in ``frame``.

    Raises:
        RemoteProtocolError: There is none.
    """
    try:
        return _REQUEST.decode(frame)
    except _MALFORMED as exc:
        raise _not_a_message(exc) from exc


def decode_reply(frame: bytes | bytearray | memoryview) -> Reply:
    """Return the reply in ``frame``.

    Raises:
        RemoteProtocolError: There is none.
    """
    try:
        return _REPLY.decode(frame)
    except _MALFORMED as exc:
        raise _not_a_message(exc) from exc


def _not_a_message(exc: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"not a message of {SUBPROTOCOL}: {exc}")
