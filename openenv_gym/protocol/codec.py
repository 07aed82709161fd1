"""Messages to bytes and back, with one encoder and one decoder a direction."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import LocalProtocolError, RemoteProtocolError
from .messages import SUBPROTOCOL, Hello, Observation, Reply, Request, Resume, Transition
from .values import unpack_ext

__all__ = ["LARGE", "Greeting", "decode_first", "decode_reply", "decode_request", "encode", "encode_apart"]


class Greeting(Hello, tag="hello"):
    """A ``hello`` whose constructor arguments are left as they came.

    Maps and sets whose keys an adversary chose take long to read; a server leaves that to the session's own
    process.
    """

    env_kwargs: msgspec.Raw = msgspec.Raw(b"\xc0")


#: From this size on observations are not copied into their frame, and not out of one that is so large.
LARGE = 32768
_BYTES = (bytes, memoryview)


class _LargeTransition(Transition, tag="transition"):
    observations: memoryview | list[Any] | dict[Any, Any] | None


class _LargeObservation(Observation, tag="observation"):
    observations: memoryview | list[Any] | dict[Any, Any] | None = None


#: msgspec raises RecursionError, not DecodeError, on a body that is nested too deeply, and before 0.22
#: TypeError on a map whose key is no possible key.
_MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError)

_ENCODER = msgspec.msgpack.Encoder()
#: The name of the field, which follows the tag and the number of the request.
_OBSERVATIONS = _ENCODER.encode("observations")
_FIRST: msgspec.msgpack.Decoder[Greeting | Resume] = msgspec.msgpack.Decoder(Greeting | Resume)
_REQUEST: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request, ext_hook=unpack_ext)
_REPLY: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply, ext_hook=unpack_ext)
_LARGE_REPLY: msgspec.msgpack.Decoder[_LargeTransition | _LargeObservation] = msgspec.msgpack.Decoder(
    _LargeTransition | _LargeObservation, ext_hook=unpack_ext
)


def encode(message: Request | Reply) -> bytes:
    """Return the MessagePack form of ``message``; its free values are packed already.

    Raises:
        LocalProtocolError: A value was not packed (a fault of the caller, not of the user's data).
    """
    try:
        return _ENCODER.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise LocalProtocolError(f"a message cannot be encoded: {exc}") from exc


def encode_apart(reply: Reply) -> tuple[bytes, bytes | memoryview, bytes] | None:
    """Return what :func:`encode` returns in three pieces, of which large observations are the second.

    They are not copied. ``None``: there are none.

    Raises:
        LocalProtocolError: As for :func:`encode`.
    """
    column: Any = getattr(reply, "observations", None)
    if type(column) not in _BYTES or not LARGE <= len(column) < 1 << 32:
        return None
    size = len(column)
    head = b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")
    whole: Any = reply
    whole.observations = msgspec.Raw(head)
    try:
        frame = encode(reply)
    finally:
        whole.observations = column
    at = frame.index(_OBSERVATIONS + head) + len(_OBSERVATIONS + head)
    return frame[:at], column, frame[at:]


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

    Large observations are a view of the frame, where they are one column; they keep it from being freed.

    Raises:
        RemoteProtocolError: There is none.
    """
    try:
        return _REPLY.decode(frame) if len(frame) < LARGE else _decode_large(frame)
    except _MALFORMED as exc:
        raise _not_a_message(exc) from exc


def _decode_large(frame: bytes | bytearray | memoryview) -> Reply:
    try:
        found = _LARGE_REPLY.decode(frame)
    except _MALFORMED:  # another message, or one whose flaw is said there
        return _REPLY.decode(frame)
    kind = Transition if type(found) is _LargeTransition else Observation
    return kind(*msgspec.structs.astuple(found))


def _not_a_message(exc: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"not a message of {SUBPROTOCOL}: {exc}")
