"""The parent's ends of a template and of a worker, held by a test."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.servers import control as c
from openenv_gym.servers.board import Board
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.template import command
from openenv_gym.transport.channel import Channel

from .wire import PATIENCE, hello

__all__ = ["TemplateEnds", "WorkerEnds", "ask", "ended", "template", "told"]

_Kind = TypeVar("_Kind")


class _Link:
    """A control connection of which one kind of message at a time is waited for."""

    def __init__(self, link: c.ControlSocket) -> None:
        link.sock.settimeout(PATIENCE)
        self.link = link

    def wait_for(self, kind: type[_Kind]) -> _Kind:
        """Return the next message of this kind; those before it are dropped."""
        while True:
            item = self.link.receive()
            assert item is not None, f"the connection ended without {kind.__name__}"
            if isinstance(item[0], kind):
                return item[0]


class WorkerEnds(_Link):
    """Control socket, board and log of one worker; ``fds`` are the worker's."""

    def __init__(self, settings: ServerSettings) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(c.ControlSocket(ours))
        self.board = Board.shared(settings.places)
        self._log, log = os.pipe()
        assert self.board.fd is not None
        self.fds = [theirs.detach(), os.dup(self.board.fd), log, os.dup(self._log)]
        self._numbers = iter(range(1, 100))

    def open(self, place: int = 0, **fields: Any) -> tuple[str, Channel]:
        """Open a session; return its id and the client's end."""
        session = f"{next(self._numbers):032x}"
        ours, theirs = socket.socketpair()
        raw = encode(hello(session, **fields))
        self.link.post(c.Open(session, place, raw, b"", True), [theirs.detach()])
        return session, Channel(ours, client=True)

    def log(self) -> str:
        """Return what was printed until the worker ended."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        data = b""
        while select.select([self._log], [], [], PATIENCE)[0] and (part := os.read(self._log, 65536)):
            data += part
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of everything."""
        self.link.close()
        self.board.close()
        for fd in (*self.fds, self._log):
            os.close(fd)


class TemplateEnds(_Link):
    """A running template."""

    def __init__(
        self, process: subprocess.Popen[bytes], link: c.ControlSocket, settings: ServerSettings
    ) -> None:
        super().__init__(link)
        self.process, self.settings = process, settings
        self.workers: list[WorkerEnds] = []

    def fork(self) -> tuple[WorkerEnds, int]:
        """Start a worker; return its ends and its process id."""
        worker = WorkerEnds(self.settings)
        self.workers.append(worker)
        self.link.post(c.Fork(len(self.workers)), worker.fds)
        worker.fds = []  # post() closed them
        forked = self.wait_for(c.Forked)
        assert forked.worker == len(self.workers)
        return worker, forked.pid


@contextmanager
def template(target: str, **settings: Any) -> Iterator[TemplateEnds]:
    """Run a template that was told what to serve."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            command("template", parent=os.getpid(), control=theirs.fileno()), pass_fds=[theirs.fileno()]
        )
    made = ServerSettings(**settings)
    ends = TemplateEnds(process, c.ControlSocket(ours), made)
    try:
        ends.link.post(c.Setup(target, made.to_wire()))
        yield ends
    finally:
        ends.link.close()
        for worker in ends.workers:
            worker.close()
        process.wait(PATIENCE)


def ask(channel: Channel, request: Any) -> Any:
    """Send a request and return the reply."""
    channel.send(encode(request))
    return told(channel)


def told(channel: Channel) -> Any:
    """Return the next reply."""
    return decode_reply(channel.recv(time.monotonic() + PATIENCE))


def ended(pid: int, timeout: float = PATIENCE) -> bool:
    """Return whether the process is gone in time; it need not be a child."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):  # the latter between opening and reading
            return True
        time.sleep(0.005)
    return False
