"""Errors of one lane among others."""

from __future__ import annotations

from collections.abc import Sequence

from openenv_gym.errors import ConstructionError, OpenEnvError, RemoteEnvironmentError
from openenv_gym.protocol.messages import LaneFailure

from .replies import error_reply

__all__ = ["Failed", "error_of_lane", "failure_of"]

#: Lanes that raised, and what.
Failed = Sequence[tuple[int, BaseException]]


def failure_of(lane: int, exc: BaseException) -> LaneFailure:
    """Return what a reply says of a lane that raised, beside the results of the others."""
    reply = error_reply(exc, alive=True)
    return LaneFailure(lane=lane, code=reply.code, message=reply.message, details=reply.details)


def error_of_lane(failed: Failed, *, construction: bool = False) -> OpenEnvError:
    """Return the error of a request that fails as a whole, because of its first lane that raised.

    ``details["lanes"]`` names all of them.
    """
    lanes = sorted(lane for lane, _ in failed)
    exc = dict(failed)[lanes[0]]
    reply = error_reply(exc, alive=True)
    text = f"lane {lanes[0]}: {reply.message}"
    if isinstance(exc, OpenEnvError):
        return type(exc)(text, **{**exc.details, "lanes": lanes})
    error = ConstructionError if construction else RemoteEnvironmentError
    return error(text, **{**reply.details, "lanes": lanes})
