"""One end of a conversation, without socket, clock or thread."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..errors import LocalProtocolError, MessageTooLargeError, RemoteProtocolError
from .codec import decode_reply, decode_request, encode, encode_apart
from .messages import Error, Hello, Reply, Request, Welcome
from .states import ANSWERS, TRANSITIONS, Phase

__all__ = ["Session", "Side", "too_large"]


class Side(Enum):
    """Which end of the conversation this is."""

    CLIENT = "client"
    SERVER = "server"


# Bound here because access through an Enum class runs Python code, once or more for every message.
_BUSY, _IDLE, _CLIENT = Phase.BUSY, Phase.IDLE, Side.CLIENT


class Session:
    """One end of a conversation.

    Give every message that is to be sent to :meth:`send` and every frame that arrived to :meth:`receive`.
    At most one request is outstanding. Request ids count up from 1; a reply to an older id is late: it
    belongs to a request that was abandoned, and is dropped.

    Args:
        side: Which end this is.
        max_message: Largest frame this side accepts, in bytes; 0: no limit.

    Attributes:
        phase: Where the conversation stands.
        last_id: Id of the newest request.
        pending: The outstanding request, or ``None``.
        peer_max_message: Largest frame the peer accepts, in bytes; 0: no limit.
    """

    __slots__ = ("_decode", "_ours", "last_id", "max_message", "peer_max_message", "pending", "phase", "side")

    def __init__(self, side: Side, max_message: int = 0) -> None:
        self.side = side
        self.max_message = max_message
        self.peer_max_message = 0
        self.phase = Phase.NEW
        self.last_id = 0
        self.pending: Any = None
        self._ours: frozenset[type] = _REQUESTS if side is _CLIENT else _REPLIES
        self._decode = decode_reply if side is _CLIENT else decode_request

    def next_id(self) -> int:
        """Return the id for the next request."""
        return self.last_id + 1

    def send(self, message: Request | Reply) -> bytes:
        """Return the frame for ``message``.

        Raises:
            LocalProtocolError: The message may not be sent now.
            MessageTooLargeError: The peer would refuse the frame. Nothing has changed; the session lives.
        """
        kind = type(message)
        if kind not in self._ours:
            raise LocalProtocolError(f"a {self.side.value} does not send {_name(message)}")
        frame = encode(message)  # first: a failed encoding must not move the phase
        limit = self.peer_max_message
        if limit and len(frame) > limit:
            raise too_large(len(frame), limit)
        self._advance(message, kind, LocalProtocolError)
        return frame

    def answer(self, reply: Reply) -> bytes | tuple[bytes | memoryview, ...]:
        """As :meth:`send`; a reply with large observations comes in pieces, which are not copied."""
        pieces = encode_apart(reply)
        if pieces is None:
            return self.send(reply)
        size, limit = sum(map(len, pieces)), self.peer_max_message
        if limit and size > limit:
            raise too_large(size, limit)
        self._advance(reply, type(reply), LocalProtocolError)
        return pieces

    def receive(self, frame: bytes | bytearray | memoryview) -> Any:
        """Return the message in ``frame``, or ``None`` for a late reply.

        Raises:
            RemoteProtocolError: The frame holds no message, or one that may not come now.
        """
        message = self._decode(frame)
        if self.side is _CLIENT:
            answered = getattr(message, "id", 0)
            if 0 < answered <= self.last_id and (self.pending is None or answered != self.last_id):
                return None
        self._advance(message, type(message), RemoteProtocolError)
        return message

    def abandon(self) -> None:
        """Give up waiting for the outstanding request; its reply will be dropped when it comes."""
        self.pending = None
        if self.phase is _BUSY:
            self.phase = _IDLE

    def disconnect(self) -> None:
        """Note that the connection is gone; the session may be resumed on a new one."""
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.NEW

    def close(self) -> None:
        """Note that the session has ended."""
        self.phase = Phase.CLOSED
        self.pending = None

    def repeat(self) -> bytes | None:
        """Return the frame of the outstanding request once more, to be sent after ``resumed``."""
        if self.pending is None or self.phase is not _IDLE:
            return None
        self.phase = _BUSY
        return encode(self.pending)

    def _advance(self, message: Any, kind: type, blame: _Blame) -> None:
        """Move to the next phase: the only place that reads the table."""
        phase = TRANSITIONS[self.phase].get(kind)
        if phase is None:
            raise blame(f"{_name(message)} may not come in phase {self.phase.name.lower()}")
        if phase is _BUSY:
            if message.id != self.last_id + 1:
                self._check_repeat(message, blame)
            self.last_id = message.id
            self.pending = message
        elif self.phase is _BUSY:
            if message.id != self.last_id or kind is not ANSWERS[type(self.pending)]:
                self._check_answer(message, kind, blame)
            self.pending = None
        elif self.side is _LEARNS.get(kind):
            self.peer_max_message = message.limits.message
        if kind is Error and not message.alive:
            phase = Phase.CLOSED
        self.phase = phase

    def _check_repeat(self, message: Any, blame: _Blame) -> None:
        """Check a request that is not the next one.

        A server also takes the newest id again (a repeat after a resume) and later ones (the client gave up
        a request that never arrived).
        """
        if self.side is _CLIENT or message.id < max(self.last_id, 1):
            raise blame(f"{_name(message)} has id {message.id}; {self.last_id + 1} was due")

    def _check_answer(self, message: Any, kind: type, blame: _Blame) -> None:
        """Check a reply that is not simply the one that is due."""
        if kind is not Error and kind is not ANSWERS[type(self.pending)]:
            raise blame(f"{_name(message)} does not answer {_name(self.pending)}")
        if message.id != self.last_id and not (kind is Error and message.id == 0):
            raise blame(f"{_name(message)} answers request {message.id}; {self.last_id} is outstanding")


def too_large(size: int, limit: int) -> MessageTooLargeError:
    """Return the error for a message of ``size`` bytes where ``limit`` are allowed."""
    return MessageTooLargeError(
        f"a message of {size} bytes exceeds the limit of {limit} bytes; raise it with --max-message-size"
        " at the server and OPENENV_MAX_MESSAGE_SIZE at the client",
        size=size,
        limit=limit,
        option="max_message_size",
    )


def _name(message: Any) -> str:
    return f"'{type(message).__struct_config__.tag}'"


_Blame = type[LocalProtocolError] | type[RemoteProtocolError]
#: Who learns the peer's limits from which message.
_LEARNS: dict[type, Side] = {Hello: Side.SERVER, Welcome: Side.CLIENT}
_REQUESTS = frozenset(ANSWERS)
_REPLIES = frozenset(ANSWERS.values()) | {Error}
