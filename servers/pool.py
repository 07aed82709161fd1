"""The pool: admits sessions, places them on workers, and learns how they end."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import dataclass
from typing import Any

from openenv_gym.errors import (
    DeadlineExceededError,
    LocalProtocolError,
    OpenEnvError,
    ServerDrainingError,
    SessionLostError,
    from_wire,
)
from openenv_gym.protocol.codec import Greeting

from . import control as c
from .building import check_hello
from .crew import Crew
from .departures import unless_gone
from .paces import Paces
from .probe import TRIAL
from .records import Record, Records
from .settings import ServerSettings
from .slots import Slots
from .targets import Target
from .watch import Watch
from .workers import Worker

__all__ = ["QUESTION_WAIT", "Arrival", "Pool"]

_LOG = logging.getLogger("openenv_gym.server")

QUESTION_WAIT = 4.0
"""Seconds that who asks over HTTP waits for a slot; many HTTP clients give up after five."""
_LOST = "the connection was lost, and a newcomer got the slot"
_UNCLAIMED = "the server was full, and a newcomer got the slot, for no second request had come"


@dataclass
class Arrival:
    """A connection whose first message was read.

    Attributes:
        sock: Its socket.
        unread: What was read beyond that message.
        deflate: Whether permessage-deflate was negotiated.
    """

    sock: socket.socket
    unread: bytes = b""
    deflate: bool = False


class Pool:
    """Every session of a server.

    Args:
        settings: The server's settings.
        target: What it serves.

    All methods run on the server's event loop, except :meth:`start`.
    """

    def __init__(self, settings: ServerSettings, target: Target) -> None:
        self.settings = settings
        self.target = target
        self.records = Records()
        self.slots = Slots(settings.max_sessions, self._make_room)
        self.draining = False
        self._paces = Paces(settings.lane_threads is None)
        self._crew = Crew(settings, target, self._received, self._worker_ended)
        self._watch = Watch(self.records, settings, self.end, self.condemn)
        self._watching: asyncio.Task[None] | None = None
        self._facts: dict[str, Any] | None = None
        self._describing: tuple[Worker, int, asyncio.Future[dict[str, Any]]] | None = None
        self._describe_lock = asyncio.Lock()
        self._idle_since: float | None = time.monotonic()

    # -- life

    def start(self) -> None:
        """Start what needs no event loop: the template, which imports the environment meanwhile."""
        self._crew.start()

    async def open(self) -> None:
        """Go on inside the event loop: workers can be had from here on.

        Raises:
            StartupError: The environment's module cannot be imported.
        """
        await self._crew.open()
        self._watching = asyncio.create_task(self._watch.run())

    async def drain(self, timeout: float) -> None:
        """End all sessions after their running request, within ``timeout`` seconds; then end the workers."""
        self.draining = True
        self.slots.refuse_all()
        await self._crew.drain(timeout)
        if self._watching is not None:
            self._watching.cancel()

    # -- what is asked of it

    def capacity(self) -> dict[str, Any]:
        """Return the numbers for ``/capacity``."""
        return {
            "active": self.slots.active,
            "max": self.slots.maximum,
            "waiting": self.slots.waiting,
            "detached": sum(record.detached for record in self.records.living.values()),
            "workers": self._crew.count,
        }

    def advertisement(self) -> dict[str, str]:
        """Return the headers of a handshake that tell a client how to spread lanes over sessions.

        ``OpenEnv-Workers``: how many sessions reach every worker; ``OpenEnv-Sessions-Per-Worker``: the most
        sessions that share one, 0: any number; ``OpenEnv-Slots-Free`` and ``OpenEnv-Slots-Max``: lanes.
        """
        free = self.slots.maximum - self.slots.active + self._yielding()
        return {
            "OpenEnv-Workers": str(max(self.settings.worker_count, 1)),
            "OpenEnv-Sessions-Per-Worker": str(self._crew.sessions_per_worker),
            "OpenEnv-Slots-Free": str(0 if self.slots.waiting else free),
            "OpenEnv-Slots-Max": str(self.slots.maximum),
        }

    def idle_since(self) -> float | None:
        """Return since when (``time.monotonic()``) there is no session, or ``None``."""
        return self._idle_since

    async def describe(self) -> dict[str, Any]:
        """Return what ``welcome`` says of the environment; builds one the first time it is asked.

        Raises:
            OpenEnvError: The environment could not be built.
        """
        async with self._describe_lock:
            if self._facts is None:
                self._facts = await self._describe()
            return self._facts

    async def admit(self, hello: Greeting, raw: bytes, arrival: Arrival) -> None:
        """Give a newcomer a slot and a worker; from here on the worker owns the socket.

        Raises:
            OpenEnvError: It was refused; the socket is still the caller's.
            ConnectionAbortedError: It left while it waited for a slot.
        """
        check_hello(hello, self.target, self.settings.max_lanes)
        self._check_open(hello.session)
        longest = self.settings.slot_wait
        patience = hello.slot_timeout if longest is None else min(hello.slot_timeout, longest)
        taking = self.slots.take(hello.lanes, patience, room_expected=self._room_expected(hello.lanes))
        await (taking if self.slots.vacant(hello.lanes) else unless_gone(arrival.sock, taking))
        try:
            slow = await self._paces.of(hello)
            self._check_open(hello.session)
            worker = await self._crew.place(lambda worker: self._group_on(worker, hello.group))
            place = worker.take_place()
        except BaseException:
            self._paces.ended(hello.session)
            self.slots.give(hello.lanes)
            raise
        record = Record(hello.session, hello.token, worker, place, hello)
        self.records.living[hello.session] = record
        worker.sessions.add(hello.session)
        worker.lanes += hello.lanes
        worker.served += 1
        self._idle_since = None
        self._watch.wake()
        local, deflate = self.settings.is_local, arrival.deflate
        opening = c.Open(hello.session, place, raw, arrival.unread, local, deflate, slow)
        worker.send(opening, [arrival.sock.detach()])

    def attach(self, record: Record, arrival: Arrival) -> None:
        """Give a session its new connection; the worker owns it from here on."""
        attach = c.Attach(record.session, arrival.unread, arrival.deflate)
        record.detached = False
        record.worker.send(attach, [arrival.sock.detach()])

    def offer(self, session: str, unclaimed: bool) -> None:
        """Note whether a session without a connection would yield its slot to a newcomer."""
        record = self.records.living.get(session)
        if record is not None and record.unclaimed != unclaimed:
            record.unclaimed = unclaimed
            self._make_room(self.slots.lacking)

    def end(self, record: Record, reason: OpenEnvError, *, now: bool = False) -> None:
        """End a session."""
        record.ending, record.since = reason, time.monotonic()
        record.worker.send(c.End(record.session, str(reason.code), reason.message, reason.details, now))

    def condemn(self, record: Record, reason: OpenEnvError) -> None:
        """End a session whose call overran its deadline, or whose worker does not react.

        Alone in a worker process, the process is killed. Otherwise the call cannot be stopped: the client is
        told, the slot is freed, and the worker gets no new sessions.
        """
        worker = record.worker
        reason = self._with_trial(record.session, reason)
        if worker.sessions == {record.session} and worker.killable:
            record.ending = reason
            worker.kill()
            return
        worker.tainted = True
        self.end(record, reason, now=True)
        self._finished(record.session, None, late=True)
        self._crew.relieve(worker)

    # -- what workers say

    def _received(self, worker: Worker, message: c.Message) -> None:
        match message:
            case c.Opened(facts=facts):
                self._facts = self._facts or facts
            case c.Detached(session=session):
                if (record := self.records.living.get(session)) is not None:
                    record.detached = True
                    self._make_room(self.slots.lacking)
            case c.Attached(session=session):
                if (record := self.records.living.get(session)) is not None:
                    record.detached = False
            case c.Measured(session=session, slow=slow):
                self._paces.measured(session, slow)
            case c.Ended(session=session, error=error):
                worker.give_late_place(session)
                self._finished(session, error)
                self._crew.relieve(worker)
            case c.Described(place=place, facts=facts, error=error):
                worker.give_place(place)
                self._described(worker, place, facts, error)
                self._crew.relieve(worker)

    def _worker_ended(self, worker: Worker, reason: OpenEnvError) -> None:
        """Note that a worker is gone, and with it its sessions."""
        for session in list(worker.sessions):
            record = self.records.living.get(session)
            if record is not None and record.ending is None:
                record.ending = self._with_trial(session, reason)
            self._finished(session, None)
        if self._describing is not None and self._describing[0] is worker:
            _, _, future = self._describing
            if not future.done():
                future.set_exception(reason)

    def _with_trial(self, session: str, reason: OpenEnvError) -> OpenEnvError:
        """Return why a session ends, with the trial named if that was under way."""
        if not self._paces.trying(session):
            return reason
        return type(reason)(f"{TRIAL}: {reason.message}", **reason.details)

    def _finished(self, session: str, error: Any, *, late: bool = False) -> None:
        record = self.records.end(session, error)
        if record is None:
            return
        self._paces.ended(session)
        record.worker.sessions.discard(session)
        record.worker.lanes -= record.hello.lanes
        if late:
            record.worker.late[session] = record.place
        else:
            record.worker.give_place(record.place)
        self.slots.give(record.hello.lanes)
        if not self.records.living:
            self._idle_since = time.monotonic()

    # -- inside

    def _check_open(self, session: str) -> None:
        if self.draining:
            raise ServerDrainingError("the server is shutting down")
        if session in self.records.living:
            raise LocalProtocolError(f"the session {session} is open already; resume it")

    def _room_expected(self, count: int) -> bool:
        return self.slots.maximum - self.slots.active + self._yielding() >= count

    def _yielding(self) -> int:
        """Return how many slots sessions hold that would yield them to a newcomer."""
        return sum(r.hello.lanes for r in self.records.living.values() if r.yields)

    def _make_room(self, needed: int) -> None:
        """End sessions that yield until ``needed`` slots come free; lost ones first, then the oldest."""
        yielding = [record for record in self.records.living.values() if record.yields]
        for record in sorted(yielding, key=lambda record: (record.ending is None, not record.detached)):
            if needed <= 0:
                return
            needed -= record.hello.lanes
            if record.ending is None:
                self.end(record, SessionLostError(_LOST if record.detached else _UNCLAIMED))

    def _group_on(self, worker: Worker, group: str) -> int:
        """Return how many sessions of a client's group a worker has."""
        living = self.records.living
        return sum(living[session].hello.group == group for session in worker.sessions) if group else 0

    async def _describe(self) -> dict[str, Any]:
        patience = min(self.settings.slot_wait, QUESTION_WAIT)
        await self.slots.take(1, patience, room_expected=self._room_expected(1))
        try:
            worker = await self._crew.place()
            place = worker.take_place()
            worker.served += 1
            future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._describing = worker, place, future
            worker.send(c.Describe(place))
            return await self._told(worker, future)
        finally:
            self._describing = None
            self.slots.give(1)

    async def _told(self, worker: Worker, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """Return the description that a worker owes, within the deadline of a construction."""
        deadline = self.settings.construction_deadline
        await asyncio.wait([future], timeout=deadline)
        if not future.done():
            worker.tainted = True
            self._crew.relieve(worker)
            raise DeadlineExceededError(
                f"the environment's construction took longer than {deadline:g} s and was given up;"
                " raise --construction-deadline",
                operation="construction",
                deadline=deadline,
            )
        return future.result()

    def _described(self, worker: Worker, place: int, facts: Any, error: str | None) -> None:
        if self._describing is None or self._describing[:2] != (worker, place):
            return
        _, _, future = self._describing
        if future.done():
            return
        if error is None:
            future.set_result(facts)
        else:
            future.set_exception(from_wire("construction", error, {}))
