"""Workers as the parent sees them: a process, or threads of the parent itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from openenv_gym.errors import CapacityError

from . import control as c
from .board import Board, Operation
from .printed import Printed

__all__ = ["ProcessWorker", "ThreadWorker", "Worker"]


class Worker:
    """Somewhere sessions run.

    Attributes:
        number: Counts workers of this server.
        sessions: Ids of the sessions it runs.
        lanes: How many lanes these have.
        served: How many sessions it was given so far.
        late: Cells of sessions that are over while their last call still runs.
        tainted: Whether a condemned call still runs in it; then it gets no new sessions.
        alive: Whether it can be spoken to.
        log: The last lines it printed.
    """

    def __init__(self, number: int, board: Board, places: int) -> None:
        self.number = number
        self.board = board
        self.sessions: set[str] = set()
        self.lanes = 0
        self.served = 0
        self.late: dict[str, int] = {}
        self.tainted = False
        self.alive = True
        self.log: deque[str] = deque()
        self._free = list(range(places - 1, -1, -1))

    @property
    def killable(self) -> bool:
        """Whether it is a process of its own."""
        return False

    def take_place(self) -> int:
        """Return a free cell of the board.

        Raises:
            CapacityError: There is none.
        """
        if not self._free:
            raise CapacityError(
                f"{len(self.late)} calls that overran their deadline still run in threads of the server;"
                " worker processes (--workers 1) can be killed",
                option="workers",
            )
        place = self._free.pop()
        self.board.cells[place] = Operation.IDLE
        return place

    def give_place(self, place: int) -> None:
        """Take a cell back."""
        self._free.append(place)

    def give_late_place(self, session: str) -> None:
        """Take the cell of a session back whose last call has returned after all."""
        if session in self.late:
            self.give_place(self.late.pop(session))

    def send(self, message: c.Message, fds: Sequence[int] = ()) -> None:
        """Send a message; its descriptors belong to the worker from now on."""
        raise AssertionError(message)

    def kill(self) -> None:
        """End it at once, if it is a process."""


class ThreadWorker(Worker):
    """The parent process as a worker: its host's threads run the sessions."""

    def __init__(
        self, number: int, board: Board, places: int, handle: Callable[[c.Message, list[int]], None]
    ) -> None:
        super().__init__(number, board, places)
        self._handle = handle

    def send(self, message: c.Message, fds: Sequence[int] = ()) -> None:
        """Hand the message to the host."""
        self._handle(message, list(fds))


class ProcessWorker(Worker):
    """A worker process.

    Args:
        number: Counts workers.
        board: Shared with the process.
        places: Cells of the board.
        received: Takes the worker's messages.
    """

    def __init__(
        self, number: int, board: Board, places: int, received: Callable[[ProcessWorker, c.Message], None]
    ) -> None:
        super().__init__(number, board, places)
        self.pid: int | None = None
        self._received = received
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._link = c.ControlSocket(ours)
        pipe, log = os.pipe()
        self._printed = Printed(pipe)
        self.log = self._printed.lines
        assert board.fd is not None
        self.handover = (theirs.detach(), os.dup(board.fd), log, os.dup(pipe))
        asyncio.get_running_loop().add_reader(self._link.fileno(), self._readable)

    @property
    def killable(self) -> bool:
        """Whether it is a process of its own."""
        return self.pid is not None

    def send(self, message: c.Message, fds: Sequence[int] = ()) -> None:
        """Send the message, later if the worker does not read at the moment."""
        try:
            if not self._link.post(message, fds):
                asyncio.get_running_loop().add_writer(self._link.fileno(), self._writable)
        except OSError:  # it died; its exit is about to be reported
            self.alive = False

    def kill(self) -> None:
        """Kill the process and all that it started."""
        self.alive = False
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Forget the process, which has ended; read what it printed last."""
        self.alive = False
        loop = asyncio.get_running_loop()
        self._printed.close()
        loop.remove_reader(self._link.fileno())
        loop.remove_writer(self._link.fileno())
        self._link.close()
        self.board.close()

    def _readable(self) -> None:
        try:
            open_ = self._link.fill()
        except BlockingIOError:
            return
        except OSError:
            open_ = False
        try:
            while (item := self._link.take()) is not None:
                self._received(self, item[0])
        except msgspec.DecodeError as exc:  # its code or its memory is broken, and nobody knows what follows
            self.log.append(f"killed by the server, which cannot read what the worker says: {exc}")
            self.kill()
            open_ = False
        if not open_:
            self.alive = False
            asyncio.get_running_loop().remove_reader(self._link.fileno())

    def _writable(self) -> None:
        try:
            done = self._link.flush()
        except OSError:
            self.alive, done = False, True
        if done:
            asyncio.get_running_loop().remove_writer(self._link.fileno())
