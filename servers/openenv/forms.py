"""What requests must look like, and how answers and errors are written, in OpenEnv's JSON.

An answer to ``reset`` and ``step``, over WebSocket and HTTP alike::

    {"observation": {...}, "reward": 1.0, "done": false, "terminated": false, "truncated": false,
     "metadata": {...}}

``metadata`` is left out when it is empty; otherwise it is in ``observation`` too: some clients look there.
"""

from __future__ import annotations

import math
import re
from typing import Any

from openenv_gym.errors import ErrorCode, OpenEnvError, ValidationError

from ..problems import problem
from .peer import Outcome

__all__ = [
    "check_fields",
    "check_object",
    "detail_of",
    "error_form",
    "outcome_form",
    "reset_arguments",
    "timeout_of",
]

_LONGEST_EPISODE_ID = 255
_STEPS = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
#: Errors that are the client's doing: nothing was executed.
_INVALID = (ErrorCode.VALIDATION, ErrorCode.INVALID_ACTION)


# -- answers


def outcome_form(outcome: Outcome) -> dict[str, Any]:
    """Return the answer to ``reset`` or ``step``, its values not yet in JSON's types."""
    observation = outcome.observation
    form = {
        "observation": observation,
        "reward": outcome.reward,
        "done": outcome.done,
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
    }
    if outcome.metadata:
        form["observation"] = {"metadata": outcome.metadata, **observation}
        form["metadata"] = outcome.metadata
    return form


def error_form(error: OpenEnvError, *, alive: bool, factory: str) -> dict[str, Any]:
    """Return the ``data`` of an ``error`` frame; ``error`` and ``details`` in it are ours.

    Args:
        error: What went wrong.
        alive: Whether the session goes on.
        factory: What an environment that could not be built is called.
    """
    form: dict[str, Any] = {"message": error.message, "code": _code(error, alive)}
    match error.code:
        case ErrorCode.CAPACITY:
            form["active_sessions"] = error.details.get("active")
            form["max_sessions"] = error.details.get("max")
        case ErrorCode.CONSTRUCTION:
            form["factory_name"] = factory
        case code if code in _INVALID:
            form["errors"] = detail_of(error)
    said = problem(error)
    return {**form, "error": said["code"], "details": said["details"]}


def _code(error: OpenEnvError, alive: bool) -> str:
    if error.code is ErrorCode.CAPACITY:
        return "CAPACITY_REACHED"
    if error.code is ErrorCode.CONSTRUCTION:
        return "FACTORY_ERROR"
    if not alive:
        return "SESSION_ERROR"
    return "VALIDATION_ERROR" if error.code in _INVALID else "EXECUTION_ERROR"


def detail_of(error: OpenEnvError, *before: str) -> list[dict[str, Any]]:
    """Return what is wrong as the list that clients of FastAPI servers know.

    Args:
        error: It names the place in ``details["path"]``, as in ``$.arguments[0]``.
        before: What comes before that path.
    """
    path = str(error.details.get("path", "$"))
    steps = [name or int(index) for name, index in _STEPS.findall(path)]
    return [{"type": str(error.code), "loc": [*before, *steps], "msg": error.message}]


# -- requests


def check_object(value: Any, path: str, what: str) -> dict[str, Any]:
    """Return ``value`` if it is an object.

    Raises:
        ValidationError: It is not.
    """
    if not isinstance(value, dict):
        raise ValidationError(f"{what} is an object, not {_kind(value)}", path=path)
    return value


def check_fields(value: dict[str, Any], *known: str, path: str = "$") -> None:
    """Refuse fields that are not known.

    Raises:
        ValidationError: There is one; the message names it.
    """
    for name in value:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise ValidationError(f"unknown field {name[:80]!r}; there are {allowed}", path=f"{path}.{name}")


def reset_arguments(data: dict[str, Any], path: str = "$") -> tuple[int | None, dict[str, Any]]:
    """Return the seed and the other arguments of a reset; those are the environment's business.

    Raises:
        ValidationError: ``seed`` or ``episode_id`` is none.
    """
    options = dict(data)
    seed, episode_id = options.pop("seed", None), options.get("episode_id")
    if not (seed is None or (type(seed) is int and seed >= 0)):
        raise ValidationError(f"a seed is a whole number from 0 on, not {_shown(seed)}", path=f"{path}.seed")
    if episode_id is not None and not (
        isinstance(episode_id, str) and len(episode_id) <= _LONGEST_EPISODE_ID
    ):
        raise ValidationError(
            f"an episode_id is a text of at most {_LONGEST_EPISODE_ID} characters, not {_shown(episode_id)}",
            path=f"{path}.episode_id",
        )
    return seed, options


def timeout_of(value: Any, path: str) -> float | None:
    """Return a number of seconds; ``None``: no limit.

    Raises:
        ValidationError: It is not a positive number.
    """
    if value is None:
        return None
    if type(value) not in (int, float) or not value > 0 or math.isinf(value):
        raise ValidationError(f"a timeout is a positive number of seconds, not {_shown(value)}", path=path)
    return float(value)


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a text", list: "a list"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    return repr(value)[:80]
