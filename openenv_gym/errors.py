"""Errors of openenv_gym, one tree.

::

    OpenEnvError
    ├── ConfigError (ValueError)             an option is wrong; raised before anything starts
    ├── ProtocolError
    │   ├── LocalProtocolError               this side broke the rules
    │   ├── RemoteProtocolError              the peer broke the rules
    │   ├── VersionMismatchError             the peer speaks another version
    │   └── MessageTooLargeError             a message exceeds a limit; the session lives
    ├── ValueNotCarriedError (ValueError)    a value has no form on the wire; the message names its path
    ├── InvalidActionError (ValueError)      an action is not in the action space; nothing was sent
    ├── ValidationError (ValueError)         a field is wrong; the message names it: ``$.arguments.message``
    ├── UnsupportedError                     the environment or the server has no such thing
    ├── ToolError                            a tool gave no result
    │   ├── ToolNotFoundError                ... because there is none of that name
    │   ├── ToolFailedError                  ... because it raised
    │   └── ToolTimeoutError                 ... within its time
    ├── RubricError                          a rubric gave no score
    │   └── JudgeError                       ... because the model it asks gave none
    ├── ServerConnectionError                no connection to a server
    │   └── ServerTimeoutError               the server did not answer in time
    ├── StartupError                         a server did not start
    │   └── StartupTimeoutError              ... within ``startup_timeout``
    ├── AuthenticationError                  the token is missing or wrong
    ├── ForbiddenError                       the server's settings do not allow this
    ├── CapacityError                        no free slot
    ├── EnvironmentMismatchError             the server hosts another environment than the id promises
    ├── RemoteEnvironmentError               the environment itself raised
    │   └── ConstructionError                ... in its constructor
    │       └── ArgumentError (TypeError)    ... which does not take these arguments
    ├── ResetNeededError                     call ``reset()`` first
    │   └── InterruptedStepError             the last step was interrupted; its result is unknown
    ├── SessionLostError                     the episode is gone; ``reset()`` starts a new one
    │   ├── WorkerCrashedError               ... because the worker process died
    │   ├── DeadlineExceededError            ... because a call overran its deadline
    │   └── ServerDrainingError              ... because the server shuts down
    ├── VectorEnvError                       some lanes of a vector environment failed
    ├── EnvClosedError                       the env was closed
    └── NotCopyableError                     a live env or client cannot be pickled or copied

``ArgumentError`` alone derives from :class:`TypeError`, which is what scripts that try an argument expect;
its ``details`` do not survive ``gym.make``, which raises such errors anew.
On the wire an error is its ``code``; the peer never resolves a class name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .error_codes import ErrorCode

__all__ = [
    "ArgumentError",
    "AuthenticationError",
    "CapacityError",
    "ConfigError",
    "ConstructionError",
    "DeadlineExceededError",
    "EnvClosedError",
    "EnvironmentMismatchError",
    "ErrorCode",
    "ForbiddenError",
    "InterruptedStepError",
    "InvalidActionError",
    "JudgeError",
    "LocalProtocolError",
    "MessageTooLargeError",
    "NotCopyableError",
    "OpenEnvError",
    "ProtocolError",
    "RemoteEnvironmentError",
    "RemoteProtocolError",
    "ResetNeededError",
    "RubricError",
    "ServerConnectionError",
    "ServerDrainingError",
    "ServerTimeoutError",
    "SessionLostError",
    "StartupError",
    "StartupTimeoutError",
    "ToolError",
    "ToolFailedError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "UnsupportedError",
    "ValidationError",
    "ValueNotCarriedError",
    "VectorEnvError",
    "VersionMismatchError",
    "WorkerCrashedError",
    "from_wire",
]


class OpenEnvError(Exception):
    """Base of every error of this package.

    Attributes:
        code: The error's name on the wire.
        message: What is wrong and what to do.
        details: Facts that go with it (``traceback``, ``exit_code``, ``log`` ...), wire values only.
        server: The server that reported it, or ``None``.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __init__(self, message: str, /, *, server: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.server = server

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.server, self.details), self.__dict__


def _rebuild(cls: type[OpenEnvError], message: str, server: str | None, details: Any) -> OpenEnvError:
    return cls(message, server=server, **details)


class ConfigError(OpenEnvError, ValueError):
    """An option is unknown or has an impossible value."""

    code = ErrorCode.CONFIG


class ProtocolError(OpenEnvError):
    """The rules of the wire were broken."""

    code = ErrorCode.PROTOCOL


class LocalProtocolError(ProtocolError):
    """This side broke the rules; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow."""


class VersionMismatchError(ProtocolError):
    """Client and server speak different versions of the protocol."""

    code = ErrorCode.VERSION


class MessageTooLargeError(ProtocolError):
    """A message exceeds the limit of one side. ``details``: ``size``, ``limit`` in bytes, ``option``."""

    code = ErrorCode.TOO_LARGE


class ValueNotCarriedError(OpenEnvError, ValueError):
    """A value has no form on the wire. ``details["path"]`` names it, as in ``obs['x'][2]``."""

    code = ErrorCode.NOT_CARRIED


class InvalidActionError(OpenEnvError, ValueError):
    """An action is not in the action space; nothing was sent."""

    code = ErrorCode.INVALID_ACTION


class ValidationError(OpenEnvError, ValueError):
    """A field of an action, of arguments or of a request is wrong. ``details["path"]`` names it."""

    code = ErrorCode.VALIDATION


class UnsupportedError(OpenEnvError):
    """The environment or the server has no such thing as was asked for."""

    code = ErrorCode.UNSUPPORTED


class ToolError(OpenEnvError):
    """A tool gave no result. ``details["tool"]`` names it."""

    code = ErrorCode.TOOL


class ToolNotFoundError(ToolError):
    """There is no tool of that name. ``details["tools"]`` lists those that there are."""

    code = ErrorCode.TOOL_NOT_FOUND


class ToolFailedError(ToolError):
    """The tool raised."""

    code = ErrorCode.TOOL_FAILED


class ToolTimeoutError(ToolError):
    """The tool did not return in time. ``details["timeout"]``: in seconds."""

    code = ErrorCode.TOOL_TIMEOUT


class RubricError(OpenEnvError):
    """A rubric gave no score that can be a reward. ``details["rubric"]`` names it."""

    code = ErrorCode.RUBRIC


class JudgeError(RubricError):
    """A model that judges gave no score. ``details``: ``attempts``, ``status``, ``answer``."""

    code = ErrorCode.JUDGE


class ServerConnectionError(OpenEnvError):
    """A server could not be reached, or the connection to it broke."""

    code = ErrorCode.CONNECTION


class ServerTimeoutError(ServerConnectionError):
    """A server did not answer in time."""

    code = ErrorCode.TIMEOUT


class StartupError(OpenEnvError):
    """A server did not start. ``details["log"]`` holds its last lines."""

    code = ErrorCode.STARTUP


class StartupTimeoutError(StartupError):
    """A server was not ready within ``startup_timeout``."""


class AuthenticationError(OpenEnvError):
    """The server wants a token and got none, or a wrong one."""

    code = ErrorCode.AUTHENTICATION


class ForbiddenError(OpenEnvError):
    """The server's settings do not allow this request."""

    code = ErrorCode.FORBIDDEN


class CapacityError(OpenEnvError):
    """The server has no free slot. ``details``: ``active`` and ``max`` sessions, ``option``."""

    code = ErrorCode.CAPACITY


class EnvironmentMismatchError(OpenEnvError):
    """The server hosts another environment than the id promises."""

    code = ErrorCode.MISMATCH


class RemoteEnvironmentError(OpenEnvError):
    """The environment raised. ``details``: ``type`` and ``traceback`` of the original exception."""

    code = ErrorCode.ENVIRONMENT


class ConstructionError(RemoteEnvironmentError):
    """The environment could not be built."""

    code = ErrorCode.CONSTRUCTION


class ArgumentError(ConstructionError, TypeError):
    """The environment's constructor does not take these arguments, or not this render mode."""

    code = ErrorCode.ARGUMENT


class ResetNeededError(OpenEnvError):
    """There is no episode; call ``reset()`` first."""

    code = ErrorCode.RESET_NEEDED


class InterruptedStepError(ResetNeededError):
    """The last step was interrupted, so its result is unknown; call ``reset()``."""

    code = ErrorCode.INTERRUPTED


class SessionLostError(OpenEnvError):
    """The episode is gone; ``reset()`` starts a new one on the same object."""

    code = ErrorCode.SESSION_LOST


class WorkerCrashedError(SessionLostError):
    """The worker process died. ``details``: ``exit_code``, ``signal``, ``log`` (its last lines)."""

    code = ErrorCode.WORKER_CRASHED


class DeadlineExceededError(SessionLostError):
    """A call overran its deadline. ``details``: ``operation``, ``deadline`` in seconds."""

    code = ErrorCode.DEADLINE


class ServerDrainingError(SessionLostError):
    """The server is shutting down."""

    code = ErrorCode.DRAINING


class VectorEnvError(OpenEnvError):
    """Some lanes of a vector environment failed; the others did not, and the environment stays open.

    ``reset(options={"reset_mask": error.mask})`` starts new episodes in the lanes that failed, in new
    sessions where theirs were lost.

    Attributes:
        errors: What happened, by lane.
        lanes: The lanes that failed, in order.
        mask: Bool array of shape ``(num_envs,)``, true for those lanes.
        partial: What the call would have returned; the lanes that failed have their last observation, reward
            0.0 and no flag in it. ``None`` where there is nothing to return.
        server, details: Those of the first lane that failed, such as ``exit_code``, ``signal``, ``log``.
    """

    code = ErrorCode.LANES

    def __init__(self, message: str, /, *, server: str | None = None, **details: Any) -> None:
        super().__init__(message, server=server, **details)
        self.errors: dict[int, OpenEnvError] = {}
        self.mask: Any = None
        self.partial: Any = None

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes that failed."""
        return tuple(sorted(self.errors))


class EnvClosedError(OpenEnvError):
    """The env was closed; make a new one."""

    code = ErrorCode.CLOSED


class NotCopyableError(OpenEnvError):
    """A live env or client cannot be pickled or copied; make a second one instead."""

    code = ErrorCode.NOT_COPYABLE


def _family(cls: type[OpenEnvError]) -> list[type[OpenEnvError]]:
    return [cls, *(each for child in cls.__subclasses__() for each in _family(child))]


_BY_CODE: dict[str, type[OpenEnvError]] = {cls.code: cls for cls in reversed(_family(OpenEnvError))}
_BY_CODE[ErrorCode.PROTOCOL] = RemoteProtocolError  # the other two are never reported


def from_wire(code: str, message: str, details: dict[str, Any], *, server: str | None = None) -> OpenEnvError:
    """Return the error a peer reported; a code of a newer peer becomes a plain :class:`OpenEnvError`."""
    cls = _BY_CODE.get(code, OpenEnvError)
    kept = {key: value for key, value in details.items() if key not in ("server", "message")}
    error = cls(message, server=server, **kept)
    if cls is OpenEnvError:
        error.details.setdefault("code", code)
    return error
