"""The crew: the workers of a server, how they are started and how their ends are explained."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any

from openenv_gym.errors import (
    CapacityError,
    OpenEnvError,
    ServerDrainingError,
    StartupError,
    WorkerCrashedError,
)
from openenv_gym.providers import inherit

from . import control as c
from .board import Board
from .building import plan_of
from .host import Host
from .processes import adopts_orphans, end_children
from .settings import ServerSettings
from .targets import Target
from .template import command
from .workers import ProcessWorker, ThreadWorker, Worker

__all__ = ["Crew", "import_failed"]

_LOG = logging.getLogger("openenv_gym.server")
_LAST_MOMENT = 0.5
"""Seconds that workers have beyond the drain timeout to tell their clients."""


class Crew:
    """The workers.

    Args:
        settings: The server's settings.
        target: What it serves.
        received: Takes what workers say.
        ended: Told when a worker process is gone, and why.
    """

    def __init__(
        self,
        settings: ServerSettings,
        target: Target,
        received: Callable[[Worker, c.Message], None],
        ended: Callable[[Worker, OpenEnvError], None],
    ) -> None:
        self._settings = settings
        self._target = target
        self._received = received
        self._ended = ended
        self._workers: dict[int, Worker] = {}
        self._numbers = 0
        self._link: c.ControlSocket | None = None
        self._template: subprocess.Popen[bytes] | None = None
        self._warm: asyncio.Future[None] | None = None
        self._host: Host | None = None
        self._draining = False
        #: Whether a process can have one environment only.
        self._exclusive = False

    @property
    def sessions_per_worker(self) -> int:
        """The most sessions that share a worker; 0: any number."""
        return 1 if self._exclusive else self._settings.sessions_per_worker

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    # -- life

    def start(self) -> None:
        """Start the template; needs no event loop."""
        if self._settings.worker_count == 0:
            return
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._template = subprocess.Popen(
                command("template", parent=os.getpid(), control=theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=self._environment(),
            )
        self._link = c.ControlSocket(ours)
        self._link.post(c.Setup(self._target.text, self._settings.to_wire()))

    def _environment(self) -> dict[str, str]:
        """Return the environment variables of workers: all but those that hold the token."""
        token = self._settings.token
        return {
            name: value for name, value in os.environ.items() if name != "OPENENV_TOKEN" and value != token
        }

    async def open(self) -> None:
        """Wait until workers can be had. After a failure both this and :meth:`start` may be called again.

        Raises:
            StartupError: The template could not import the environment's module.
        """
        loop = asyncio.get_running_loop()
        if self._link is None:
            await loop.run_in_executor(None, self._preload)
            self._hire_threads()
            return
        self._warm = loop.create_future()
        loop.add_reader(self._link.fileno(), self._template_readable)
        try:
            await self._warm
        except StartupError:
            if self._link is not None:
                self._template_gone()
            raise

    def _preload(self) -> None:
        self._target.preload()
        self._exclusive = self._target.is_exclusive()
        inherit.apply_filters()

    async def drain(self, timeout: float) -> None:
        """Let every worker finish what runs, within ``timeout`` seconds, then see them all gone."""
        self._draining = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if self._host is not None:
            self._host.drain(str(ServerDrainingError.code), "the server is shutting down")
            # Without an executor: when the interpreter ends there is none any more.
            while not self._host.wait_empty(0.0) and loop.time() < deadline:
                await asyncio.sleep(0.01)
            self._host.cut(str(ServerDrainingError.code), "the server is shutting down")
        for worker in list(self._workers.values()):
            if isinstance(worker, ProcessWorker):
                worker.send(c.Drain(timeout))
        while any(isinstance(w, ProcessWorker) for w in self._workers.values()):
            if loop.time() > deadline + _LAST_MOMENT:
                _LOG.warning(
                    "some environments did not finish within %g s; their workers are killed", timeout
                )
                for worker in list(self._workers.values()):
                    worker.kill()
                deadline += 5.0
            await asyncio.sleep(0.01)
        self._dismiss_template()

    def _dismiss_template(self) -> None:
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
        if self._template is not None:
            try:
                self._template.wait(2.0)
            except subprocess.TimeoutExpired:
                self._template.kill()
                self._template.wait()
        _end_orphans()

    # -- placing

    async def place(self, fellows: Callable[[Worker], int] = lambda worker: 0) -> Worker:
        """Return the worker for the next session, starting one when that is due.

        Args:
            fellows: Says how many sessions a worker has that the new one should rather not share it with.

        Raises:
            CapacityError: There are no workers, and the environment wants a process for itself.
        """
        most = self.sessions_per_worker
        if self._host is not None:
            if self._exclusive and self._workers[0].sessions:
                raise CapacityError(
                    f"{self._target.name!r} allows one instance in a process (concurrency_safe = False), and"
                    " this server has no others; start it with --workers 1 or more",
                    option="workers",
                )
            return self._workers[0]
        able = [w for w in self._workers.values() if w.alive and not w.tainted]
        if most:
            able = [w for w in able if len(w.sessions) < most and not self._spent(w)]
            wanted = not able
        else:
            wanted = len(able) < self._settings.worker_count
            wanted = wanted and (not able or all(w.sessions for w in able))
        if wanted:
            return self._hire()
        return min(able, key=lambda w: (fellows(w), w.lanes))

    def relieve(self, worker: Worker) -> None:
        """Dismiss a worker that has done its part."""
        if worker.sessions or not isinstance(worker, ProcessWorker) or self._draining:
            return
        if worker.tainted:
            worker.kill()
        elif self._spent(worker):
            worker.send(c.Drain(self._settings.drain_timeout))
            worker.alive = False

    def _spent(self, worker: Worker) -> bool:
        """Whether a worker that is promised to one session has had it."""
        return self.sessions_per_worker == 1 and worker.served > 0

    def _hire(self) -> ProcessWorker:
        places = self._settings.places
        while True:
            link = self._link or self._restart_template()
            self._numbers += 1
            worker = ProcessWorker(self._numbers, Board.shared(places), places, self._received)
            try:
                sent = link.post(c.Fork(worker.number), worker.handover)
            except OSError:  # it died a moment ago
                worker.close()
                self._template_gone()
                continue
            if not sent:
                asyncio.get_running_loop().add_writer(link.fileno(), self._template_writable)
            self._workers[worker.number] = worker
            return worker

    def _hire_threads(self) -> None:
        places = self._settings.places
        board = Board(places)
        loop = asyncio.get_running_loop()

        def report(message: c.Message) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody needs the report
                loop.call_soon_threadsafe(self._received, worker, message)

        self._host = Host(
            plan_of(self._settings, self._target), board, report, keepalive=self._settings.keepalive
        )
        worker = ThreadWorker(0, board, places, self._host.handle)
        self._workers[0] = worker

    # -- the template

    def _restart_template(self) -> c.ControlSocket:
        _LOG.warning("the template process is gone; starting another")
        self.start()
        assert self._link is not None
        asyncio.get_running_loop().add_reader(self._link.fileno(), self._template_readable)
        return self._link

    def _template_writable(self) -> None:
        assert self._link is not None
        if self._link.flush():
            asyncio.get_running_loop().remove_writer(self._link.fileno())

    def _template_readable(self) -> None:
        assert self._link is not None
        try:
            alive = self._link.fill()
        except BlockingIOError:
            return
        except OSError:
            alive = False
        while (item := self._link.take()) is not None:
            self._template_said(item[0])
        if not alive:
            self._template_gone()

    def _template_said(self, message: c.Message) -> None:
        match message:
            case c.Warm(error=error, exclusive=exclusive):
                self._exclusive = exclusive
                if self._warm is not None and not self._warm.done():
                    if error is None:
                        self._warm.set_result(None)
                    else:
                        self._warm.set_exception(import_failed(self._target.text, error))
            case c.Forked(worker=number, pid=pid):
                worker = self._workers.get(number)
                if isinstance(worker, ProcessWorker):
                    worker.pid = pid
                    if not worker.alive:
                        worker.kill()
            case c.Exited(worker=number, status=status):
                self._exited(number, os.waitstatus_to_exitcode(status))

    def _template_gone(self) -> None:
        """The template ended, so the kernel killed its workers."""
        assert self._link is not None and self._template is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._link.fileno())
        loop.remove_writer(self._link.fileno())
        self._link.close()
        self._link = None
        self._template.kill()
        self._template.wait()
        if self._warm is not None and not self._warm.done():
            self._warm.set_exception(StartupError("the template process ended while it started"))
        for number, worker in list(self._workers.items()):
            if isinstance(worker, ProcessWorker):
                worker.kill()
                self._exited(number, -signal.SIGKILL)
        _end_orphans()

    def _exited(self, number: int, code: int) -> None:
        worker = self._workers.pop(number, None)
        if not isinstance(worker, ProcessWorker):
            return
        worker.close()
        self._ended(worker, _crash(code, list(worker.log)))


def _end_orphans() -> None:
    """End what a template left that was killed; in a process of ours alone, which adopted it."""
    if adopts_orphans():
        end_children()


def _crash(code: int, log: list[str]) -> WorkerCrashedError:
    """Say how a worker ended; ``code`` is negative for a signal."""
    details: dict[str, Any] = {"exit_code": code, "log": log[-20:]}
    how = f"exited with code {code}"
    if code < 0:
        details["signal"] = name = _signal_name(-code)
        how = f"was killed by {name}"
    last = f"; its last lines:\n{chr(10).join(log[-5:])}" if log else ""
    return WorkerCrashedError(f"the worker process {how}; reset() starts a new session{last}", **details)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def import_failed(target: str, trace: str) -> StartupError:
    """Say why ``target`` cannot be served: a traceback, or what we say of it ourselves."""
    last = trace.strip().splitlines()[-1]
    if last == trace:  # no exception of the module, but what we say of it
        return StartupError(f"{target} cannot be served: {last}", log=[last])
    return StartupError(f"{target} cannot be imported: {last}\n{trace}", log=trace.splitlines())
