"""Runs a server: as a process that obeys signals, or in a thread of another program.

Only what is needed to obey a signal is imported at first; the rest comes once the handlers are in place.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openenv_gym.errors import ConfigError

from .processes import adopt_orphans, adopts_orphans
from .reaper import STOP_SIGNALS, run_under_init
from .settings import ServerSettings

if TYPE_CHECKING:
    from .listening import Listening
    from .server import StopRequest
    from .targets import Target

__all__ = ["ServerThread", "check_descriptors", "run", "serve_in_thread"]

_LOG = logging.getLogger("openenv_gym.server")
_MOST_FILES = 1 << 20


def run(settings: ServerSettings, text: str) -> int:
    """Serve the target that ``text`` names until a signal comes; returns the exit code.

    SIGTERM and SIGINT (Ctrl-C) drain: no new sessions, running calls finish, environments are closed. It then
    returns 0. The main thread must call this. As process 1 it reaps orphans, too.

    Raises:
        ConfigError: The text names nothing, or a setting cannot be carried out.
        StartupError: The server could not start.
    """
    if os.getpid() == 1:
        return run_under_init(lambda: _run(settings, text))
    return _run(settings, text)


def _run(settings: ServerSettings, text: str) -> int:
    signals = _Signals()
    with signals.handled():
        settings.check_exposure()
        _configure_logging(settings.log_level)
        if not (settings.is_local or settings.token):
            _LOG.warning("--insecure: anyone who reaches %s may use this server", settings.host)
        _raise_file_limit()
        check_descriptors(settings)
        from .targets import resolve

        target = resolve(text)
        before = adopts_orphans()
        if settings.worker_count:
            adopt_orphans()
        try:
            _serve(settings, target, signals)
        finally:
            adopt_orphans(before)
    return 0


class _Signals:
    """Counts stop signals, before and after there is a server to be stopped."""

    def __init__(self) -> None:
        self.count = 0
        self.stop: Callable[[], None] | None = None

    def __call__(self, number: int, frame: object) -> None:
        self.count += 1
        if self.stop is not None:
            self.stop()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        before = {number: signal.signal(number, self) for number in STOP_SIGNALS if not _ignored(number)}
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def connect(self, stop: StopRequest) -> None:
        """Pass the signals that came, and those to come, to ``stop``."""
        self.stop = stop
        for _ in range(self.count):
            stop()


def _ignored(number: int) -> bool:
    """Whether whoever started us chose that this signal means nothing, as nohup does."""
    return number != signal.SIGTERM and signal.getsignal(number) is signal.SIG_IGN


def _serve(settings: ServerSettings, target: Target, signals: _Signals) -> None:
    from .listening import Listening
    from .pool import Pool

    listening = Listening(settings)
    try:
        pool = Pool(settings, target)
        pool.start()  # imports the environment while we import the rest

        from .server import Server, StopRequest, run_loop

        stop = StopRequest()
        signals.connect(stop)

        def ready(base_url: str) -> None:
            _LOG.info("serving %s (%s) on %s", target.text, target.how, base_url)
            if settings.ready_fd is not None:
                _announce(settings.ready_fd, base_url)

        run_loop(Server(settings, target, listening, pool).serve(stop, ready))
    finally:
        listening.close()


class ServerThread:
    """A server in a thread of this program, with an event loop of its own and without signal handlers.

    Made for tests and debuggers: with ``workers=0`` the environments run in this process, too.

    Args:
        settings: The server's settings.
        target: What to serve; a text is resolved.

    Attributes:
        base_url: What clients connect to, once it is started.
    """

    def __init__(self, settings: ServerSettings, target: Target | str) -> None:
        from .server import StopRequest
        from .targets import resolve

        self.base_url = ""
        self._settings = settings
        self._target = resolve(target) if isinstance(target, str) else target
        self._stop = StopRequest()
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Start the server; returns its base URL once sessions can be had.

        Raises:
            OpenEnvError: It could not start.
        """
        from .listening import Listening

        self._settings.check_exposure()
        listening = Listening(self._settings)
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="openenv-server", daemon=True
        )
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self.base_url

    @property
    def alive(self) -> bool:
        """Whether it runs: it may have ended by itself, because it was idle or failed."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Drain the server and wait for its end. May be called more than once."""
        if self._thread is None:
            return
        self._stop()
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, listening: Listening) -> None:
        from .pool import Pool
        from .server import Server, run_loop

        try:
            # Here and not in start(): a worker's life is tied to the thread that started it.
            pool = Pool(self._settings, self._target)
            pool.start()
            run_loop(Server(self._settings, self._target, listening, pool).serve(self._stop, self._ready))
        except BaseException as exc:
            self._error = exc
        finally:
            listening.close()
            self._started.set()

    def _ready(self, base_url: str) -> None:
        self.base_url = base_url
        self._started.set()


def serve_in_thread(settings: ServerSettings, target: Target | str) -> ServerThread:
    """Return a server that was started in a thread; ``stop()`` ends it.

    Raises:
        OpenEnvError: It could not start.
    """
    server = ServerThread(settings, target)
    server.start()
    return server


def check_descriptors(settings: ServerSettings) -> None:
    """Check the descriptors that were inherited.

    Raises:
        ConfigError: One is not open.
    """
    for name in ("ready_fd", "owner_fd"):
        fd = getattr(settings, name)
        if fd is None:
            continue
        try:
            os.fstat(fd)
        except OSError as exc:
            raise ConfigError(f"--{name.replace('_', '-')} {fd}: {exc.strerror}", option=name) from None


def _configure_logging(level: str) -> None:
    """Send our log and uvicorn's complaints to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, lowest in (("openenv_gym", logging.DEBUG), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(max(lowest, logging.getLevelName(level.upper())))


def _raise_file_limit() -> None:
    """Allow as many descriptors as the system lets us: each session has some."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _announce(fd: int, base_url: str) -> None:
    """Tell whoever waits on ``fd`` that the server is ready."""
    try:
        os.write(fd, json.dumps({"base_url": base_url, "pid": os.getpid()}).encode() + b"\n")
        os.close(fd)
    except OSError as exc:
        _LOG.warning("--ready-fd %d: nobody was told that the server is ready: %s", fd, exc)
