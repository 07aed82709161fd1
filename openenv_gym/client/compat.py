"""Errors of typed clients that are also what programs written for OpenEnv's clients catch.

Those raise ``RuntimeError`` for what the server reports, ``TimeoutError`` and ``ConnectionError``.
"""

from __future__ import annotations

from ..errors import (
    CapacityError,
    ConstructionError,
    DeadlineExceededError,
    OpenEnvError,
    RemoteEnvironmentError,
    ServerConnectionError,
    ServerTimeoutError,
    ToolError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)

__all__ = [
    "CallTimeoutError",
    "EnvironmentRaisedError",
    "NoAnswerError",
    "NoConnectionError",
    "NoResultError",
    "NoSlotError",
    "NoSuchToolError",
    "NotBuiltError",
    "ToolOverdueError",
    "ToolRaisedError",
    "WrongFieldError",
    "also_builtin",
]


class CallTimeoutError(DeadlineExceededError, TimeoutError):
    """A call took too long; the session is over."""


class NoAnswerError(ServerTimeoutError, TimeoutError):
    """The server did not answer in time."""


class NoConnectionError(ServerConnectionError, ConnectionError):
    """There is no connection to the server."""


class EnvironmentRaisedError(RemoteEnvironmentError, RuntimeError):
    """The environment raised."""


class NotBuiltError(ConstructionError, RuntimeError):
    """The environment could not be built."""


class NoSlotError(CapacityError, RuntimeError):
    """The server has no free slot."""


class WrongFieldError(ValidationError, RuntimeError):
    """A field of an action or an argument is wrong."""


class NoResultError(ToolError, RuntimeError):
    """A tool gave no result."""


class NoSuchToolError(ToolNotFoundError, RuntimeError):
    """There is no tool of that name."""


class ToolRaisedError(ToolFailedError, RuntimeError):
    """The tool raised."""


class ToolOverdueError(ToolTimeoutError, RuntimeError):
    """The tool did not return in time."""


_BOTH: dict[type[OpenEnvError], type[OpenEnvError]] = {
    DeadlineExceededError: CallTimeoutError,
    ServerTimeoutError: NoAnswerError,
    ServerConnectionError: NoConnectionError,
    RemoteEnvironmentError: EnvironmentRaisedError,
    ConstructionError: NotBuiltError,
    CapacityError: NoSlotError,
    ValidationError: WrongFieldError,
    ToolError: NoResultError,
    ToolNotFoundError: NoSuchToolError,
    ToolFailedError: ToolRaisedError,
    ToolTimeoutError: ToolOverdueError,
}


def also_builtin(error: OpenEnvError) -> OpenEnvError:
    """Return ``error``, or one that says the same and is also what OpenEnv's clients raise."""
    both = _BOTH.get(type(error))
    if both is None:
        if not isinstance(error, ServerConnectionError) or isinstance(error, OSError):
            return error
        both = NoAnswerError if isinstance(error, ServerTimeoutError) else NoConnectionError
    return both(error.message, server=error.server, **error.details)
