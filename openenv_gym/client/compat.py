"""Errors of typed clients that are also what programs written for OpenEnv's clients catch."""

from __future__ import annotations

from ..errors import DeadlineExceededError, OpenEnvError, ServerConnectionError, ServerTimeoutError

__all__ = ["CallTimeoutError", "NoAnswerError", "NoConnectionError", "also_builtin"]


class CallTimeoutError(DeadlineExceededError, TimeoutError):
    """A call took too long; the session is over. Also a :class:`TimeoutError`."""


class NoConnectionError(ServerConnectionError, ConnectionError):
    """No connection to a server. Also a :class:`ConnectionError`."""


class NoAnswerError(ServerTimeoutError, TimeoutError):
    """The server did not answer in time. Also a :class:`TimeoutError`."""


_KINDS: tuple[tuple[type[OpenEnvError], type[OpenEnvError]], ...] = (
    (DeadlineExceededError, CallTimeoutError),
    (ServerTimeoutError, NoAnswerError),
    (ServerConnectionError, NoConnectionError),
)


def also_builtin(error: OpenEnvError) -> OpenEnvError:
    """Return ``error``, or one that says the same and is also a ``TimeoutError`` or ``ConnectionError``."""
    for kind, both in _KINDS:
        if isinstance(error, kind) and not isinstance(error, OSError):
            return both(error.message, server=error.server, **error.details)
    return error
