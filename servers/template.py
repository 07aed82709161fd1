"""The template: a small program that imports the environment's module once and forks workers from itself.

It has one thread, so a fork copies no lock that another thread holds; and it is exec'ed, so it inherits
neither the parent's event loop nor its threads. It is the workers' parent: it reaps them and reports how they
ended.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback

from . import control as c
from .processes import adopt_orphans, die_with_parent, reseed
from .settings import ServerSettings
from .targets import Target, resolve

__all__ = ["Template", "command", "main", "prepare"]

_BOOT = (
    "import json, sys; a = json.loads(sys.argv[1]); sys.path[:] = a['path'];"
    " from openenv_gym.servers.{0} import main; main(a)"
)


def command(module: str, **arguments: object) -> list[str]:
    """Return the command line that runs ``main(arguments)`` of a module of this package.

    The child gets this process's ``sys.path``: it finds the same modules, however they became importable.
    """
    boot = json.dumps({**arguments, "path": [os.path.abspath(entry) for entry in sys.path]})
    return [sys.executable, "-c", _BOOT.format(module), boot]


class Template:
    """The template's loop.

    Args:
        link: The connection to the parent.
        settings: The server's settings.
        target: What it serves.
    """

    def __init__(self, link: c.ControlSocket, settings: ServerSettings, target: Target) -> None:
        self._link = link
        self._settings = settings
        self._target = target
        self._workers: dict[int, int] = {}

    def run(self) -> None:
        """Fork workers on request until the parent goes away."""
        wake, write = socket.socketpair()
        wake.setblocking(False)
        write.setblocking(False)
        signal.set_wakeup_fd(write.fileno())
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        self._inherited = (wake.fileno(), write.fileno(), self._link.fileno())
        while True:
            ready, _, _ = select.select([self._link.sock, wake], [], [])
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    wake.recv(4096)
            self._reap()
            if self._link.sock in ready:
                if not self._link.fill():
                    return
                while (item := self._link.take()) is not None:
                    message, fds = item
                    if isinstance(message, c.Fork):
                        self._fork(message.worker, fds)

    def linger(self) -> None:
        """Leave the workers a moment to close their environments; the kernel kills those that remain."""
        signal.set_wakeup_fd(-1)
        signal.alarm(max(1, int(self._settings.drain_timeout)))
        signal.signal(signal.SIGALRM, lambda signum, frame: os._exit(0))
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()

    def _fork(self, worker: int, fds: list[int]) -> None:
        control, board, log = fds
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork() if self._settings.start_method == "fork" else 0
        if pid == 0 and self._settings.start_method == "fork":
            self._become_worker(parent, control, board, log)
        if self._settings.start_method == "spawn":
            pid = self._spawn(parent, control, board, log)
        for fd in fds:
            os.close(fd)
        self._workers[pid] = worker
        self._link.post(c.Forked(worker, pid))

    def _become_worker(self, parent: int, control: int, board: int, log: int) -> None:
        """Run the worker in this fork; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in self._inherited:
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

    def _spawn(self, parent: int, control: int, board: int, log: int) -> int:
        arguments = command(
            "spawned",
            parent=parent,
            control=control,
            board=board,
            log=log,
            target=self._target.text,
            settings=self._settings.to_wire(),
        )
        for fd in (control, board, log):
            os.set_inheritable(fd, True)
        return os.posix_spawn(sys.executable, arguments, dict(os.environ))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is not None:
                self._link.post(c.Exited(worker, status))


def prepare(parent: int, log: int) -> None:
    """Make this process a worker: its own group, gone with its parent, its output in ``log``."""
    os.setpgid(0, 0)
    die_with_parent(parent)
    adopt_orphans()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def main(arguments: dict[str, object]) -> None:
    """Run the template; the body of its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(int(str(arguments["parent"])))
    adopt_orphans()
    link = c.ControlSocket(socket.socket(fileno=int(str(arguments["control"]))))
    item = link.receive()
    if item is None or not isinstance(item[0], c.Setup):
        return
    settings = ServerSettings.from_wire(item[0].settings)
    try:
        target = resolve(item[0].target)
        if settings.start_method == "fork":
            target.preload()
            from . import worker as worker

            gc.collect()
            gc.disable()
            gc.freeze()
    except BaseException:
        link.post(c.Warm(traceback.format_exc()))
        return
    link.post(c.Warm())
    template = Template(link, settings, target)
    template.run()
    template.linger()
