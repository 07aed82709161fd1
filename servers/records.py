"""What the parent knows of its sessions, the living and, for a while, the dead."""

from __future__ import annotations

import copy
import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from openenv_gym.errors import AuthenticationError, OpenEnvError, SessionLostError, from_wire
from openenv_gym.protocol.messages import Error, Hello

from .workers import Worker

__all__ = ["Record", "Records"]

_REMEMBERED = 4096


@dataclass
class Record:
    """One session.

    Attributes:
        worker: The worker that runs it.
        place: Its cell on that worker's board.
        limits: Deadlines the client asked for.
        detached: Whether its connection is lost.
        unclaimed: Whether its client has not come back since it began, and has no connection to lose.
        ending: Why it ends, once that is known.
        value, since: The cell's newest value and when it was first seen, or when the session was told to end.
    """

    session: str
    token: bytes
    worker: Worker
    place: int
    hello: Hello
    detached: bool = False
    unclaimed: bool = False
    ending: OpenEnvError | None = None
    value: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def yields(self) -> bool:
        """Whether a newcomer may have its slot."""
        return self.detached or self.unclaimed


class Records:
    """All sessions of a server, and how those that ended did."""

    def __init__(self) -> None:
        self.living: dict[str, Record] = {}
        self._ended: OrderedDict[str, tuple[bytes, OpenEnvError]] = OrderedDict()

    def find(self, session: str, token: bytes) -> Record:
        """Return the session that ``token`` may resume.

        Raises:
            SessionLostError: It has ended (the error says how) or is unknown.
            AuthenticationError: The token is not that session's.
        """
        record = self.living.get(session)
        if record is not None:
            self._check(record.token, token)
            if record.ending is None:
                return record
            raise copy.copy(record.ending)
        if session in self._ended:
            known, ending = self._ended[session]
            self._check(known, token)
            raise copy.copy(ending)  # one that is raised again and again would keep every caller's frames
        raise SessionLostError(
            "the server does not know this session (it was restarted, or the session ended long ago);"
            " reset() starts a new one"
        )

    def end(self, session: str, error: Error | None) -> Record | None:
        """Move a session to the dead; return it, or ``None`` when it was there already."""
        record = self.living.pop(session, None)
        if record is None:
            return None
        if record.ending is None and error is not None:
            record.ending = from_wire(error.code, error.message, error.details)
        if record.ending is None:
            record.ending = SessionLostError("the session was closed")
        self._ended[session] = (record.token, record.ending)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        return record

    @staticmethod
    def _check(known: bytes, token: bytes) -> None:
        if not hmac.compare_digest(known, token):
            raise AuthenticationError("the resume token is not that of the session")
