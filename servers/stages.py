"""What a seat and the environments of its session know of each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from openenv_gym.protocol import messages as m

__all__ = ["Desk", "Plan", "Stage"]


class Stage(Protocol):
    """What carries out the requests of a session: one lane, or many.

    Attributes:
        spent: What the last answer left over. The seat lets go of it when the reply is out, since that takes
            time.
    """

    spent: Any

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``."""
        ...

    def close(self) -> None:
        """Close every environment."""
        ...


@dataclass(frozen=True)
class Desk:
    """What a stage is told by its seat, and may tell it.

    Attributes:
        local: Whether the client is on this machine (it may then pass any constructor argument).
        slow: Whether lanes of this kind are slow, as far as it is known.
        measured: Takes whether they are, for the parent.
        tick: Shows that a call of an environment begins, so that its deadline counts from there; for the
            session's thread only.
    """

    local: bool
    slow: bool | None
    measured: Callable[[bool], None]
    tick: Callable[[], None]


@dataclass(frozen=True)
class Plan:
    """How the seats of a host work.

    Attributes:
        build: Makes a stage and says what it is: ``build(hello, desk) -> stage, facts``. ``about`` in the
            facts is what ``describe`` returns, where that came along; the rest is for ``welcome``.
        describe: Builds an environment with the server's own arguments, says what it is, closes it.
        grace: Seconds that a lost connection may take to come back.
        limits: What ``welcome`` tells the client.
        server: Name and version, for ``welcome``.
    """

    build: Callable[[m.Hello, Desk], tuple[Stage, dict[str, Any]]]
    describe: Callable[[], dict[str, Any]]
    grace: float
    limits: m.Limits
    server: str
