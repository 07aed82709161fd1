"""What errors are called where classes are not known: on the wire, in infos, in JSON."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ErrorCode"]


class ErrorCode(StrEnum):
    """What an error is called on the wire and in ``info["openenv"]["error"]``."""

    INTERNAL = "internal"
    CONFIG = "config"
    PROTOCOL = "protocol"
    VERSION = "version"
    TOO_LARGE = "message_too_large"
    NOT_CARRIED = "value_not_carried"
    INVALID_ACTION = "invalid_action"
    VALIDATION = "validation"
    UNSUPPORTED = "unsupported"
    TOOL = "tool"
    TOOL_NOT_FOUND = "tool_not_found"
    TOOL_FAILED = "tool_failed"
    TOOL_TIMEOUT = "tool_timeout"
    RUBRIC = "rubric"
    JUDGE = "judge"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    STARTUP = "startup"
    AUTHENTICATION = "authentication"
    FORBIDDEN = "forbidden"
    CAPACITY = "capacity"
    MISMATCH = "environment_mismatch"
    ENVIRONMENT = "environment"
    CONSTRUCTION = "construction"
    ARGUMENT = "argument"
    RESET_NEEDED = "reset_needed"
    INTERRUPTED = "interrupted"
    SESSION_LOST = "session_lost"
    WORKER_CRASHED = "worker_crashed"
    DEADLINE = "deadline_exceeded"
    DRAINING = "server_draining"
    LANES = "lanes"
    CLOSED = "closed"
    NOT_COPYABLE = "not_copyable"
