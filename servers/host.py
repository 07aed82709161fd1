"""A host: the sessions of one worker process, or of the server process when it has no workers."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from openenv_gym.errors import CapacityError, from_wire
from openenv_gym.transport.channel import Channel
from openenv_gym.transport.sockets import tune

from . import control as c
from .attendant import Attendant
from .board import Board, Operation
from .replies import error_reply
from .seat import Seat
from .stages import Plan

__all__ = ["Host"]

_LOG = logging.getLogger("openenv_gym.server")
_ADVICE = "raise the limit on threads (ulimit -u, pids of a container) or lower --max-sessions"


class Host:
    """The sessions that share a process.

    Args:
        plan: How seats work.
        board: Where they say what they do.
        report: Takes messages for the parent; called from any thread.
        keepalive: Seconds between signs of life during a long step; ``None``: none.
    """

    def __init__(
        self, plan: Plan, board: Board, report: Callable[[c.Message], None], *, keepalive: float | None
    ) -> None:
        self._plan = plan
        self._board = board
        self._report = report
        self._keepalive = keepalive
        self._seats: dict[str, Seat] = {}
        self._lock = threading.Lock()
        self._empty = threading.Event()
        self._empty.set()
        self._attendant = Attendant(self.seats, keepalive)

    def seats(self) -> list[Seat]:
        """Return the open seats."""
        with self._lock:
            return list(self._seats.values())

    def handle(self, message: c.Message, fds: list[int]) -> None:
        """Do what the parent says."""
        match message:
            case c.Open() | c.Attach() if fds[0] == c.LOST:
                self._lost(message)
            case c.Open():
                self._open(message, fds[0])
            case c.Attach():
                self._attach(message, fds[0])
            case c.End():
                self._end(message)
            case c.Describe():
                self._start_describing(message)
            case _:
                _LOG.error("a worker was sent %r", message)

    def drain(self, code: str, text: str) -> None:
        """End every session as soon as its running request is done."""
        for seat in self.seats():
            seat.end(from_wire(code, text, {}))

    def cut(self, code: str, text: str) -> None:
        """Tell the clients of the sessions that are left; their calls cannot be waited for."""
        for seat in self.seats():
            seat.condemn(from_wire(code, text, {}))

    def wait_empty(self, timeout: float | None = None) -> bool:
        """Wait until no session is left."""
        return self._empty.wait(timeout)

    def _open(self, message: c.Open, fd: int) -> None:
        session = message.session
        cells, place = self._board.cells, message.place

        seat = Seat(
            session,
            message.hello,
            message.local,
            self._channel(fd, message),
            cell=partial(cells.__setitem__, place),
            report=lambda what, facts=None: self._reported(session, what, facts),
            plan=self._plan,
            slow=message.slow,
        )
        with self._lock:
            self._seats[session] = seat
            self._empty.clear()
        try:
            self._attendant.start()
            threading.Thread(target=seat.run, name=f"session-{session[:8]}", daemon=True).start()
        except RuntimeError as exc:
            seat.end(CapacityError(f"the session got no thread ({exc}); {_ADVICE}", option="max_sessions"))
            seat.run()

    def _lost(self, message: c.Open | c.Attach) -> None:
        """Do without a connection that this process may not open: it has ended."""
        if isinstance(message, c.Attach):
            self._report(c.Detached(message.session))
            return
        error = CapacityError(
            "the worker may open no more files: raise the limit (ulimit -n), or use more --workers",
            option="workers",
        )
        self._report(c.Ended(message.session, error_reply(error, alive=False)))

    def _attach(self, message: c.Attach, fd: int) -> None:
        channel = self._channel(fd, message)
        with self._lock:
            seat = self._seats.get(message.session)
        if seat is None:
            channel.abort()  # the client comes back, and the parent knows by then what happened
        else:
            seat.attach(channel)

    def _end(self, message: c.End) -> None:
        with self._lock:
            seat = self._seats.get(message.session)
        if seat is not None:
            reason = from_wire(message.code, message.message, message.details)
            (seat.condemn if message.now else seat.end)(reason)

    def _channel(self, fd: int, message: c.Open | c.Attach) -> Channel:
        sock = socket.socket(fileno=fd)
        sock.setblocking(True)
        tune(sock, self._keepalive)
        return Channel(
            sock,
            client=False,
            max_message=self._plan.limits.message,
            initial=message.unread,
            compression=message.deflate,
        )

    def _reported(self, session: str, what: str, facts: Any) -> None:
        if what == "opened":
            self._report(c.Opened(session, facts))
        elif what == "detached":
            self._report(c.Detached(session))
        elif what == "attached":
            self._report(c.Attached(session))
        elif what == "measured":
            self._report(c.Measured(session, facts))
        elif what == "ended":
            self._report(c.Ended(session, facts))
        else:
            with self._lock:
                self._seats.pop(session, None)
                if not self._seats:
                    self._empty.set()

    def _start_describing(self, message: c.Describe) -> None:
        try:
            threading.Thread(target=self._describe, args=(message,), name="describe", daemon=True).start()
        except RuntimeError as exc:  # the sessions that there are go on
            error = f"there is no thread to build the environment on ({exc}); {_ADVICE}"
            self._report(c.Described(message.place, None, error))

    def _describe(self, message: c.Describe) -> None:
        cells, place = self._board.cells, message.place
        cells[place] = 16 + Operation.CONSTRUCTION
        try:
            facts, error = self._plan.describe(), None
        except BaseException as exc:
            facts, error = None, error_reply(exc, alive=False, construction=True).message
        cells[place] = Operation.VACANT
        self._report(c.Described(place, facts, error))
