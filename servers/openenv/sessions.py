"""The sessions that several connections may share: HTTP, MCP, and WebSockets that attach to one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openenv_gym.errors import ErrorCode, OpenEnvError, SessionLostError

from .peer import Peer

if TYPE_CHECKING:
    from ..pool import Pool

__all__ = ["Held", "Sessions"]

_LOG = logging.getLogger("openenv_gym.server")
_REMEMBERED = 16384
"""Sessions that ended. So many end within seconds when somebody floods the server."""


@dataclass(eq=False)
class Held:
    """A session in the table.

    Attributes:
        id: What its clients call it; whoever knows it may use it.
        peer: The session itself. It may have ended; :meth:`Sessions.renew` puts a new one in its place.
        ttl: Seconds that it is kept while nobody uses it; ``None``: until it is closed.
        users: How many requests and connections use it now.
        claimed: Whether its client has come back with the id, or with that of a session that has ended. Until
            then, while no request runs, it yields its slot to a newcomer: requests without cookie, each of
            which begins a session, keep nobody out.
        attached: Whether a WebSocket is attached to it.
        notes: What those who use it want to keep with it.
        turn: Held by an HTTP request, so that a repeated one finds the answer of the first.
        kept: Id and answer of the last HTTP step that had an id.
        timer: Ends its time to live.
        lock: Held while its peer is replaced.
    """

    id: str
    peer: Peer
    ttl: float | None
    users: int = 0
    claimed: bool = False
    attached: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    kept: tuple[str, bytes] | None = None
    timer: asyncio.TimerHandle | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """The table of sessions by id. Their slots are those of the pool.

    Args:
        pool: Where sessions come from.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._held: dict[str, Held] = {}
        self._gone: OrderedDict[str, str] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, *, ttl: float | None, patience: float = 0.0, former: str | None = None) -> Held:
        """Return a new session, its environment built and not yet reset; the time to live begins.

        Args:
            ttl: Seconds that it is kept while nobody uses it; ``None``: until it is closed.
            patience: Seconds to wait for a free slot.
            former: Id of a session that its client had. If that has ended, the client is one that comes back,
                so the new session does not yield its slot; once for each that has ended.

        Raises:
            CapacityError: There is no free slot.
            ConstructionError: The environment could not be built.
            OpenEnvError: Another reason for which there is no session.
        """
        peer = await Peer.open(self._pool, patience=patience)
        returns = former is not None and self._gone.pop(former, None) is not None
        held = Held(str(uuid.uuid4()), peer, ttl, claimed=returns)
        self._held[held.id] = held
        peer.ended.add_done_callback(lambda ended: self._ended(held, ended.result()))
        self._live_on(held)
        return held

    async def renew(self, held: Held) -> None:
        """Give a session whose peer has ended a new one; one that lives stays as it is.

        Raises:
            OpenEnvError: As for :meth:`open`.
        """
        async with held.lock:
            if held.peer.ended.done():
                held.peer = await Peer.open(self._pool)

    def find(self, session_id: str) -> Held:
        """Return the session of that id.

        Raises:
            SessionLostError: There is none; the message says why, if that is known.
        """
        held = self._held.get(session_id)
        if held is not None:
            if not held.claimed:
                held.claimed = True
                held.peer.offer(False)
            return held
        why = self._gone.get(session_id, "the server does not know it; it may have been restarted")
        raise SessionLostError(f"there is no session {session_id[:80]!r}: {why}")

    @contextlib.contextmanager
    def use(self, held: Held) -> Iterator[Held]:
        """Use a session: its time to live stands still meanwhile, and begins anew afterwards."""
        held.users += 1
        self._offer(held)
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        try:
            yield held
        finally:
            held.users -= 1
            self._offer(held)
            self._live_on(held)

    async def close(self, held: Held) -> None:
        """End a session and forget it."""
        self._forget(held, "it was closed")
        try:
            await held.peer.close()
        except OpenEnvError as exc:
            _LOG.warning("closing the environment of a session raised: %s", exc)

    def _offer(self, held: Held) -> None:
        if not held.claimed and held.ttl is not None:
            held.peer.offer(held.users == 0)

    def _ended(self, held: Held, reason: OpenEnvError) -> None:
        """Forget a session that yielded its slot: nobody waits to be told."""
        if not held.claimed and held.users == 0 and reason.code is ErrorCode.SESSION_LOST:
            self._forget(held, reason.message)

    def _live_on(self, held: Held) -> None:
        if held.users == 0 and held.ttl is not None and held.id in self._held:
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(held.ttl, self._expire, held)

    def _expire(self, held: Held) -> None:
        self._forget(held, f"nobody used it for {held.ttl:g} s (--http-session-ttl)")
        task = asyncio.get_running_loop().create_task(self.close(held))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _forget(self, held: Held, why: str) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        if self._held.pop(held.id, None) is not None:
            self._gone[held.id] = why
        while len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
