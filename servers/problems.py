"""Errors as HTTP answers: ``{"code", "message", "details"}`` and a status."""

from __future__ import annotations

import json
import re
from typing import Any

from openenv_gym.errors import ErrorCode, OpenEnvError

__all__ = ["for_agents", "problem", "problem_json", "status_of"]

_STATUS: dict[str, int] = {
    ErrorCode.AUTHENTICATION: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.SESSION_LOST: 404,
    ErrorCode.TOOL_NOT_FOUND: 404,
    ErrorCode.MISMATCH: 409,
    ErrorCode.RESET_NEEDED: 409,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.VALIDATION: 422,
    ErrorCode.INVALID_ACTION: 422,
    ErrorCode.PROTOCOL: 400,
    ErrorCode.VERSION: 426,
    ErrorCode.UNSUPPORTED: 501,
    ErrorCode.CAPACITY: 503,
    ErrorCode.DRAINING: 503,
    ErrorCode.STARTUP: 503,
    ErrorCode.DEADLINE: 504,
    ErrorCode.TOOL_TIMEOUT: 504,
}
_ADVICE = re.compile(r"reset\(\)(?: starts (?:a new (?:session|one)|anew)|(?= once))")
_INTERNAL = ("traceback", "log")


def status_of(error: OpenEnvError) -> int:
    """Return the HTTP status that goes with ``error``; 500 when none fits better."""
    return _STATUS.get(error.code, 500)


def problem(error: OpenEnvError) -> dict[str, Any]:
    """Return the JSON object that reports ``error``; details that JSON cannot hold become their repr."""
    details: dict[str, Any] = json.loads(json.dumps(error.details, default=repr, skipkeys=True))
    return {"code": str(error.code), "message": error.message, "details": details}


def for_agents(error: OpenEnvError) -> OpenEnvError:
    """Return ``error`` without what is for those who run the server: tracebacks, what workers print.

    Its advice is one that who cannot reset can follow.
    """
    details = {name: value for name, value in error.details.items() if name not in _INTERNAL}
    message = error.message.partition("\n")[0] if error.details.get("log") else error.message
    message = _ADVICE.sub("begin a new session", message.removesuffix("; its last lines:"))
    return type(error)(message, **details)


def problem_json(error: OpenEnvError) -> bytes:
    """Return :func:`problem` as the body of an answer."""
    return json.dumps(problem(error)).encode()
