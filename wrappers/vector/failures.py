"""What went wrong in a call, put into words and into one error."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openenv_gym.errors import OpenEnvError, RemoteProtocolError, VectorEnvError

__all__ = ["MALFORMED", "describe_lanes", "facts_of", "malformed", "numbered", "vector_error", "warn"]

_MOST_SHOWN = 3
#: What taking a reply that does not fit raises.
MALFORMED = (RemoteProtocolError, LookupError, TypeError, ValueError, struct.error)


def facts_of(cause: OpenEnvError) -> dict[str, Any]:
    """Return what ``info["openenv"]`` says of a transition that stands for a lost one."""
    return {"error": str(cause.code), "message": cause.message, "server": cause.server}


def numbered(exc: OpenEnvError, lanes: Sequence[int]) -> Sequence[int]:
    """Return the lanes of a session that an error names, all of them if it names none.

    It names them in text and details. There their numbers within the session, which is all that a server
    knows, become those of the vector environment.

    Args:
        exc: What the session reports.
        lanes: Its lanes.
    """
    named = exc.details.get("lanes")
    if not isinstance(named, list) or not named or not all(at in range(len(lanes)) for at in named):
        return lanes
    known, ours = f"lane {named[0]}: ", [lanes[at] for at in named]
    if exc.message.startswith(known):
        exc.message = f"lane {ours[0]}: {exc.message.removeprefix(known)}"
        exc.args = (exc.message,)
    exc.details["lanes"] = ours
    return ours


def vector_error(
    errors: Mapping[int, OpenEnvError], n: int, partial: Any = None, *, ended: bool = True
) -> VectorEnvError:
    """Return one error for the lanes that failed, to be raised from the first lane's.

    Args:
        errors: What happened, by lane; not empty.
        n: Number of lanes.
        partial: What the call would have returned.
        ended: Whether the lanes that failed have no episode any more.
    """
    groups: dict[int, tuple[OpenEnvError, list[int]]] = {}
    for lane in sorted(errors):
        groups.setdefault(id(errors[lane]), (errors[lane], []))[1].append(lane)
    texts = [_text(exc, lanes) for exc, lanes in groups.values()]
    more = len(texts) - _MOST_SHOWN
    if more > 0:
        texts[_MOST_SHOWN:] = [f"and {more} more failures, see .errors"]
    head = f"{describe_lanes(list(errors))} of {n} failed; the others did not."
    if len(errors) == n:
        head = f"all lanes failed, {n} of {n}."
    tail = "The environment stays open, and all episodes go on."
    if ended:
        tail = 'The environment stays open: reset(options={"reset_mask": error.mask}) starts new episodes.'
    first = errors[min(errors)]
    error = VectorEnvError("\n".join([head, *texts, tail]), server=first.server, **first.details)
    error.errors = dict(errors)
    error.mask = np.zeros(n, np.bool_)
    error.mask[list(errors)] = True
    error.partial = partial
    return error


def malformed(server: str, exc: Exception) -> RemoteProtocolError:
    """Return the error for a reply that does not fit."""
    error = RemoteProtocolError(f"{server} sent a reply that does not fit the protocol: {exc}", server=server)
    error.__cause__ = exc
    return error


def warn(texts: Sequence[str]) -> None:
    """Pass on what a server warns of."""
    for text in texts:
        warnings.warn(text, UserWarning, stacklevel=2)


def describe_lanes(lanes: Sequence[int]) -> str:
    """Return lanes in words: ``"lane 3"``, ``"lanes 0, 2, 8 to 15"``."""
    ordered = sorted(lanes)
    spans: list[list[int]] = []
    for lane in ordered:
        if spans and lane == spans[-1][1] + 1:
            spans[-1][1] = lane
        else:
            spans.append([lane, lane])
    words = [str(a) if a == b else f"{a} to {b}" if b > a + 1 else f"{a}, {b}" for a, b in spans]
    if len(words) > 20:
        words[20:] = ["..."]
    return f"lane {words[0]}" if len(ordered) == 1 else f"lanes {', '.join(words)}"


def _text(exc: OpenEnvError, lanes: list[int]) -> str:
    where = f" on {exc.server}" if exc.server else ""
    return f"{describe_lanes(lanes)}{where}: {type(exc).__name__}: {exc.message}"
