"""Exceptions to ``error`` replies: the one place that decides what a client is told."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from openenv_gym.errors import ErrorCode, OpenEnvError, SessionLostError
from openenv_gym.protocol.messages import Error
from openenv_gym.protocol.values import pack

__all__ = ["error_reply"]

_LOG = logging.getLogger("openenv_gym.server")
_LONGEST = 32 * 1024


def error_reply(exc: BaseException, request_id: int = 0, *, alive: bool, construction: bool = False) -> Error:
    """Return the reply that reports ``exc``.

    Args:
        exc: An error of this package (reported as it is) or anything the environment raised.
        request_id: The request it answers; 0: none.
        alive: Whether the session goes on.
        construction: Whether the environment was being built.
    """
    if isinstance(exc, OpenEnvError):
        details = pack(exc.details, "details", opaque=True)
        lives = alive and not isinstance(exc, SessionLostError)
        return Error(exc.code, _clip(exc.message), request_id, lives, details)
    text = "".join(traceback.format_exception(exc))
    _LOG.info("the environment raised\n%s", text)
    code = ErrorCode.CONSTRUCTION if construction else ErrorCode.ENVIRONMENT
    if construction and isinstance(exc, TypeError):
        code = ErrorCode.ARGUMENT
    details = {"type": type(exc).__name__, "traceback": _clip(text)}
    return Error(code, _clip(f"{type(exc).__name__}: {_describe(exc)}"), request_id, alive, details)


def _describe(exc: BaseException) -> Any:
    try:
        return str(exc)
    except BaseException as broken:
        return f"<no text: its __str__ raised {type(broken).__name__}>"


def _clip(text: str) -> str:
    """Shorten ``text`` in the middle, and make it valid UTF-8."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
