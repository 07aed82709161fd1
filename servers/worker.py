"""A worker process: takes sockets and hello messages from the parent and runs the sessions."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from typing import NoReturn

from . import control as c
from .board import Board
from .building import plan_of
from .host import Host
from .processes import ignore_stop_signals
from .settings import ServerSettings
from .targets import Target

__all__ = ["run_worker"]


class _Reports:
    """Messages to the parent, sent by a thread of their own: a session never waits for the parent."""

    def __init__(self, link: c.ControlSocket) -> None:
        self._link = link
        self._queue: queue.SimpleQueue[c.Message | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
        self._thread.start()

    def put(self, message: c.Message) -> None:
        self._queue.put(message)

    def finish(self) -> None:
        self._queue.put(None)
        self._thread.join(1.0)

    def _run(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._link.post(message)
            except OSError:  # the parent is gone, and this process will be too
                return


def run_worker(settings: ServerSettings, target: Target, control_fd: int, board_fd: int) -> None:
    """Run sessions until the parent says ``drain`` or goes away; never returns."""
    ignore_stop_signals()
    link = c.ControlSocket(socket.socket(fileno=control_fd))
    reports = _Reports(link)
    board = Board(settings.places, board_fd)
    host = Host(plan_of(settings, target), board, reports.put, keepalive=settings.keepalive)
    within, text = settings.drain_timeout, "the server process was killed; reset() once it is back"
    while (item := link.receive()) is not None:
        message, fds = item
        if isinstance(message, c.Drain):
            within, text = message.within, "the server is shutting down; reset() once it is back"
            break
        host.handle(message, fds)
    host.drain("server_draining", text)
    threading.Thread(target=_hurry, args=(link, host, reports, text), name="hurry", daemon=True).start()
    if not host.wait_empty(within):
        host.cut("server_draining", text)
    _exit(reports)


def _hurry(link: c.ControlSocket, host: Host, reports: _Reports, text: str) -> None:
    """While sessions end: go on listening, for clients that come back and for a second ``drain``."""
    while (item := link.receive()) is not None:
        if isinstance(item[0], c.Drain):
            host.cut("server_draining", text)
            _exit(reports)
        host.handle(*item)


def _exit(reports: _Reports) -> NoReturn:
    reports.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # environments' own threads and atexit handlers must not hold the process
