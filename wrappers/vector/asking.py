"""One question to every session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openenv_gym.errors import OpenEnvError

from .failures import numbered, vector_error
from .fleet import Fleet, Part

__all__ = ["ask_all"]


def ask_all(
    fleet: Fleet, kind: Callable[..., Any], arguments: Callable[[Part], Sequence[Any] | None]
) -> list[Any]:
    """Send a request to every session and return the replies, in the order of the lanes.

    Args:
        fleet: The sessions.
        kind: Class of the request.
        arguments: Gives its fields, for a part; ``None``: that part is not asked.

    Raises:
        VectorEnvError: Sessions are lost, or report something.
    """
    errors: dict[int, OpenEnvError] = {}
    replies, posted = [], []
    asked = [(part, given) for part in fleet.parts if (given := arguments(part)) is not None]
    for part, given in asked:
        try:
            part.post(kind, *given)
            posted.append(part)
        except OpenEnvError as exc:
            errors.update(dict.fromkeys(part.lanes, exc))
    for part in posted:
        try:
            replies.append(part.collect())
        except OpenEnvError as exc:
            errors.update(dict.fromkeys(numbered(exc, part.lanes), exc))
    if errors:
        ended = any(part.connection is None for part in fleet.parts)
        raise vector_error(errors, fleet.parts[-1].stop, ended=ended) from errors[min(errors)]
    return replies
