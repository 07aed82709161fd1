"""The conversation as data: which message may follow which.

Both sides advance through the same table, so it does not matter whether a message was sent or received.
Whether a message may go in a direction at all is decided by its class (request or reply).
"""

from __future__ import annotations

from enum import Enum, auto

from .messages import (
    Ask,
    Call,
    Close,
    Closed,
    Error,
    Frames,
    Get,
    Hello,
    Observation,
    Render,
    Reset,
    Resume,
    Resumed,
    Set,
    Step,
    Transition,
    Value,
    Welcome,
)
from .messages import State as GetState

__all__ = ["ANSWERS", "TRANSITIONS", "Phase"]


class Phase(Enum):
    """Where a conversation stands."""

    NEW = auto()
    """A connection without a session."""
    OPENING = auto()
    """``hello`` is on its way."""
    RESUMING = auto()
    """``resume`` is on its way."""
    IDLE = auto()
    """A session; no request is outstanding."""
    BUSY = auto()
    """One request is outstanding."""
    CLOSED = auto()
    """Nothing may follow."""

    # Enum's own hash runs in Python, and every message looks its phase up.
    __hash__ = object.__hash__


#: The reply that each request asks for; ``error`` answers every one of them.
ANSWERS: dict[type, type] = {
    Hello: Welcome,
    Resume: Resumed,
    Reset: Observation,
    Step: Transition,
    Render: Frames,
    Get: Value,
    Set: Value,
    Call: Value,
    GetState: Value,
    Ask: Value,
    Close: Closed,
}

_REQUESTS: dict[type, Phase] = {
    cls: Phase.BUSY for cls in (Reset, Step, Render, Get, Set, Call, GetState, Ask, Close)
}
_REPLIES: dict[type, Phase] = {cls: Phase.IDLE for cls in (Observation, Transition, Frames, Value)}

#: ``{phase: {message: next phase}}``. An ``error`` with ``alive`` false leads to CLOSED from every phase.
#: A lost ``welcome`` is repeated in answer to ``resume``.
TRANSITIONS: dict[Phase, dict[type, Phase]] = {
    Phase.NEW: {Hello: Phase.OPENING, Resume: Phase.RESUMING},
    Phase.OPENING: {Welcome: Phase.IDLE, Error: Phase.CLOSED},
    Phase.RESUMING: {Resumed: Phase.IDLE, Welcome: Phase.IDLE, Error: Phase.CLOSED},
    Phase.IDLE: {**_REQUESTS, Error: Phase.IDLE},
    Phase.BUSY: {**_REPLIES, Closed: Phase.CLOSED, Error: Phase.IDLE},
    Phase.CLOSED: {},
}
