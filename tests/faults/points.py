"""Where a connection can fail, and how: the rows of the fault table."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.proxy import How, Plan, Policy, Where

__all__ = ["HOWS", "POINTS", "Point", "Spot", "plans"]

HOWS: tuple[How, ...] = ("rst", "fin", "freeze", "stall")
_LONGEST_STALL = 0.4


@dataclass(frozen=True)
class Spot:
    """A place in the stream: which frame of which direction, and whether before it, in it or after it.

    Attributes:
        frame: 0 is the handshake, 1 ``hello`` and ``welcome`` (or ``resume`` and ``resumed``), then come the
            requests and replies: ``None`` is the request that the fault is meant for.
    """

    way: str
    frame: int | None
    where: Where


@dataclass(frozen=True)
class Point:
    """A named point of an exchange.

    Attributes:
        spots: Where exactly; faults take turns among them.
        again: Whether it lies on the second connection, after the first one lost a reply.
        closing: Whether the request is the one that closes the session.
    """

    name: str
    spots: tuple[Spot, ...]
    again: bool = False
    closing: bool = False


def _spots(way: str, frame: int | None, *wheres: Where) -> tuple[Spot, ...]:
    return tuple(Spot(way, frame, where) for where in wheres)


POINTS = (
    Point("before the 101", _spots("up", 0, "before", "middle") + _spots("down", 0, "before", "middle")),
    Point("hello not sent", _spots("up", 1, "before")),
    Point("hello in flight", _spots("up", 1, "middle")),
    Point("hello executing", _spots("up", 1, "after")),
    Point("welcome lost", _spots("down", 1, "before", "middle")),
    Point("request in flight", _spots("up", None, "before", "middle")),
    Point("request executing", _spots("up", None, "after")),
    Point("reply lost", _spots("down", None, "before")),
    Point("reply in flight", _spots("down", None, "middle")),
    Point("idle", _spots("down", None, "after")),
    Point("resume: handshake", _spots("up", 0, "middle") + _spots("down", 0, "before", "middle"), again=True),
    Point("resume in flight", _spots("up", 1, "before", "middle"), again=True),
    Point("resume executing", _spots("up", 1, "after"), again=True),
    Point("resumed lost", _spots("down", 1, "before", "middle"), again=True),
    Point("repeat in flight", _spots("up", 2, "before", "middle"), again=True),
    Point("repeat executing", _spots("up", 2, "after"), again=True),
    Point("repeated reply lost", _spots("down", 2, "before", "middle"), again=True),
    Point("close", _spots("up", None, "middle", "after") + _spots("down", None, "before"), closing=True),
)


def plans(point: Point, spot: Spot, how: How, request: int, rng: random.Random) -> list[Plan]:
    """Return what happens to a client's connections.

    Args:
        point: Where the fault is.
        spot: One of the point's spots.
        how: What happens there.
        request: The number, from 1, of the request that is hit.
        rng: Of what is left to chance.
    """
    frame = request + 1 if spot.frame is None else spot.frame
    policy = Policy(cut_frame=frame, where=spot.where, how=how, stall=rng.uniform(0.01, _LONGEST_STALL))
    plan = Plan(up=policy) if spot.way == "up" else Plan(down=policy)
    return [Plan(down=Policy(cut_frame=request + 1, where="before")), plan] if point.again else [plan]
