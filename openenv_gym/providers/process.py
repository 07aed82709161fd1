"""The embedded server: a child process on a Unix socket in a private folder.

The child is in a process session of its own, so Ctrl-C reaches the user's process alone, and it watches a
descriptor of its owner, so it goes however the owner goes. Its output goes into a file in the folder, which
is read without a thread when something happens anyway. The file is locked for as long as anybody writes to
it, which is how a later process tells what a killed one left behind.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ..client.deadline import deadline_in, time_left
from ..errors import ConfigError, StartupError, StartupTimeoutError
from .base import Provider
from .inherit import FILTERS, command, filters_text
from .output import Output, lock_file

__all__ = ["ProcessProvider"]

_PREFIX = "openenv-gym-"
_LOG_NAME = "server.log"
_LONGEST_SOCKET_PATH = 103
_STOP_TIMEOUT = 6.0
#: Who was never ready has no session to end in order.
_STILLBORN_TIMEOUT = 0.5
_NEWBORN = 60.0
#: Options that the provider sets itself.
_OWN = ("uds", "host", "port", "token", "ready_fd", "owner_fd", "insecure")
#: What an embedded server does unless ``provider_kwargs`` say otherwise.
_DEFAULTS = {"exit_when_idle": 60.0, "idle_timeout": None, "drain_timeout": 3.0}
#: Variables that are about other servers, or about this client.
_NOT_INHERITED = (
    *(f"OPENENV_{name.upper()}" for name in _OWN),
    "OPENENV_BASE_URL",
    "OPENENV_PROVIDER",
    "OPENENV_PROVIDER_KWARGS",
    "OPENENV_HEADERS",
    "OPENENV_KEEPALIVE",
    "OPENENV_MODE",
)


class ProcessProvider(Provider):
    """Runs ``python -m openenv_gym.serve`` as a child of this process.

    It has this process's ``sys.path``, working folder and warning filters. ``options`` are options of that
    command (``workers=2``).
    """

    name = "process"

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        for option in options:
            if option in _OWN:
                raise ConfigError(f"provider_kwargs: {option!r} is set by the provider; leave it out")
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._ready = -1
        self._pid = 0
        self._announced = False
        self._said: dict[str, Any] = {}
        self._exit_code: int | None = None
        self._output = Output()

    def start(self) -> str:
        """Start the child; over TCP its port is not known yet. See :meth:`Provider.start`."""
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        except OSError as exc:
            raise StartupError(
                f"the server for {self.target!r} needs a temporary folder: {exc}; set TMPDIR"
            ) from exc
        self._output.open(self._folder / _LOG_NAME)
        place = self._folder / "s"
        unix = hasattr(socket, "AF_UNIX") and len(os.fsencode(place)) <= _LONGEST_SOCKET_PATH
        # On TCP anybody on this machine could connect.
        self.token = None if unix else secrets.token_urlsafe(24)
        self._spawn({"uds": str(place)} if unix else {"host": "127.0.0.1", "port": 0})
        return f"unix:{place}" if unix else "ws://127.0.0.1:0"

    def wait_ready(self, timeout: float | None) -> None:
        """Wait for the child's announcement. See :meth:`Provider.wait_ready`."""
        if self._ready >= 0:
            self._said = json.loads(self._announcement(deadline_in(timeout)))

    def located(self, base_url: str) -> str:
        """Return the address that the child announced."""
        return str(self._said["base_url"])

    def alive(self) -> bool:
        """Return whether the child runs; a forked child of its owner may ask, too."""
        if self._pid == 0:
            return False
        if self._pidfd >= 0:
            return not select.select([self._pidfd], [], [], 0)[0]
        if self.owner == os.getpid():
            return self._poll() is None
        try:
            os.kill(self._pid, 0)
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End the child, if this process is its owner, and remove its folder."""
        self._close("_ready")
        if self.owner == os.getpid():
            if self._process is not None:
                self._end(self._process)
            if self._folder is not None:
                self.forward()
                shutil.rmtree(self._folder, ignore_errors=True)
        self._close("_pidfd")
        self._process, self._pid, self._folder = None, 0, None
        # From here on a server that this process starts is its own.
        self.owner = os.getpid()

    def logs(self, lines: int = 50) -> str:
        """Return the last lines of the child's output."""
        return self._output.tail(lines)

    def forward(self) -> None:
        """Log what was printed since the last call, once: in the process that owns the child."""
        if self.owner == os.getpid():
            self._output.forward()

    def ending(self) -> str:
        """Return how the child ended."""
        if self.owner == os.getpid():
            self._poll()
        code = self._exit_code
        if code is None:
            return ""
        return f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"

    @classmethod
    def sweep(cls) -> None:
        """Remove the folders of children that were killed together with their owners."""
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                _sweep(folder)

    # -- inside

    def _spawn(self, place: dict[str, Any]) -> None:
        environ = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        environ[FILTERS] = filters_text()
        if self.token is not None:
            environ["OPENENV_TOKEN"] = self.token
        self._ready, write = map(_above_standard, os.pipe())
        owner = _above_standard(_owner_descriptor())
        options = {**_DEFAULTS, **self.options, **place, "ready_fd": write, "owner_fd": owner}
        try:
            self._process = subprocess.Popen(
                command("openenv_gym.serve", [self.target, *_arguments(options)]),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=self._output.fileno(),
                stderr=subprocess.STDOUT,
                pass_fds=(write, owner),
                start_new_session=True,
            )
        except OSError as exc:
            about = ""
            if exc.errno == errno.E2BIG:
                about = "; sys.path or the environment variables are too long to be passed on"
            raise StartupError(f"the server for {self.target!r} cannot be started: {exc}{about}") from exc
        finally:
            os.close(write)
            os.close(owner)
        self._pid = self._process.pid
        self._announced, self._exit_code = False, None
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self._pid)

    def _announcement(self, deadline: float | None) -> bytes:
        """Return the line that the child writes when it is ready."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._ready], [], [], time_left(deadline))[0]:
                span = self._allowed or 0.0
                raise StartupTimeoutError(
                    f"the server for {self.target!r} was not ready within startup_timeout={span:g} s."
                    f" {self._last_words()}",
                    log=self.logs(),
                )
            data = os.read(self._ready, 4096)
            if not data:
                raise self._failure()
            line += data
        self._close("_ready")
        self._announced = True
        return line

    def _failure(self) -> StartupError:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._exit_code = self._process.wait(_STOP_TIMEOUT)
        how = self.ending() or "it closed its end"
        return StartupError(
            f"the server for {self.target!r} did not start ({how}). {self._last_words()}",
            log=self.logs(),
            exit_code=self._exit_code,
        )

    def _last_words(self) -> str:
        log = self.logs(30)
        return f"Its last lines:\n{log}" if log else "It printed nothing."

    def _poll(self) -> int | None:
        if self._process is not None:
            self._exit_code = self._process.poll()
        return self._exit_code

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT if self._announced else _STILLBORN_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._exit_code = process.returncode

    def _close(self, name: str) -> None:
        fd = getattr(self, name)
        setattr(self, name, -1)
        if fd >= 0:
            os.close(fd)


def _above_standard(fd: int) -> int:
    """Return a descriptor that is none of the standard ones, which a child has its own of."""
    if fd > 2:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def _owner_descriptor() -> int:
    """Return a descriptor that becomes readable when this process, not only this thread, ends."""
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(os.getpid())
    read, write = os.pipe()
    _held.append(write)
    return read


#: Ends of pipes that close when this process (and what it forked) ends.
_held: list[int] = []


def _arguments(options: dict[str, Any]) -> list[str]:
    """Return options as a command line."""
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None:
            value = "none"
        elif isinstance(value, bool):
            value = "on" if value else "off"
        elif isinstance(value, dict):
            value = json.dumps(value)
        elif isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        arguments.append(f"{flag}={value}")
    return arguments


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _sweep(folder: Path) -> None:
    about = folder.lstat()
    if hasattr(os, "getuid") and about.st_uid != os.getuid():
        return
    if not folder.is_dir() or folder.is_symlink() or time.time() - about.st_mtime < _NEWBORN:
        return
    # A folder with anything else in it is not ours, whatever it is called; one of ours without its log is the
    # rest of an earlier sweep.
    if set(os.listdir(folder)) <= {"s", _LOG_NAME} and lock_file(folder / _LOG_NAME):
        shutil.rmtree(folder, ignore_errors=True)
