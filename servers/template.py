"""The template: a small program that imports the environment's module once and forks workers from itself.

It has one thread, so a fork copies no lock that another thread holds; and it is exec'ed, so it inherits
neither the parent's event loop nor its threads. It is the workers' parent: it reaps them and reports how they
ended.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

from openenv_gym.errors import ConfigError
from openenv_gym.providers import inherit

from . import control as c
from .processes import (
    adopt_orphans,
    children,
    die_with_parent,
    end_children,
    ignore_stop_signals,
    outlive_parent,
    reseed,
)
from .settings import ServerSettings
from .targets import Target, resolve

__all__ = ["Template", "command", "main", "prepare"]

_LAST_MOMENT = 1.0
"""Seconds that workers have beyond the drain timeout to say goodbye."""


def command(module: str, **arguments: object) -> list[str]:
    """Return the command line that runs ``main`` of a module of this package with these ``arguments``."""
    return inherit.command(f"openenv_gym.servers.{module}", [json.dumps(arguments)])


class Template:
    """The template's loop.

    Args:
        link: The connection to the parent.
        parent: The parent's process id.
        settings: The server's settings.
        target: What it serves.
    """

    def __init__(self, link: c.ControlSocket, parent: int, settings: ServerSettings, target: Target) -> None:
        self._link = link
        self._settings = settings
        self._target = target
        self._workers: dict[int, int] = {}
        # What the environment's module started when it was imported is not ours to end.
        self._spared = children()
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._parent = _watch(parent)

    def run(self) -> None:
        """Fork workers on request until the parent goes away."""
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        watched = [self._link.fileno(), self._wake.fileno(), *self._parent]
        while True:
            while (item := self._link.take()) is not None:  # some may have come together with the setup
                message, fds = item
                if isinstance(message, c.Fork):
                    self._fork(message.worker, fds)
            ready, _, _ = select.select(watched, [], [])
            self._reap()
            if self._link.fileno() in ready:
                if not self._link.fill():
                    return
            elif self._parent and self._parent[0] in ready:  # a fork of it still holds the other end
                return

    def linger(self) -> None:
        """Leave the workers a moment to close their environments, then end whatever is left."""
        deadline = time.monotonic() + self._settings.drain_timeout + _LAST_MOMENT
        while self._workers and (left := deadline - time.monotonic()) > 0:
            select.select([self._wake], [], [], left)
            self._reap()
        for pid in self._workers:
            _kill(os.killpg, pid)
        end_children(self._spared)

    def _fork(self, worker: int, fds: list[int]) -> None:
        control, board, log, _ = fds  # the last, the pipe's other end, is kept: without it a write could fail
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        started: c.Message
        try:
            if c.LOST in fds:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            if self._settings.start_method == "spawn":
                pid = self._spawn(parent, fds)
            elif (pid := os.fork()) == 0:
                self._become_worker(parent, control, board, log)
        except OSError as exc:  # such as a limit on processes: the workers that there are go on
            advice = "raise the limit (ulimit -u and -n, pids of a container) or use fewer workers"
            with contextlib.suppress(OSError):
                os.write(log, f"no process for a worker: {exc.strerror}; {advice}\n".encode())
            started = c.Exited(worker, os.EX_OSERR << 8)
        else:
            self._workers[pid] = worker
            started = c.Forked(worker, pid)
        for fd in fds:
            if fd != c.LOST:
                os.close(fd)
        self._tell(started)

    def _become_worker(self, parent: int, control: int, board: int, log: int) -> None:
        """Run the worker in this fork; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (self._wake.fileno(), self._waker.fileno(), self._link.fileno(), *self._parent):
                os.close(fd)
            prepare(parent, log)
            reseed()
            gc.enable()
            from .worker import run_worker

            run_worker(self._settings, self._target, control, board)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)

    def _spawn(self, parent: int, fds: list[int]) -> int:
        control, board, log, _ = fds
        setup = json.dumps({"target": self._target.text, "settings": self._settings.to_wire()})
        with tempfile.TemporaryFile() as file:  # the arguments of a process are seen by everybody
            file.write(setup.encode())
            file.flush()
            arguments = command(
                "spawned", parent=parent, control=control, board=board, log=log, setup=file.fileno()
            )
            for fd in (*fds, file.fileno()):
                os.set_inheritable(fd, True)
            return os.posix_spawn(sys.executable, arguments, dict(os.environ))

    def _reap(self) -> None:
        """Report the workers that ended, and end what their environments started."""
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        ended = False
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                worker = self._workers.pop(found.si_pid, None)
                if worker is not None:  # its process group has its id until it is reaped
                    _kill(os.killpg, found.si_pid)
                _, status = os.waitpid(found.si_pid, 0)
                ended = True
                if worker is not None:
                    self._tell(c.Exited(worker, status))
        if ended:
            for pid in children() - self._workers.keys() - self._spared:
                _kill(os.kill, pid)

    def _tell(self, message: c.Message) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and nobody is left to be told
            self._link.post(message)


def _watch(parent: int) -> list[int]:
    """Return a descriptor, if there are such, that becomes readable when the parent ends; outlive it then."""
    try:
        watched = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return []
    outlive_parent()
    return [watched]


def _kill(kill: Callable[[int, int], None], pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, signal.SIGKILL)


def prepare(parent: int, log: int) -> None:
    """Make this process a worker: its own group, gone with its parent, its output in ``log``."""
    os.setpgid(0, 0)
    die_with_parent(parent)
    adopt_orphans()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def main(arguments: list[str]) -> None:
    """Run the template; the body of its process."""
    ignore_stop_signals()
    given = json.loads(arguments[0])
    parent = given["parent"]
    die_with_parent(parent)
    adopt_orphans()
    link = c.ControlSocket(socket.socket(fileno=given["control"]))
    item = link.receive()
    if item is None or not isinstance(item[0], c.Setup):
        return
    settings = ServerSettings.from_wire(item[0].settings)
    exclusive = False
    try:
        target = resolve(item[0].target)
        if settings.start_method == "fork":
            target.preload()
            exclusive = target.is_exclusive()
            inherit.apply_filters()
            from . import worker as worker

            gc.collect()
            gc.disable()
            gc.freeze()
    except ConfigError as exc:
        link.post(c.Warm(exc.message))
        return
    except BaseException:
        link.post(c.Warm(traceback.format_exc()))
        return
    link.post(c.Warm(exclusive=exclusive))
    template = Template(link, parent, settings, target)
    template.run()
    template.linger()
