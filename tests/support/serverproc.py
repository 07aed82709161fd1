"""A real server in a process tree of its own, that can be counted, killed, and started again in its place."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["ROOT", "ServerProcess", "descriptors", "eventually", "serving"]

ROOT = Path(__file__).resolve().parents[2]
_MARK = "TEST_SERVER_MARK"
_WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None; "
_BOOT = "import sys; from openenv_gym.serve import main; sys.exit(main(sys.argv[1:]))"


def eventually(what: Callable[[], Any], timeout: float = 20.0) -> bool:
    """Wait until ``what`` returns something true; return whether it did."""
    end = time.monotonic() + timeout
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def descriptors(pid: int | str = "self") -> int:
    """Return how many descriptors a process has open, -1 when it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return -1


class ServerProcess:
    """``python -m openenv_gym.serve TARGET OPTIONS`` and all that comes of it.

    Args:
        target: What it serves.
        options: Its options; without ``--uds`` or ``--port`` it listens on a free port of loopback.
        under: A command that runs it, such as ``unshare --fork --pid``.
        uvloop: Whether it may use uvloop.
        log: Where its output goes.

    Attributes:
        url: Its base URL. A restarted server has the same.
        pid: Process id of the server, or of what ``under`` runs as the first process of a namespace.
    """

    def __init__(
        self,
        target: str,
        *options: str,
        under: Sequence[str] = (),
        uvloop: bool = True,
        log: Path | None = None,
    ) -> None:
        self._target, self._options, self._under = target, list(options), list(under)
        self._boot = _BOOT if uvloop else _WITHOUT_UVLOOP + _BOOT
        self._log = log
        self.mark = ""
        self.url = ""
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._place: socket.socket | None = None

    def start(self) -> str:
        """Start it, wait until it is ready, and return its base URL."""
        options = self._options
        if not {"--port", "--uds"} & set(options):
            options = [*options, "--port", str(self._port())]
        told, tell = os.pipe()
        self.mark = uuid.uuid4().hex
        output = self._log.open("ab") if self._log else None
        self._process = subprocess.Popen(
            [*self._under, sys.executable, "-c", self._boot, self._target, *options, "--ready-fd", str(tell)],
            cwd=ROOT,
            env=os.environ | {_MARK: self.mark, "OPENENV_LOG_LEVEL": "warning"},
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.DEVNULL,
            stderr=output or subprocess.DEVNULL,
            pass_fds=(tell,),
        )
        if output:
            output.close()
        os.close(tell)
        self.pid = self._process.pid
        with os.fdopen(told, "rb") as pipe:
            ready = select.select([pipe], [], [], 60.0)[0]
            line = pipe.readline() if ready else b""
        if not line:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self._log.read_text() if self._log else ''}")
        if self._under:
            (self.pid,) = _children(self.pid)
        self.url = msgspec.json.decode(line)["base_url"]
        return self.url

    def _port(self) -> int:
        """Return the port it listens on: held, so that nobody else gets it while the server is away."""
        if self._place is None:
            self._place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            weakref.finalize(self, self._place.close)
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._place.bind(("127.0.0.1", 0))
        port: int = self._place.getsockname()[1]
        return port

    def family(self) -> dict[int, str]:
        """Return every process that descends from this server, however it was re-parented: pid to state."""
        sign = f"{_MARK}={self.mark}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if sign in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        return found

    def template(self) -> int:
        """Return the template process, once there is one."""
        found: list[int] = []

        def look() -> bool:
            found[:] = self._templates()
            return len(found) == 1

        assert eventually(look), found
        return found[0]

    def _templates(self) -> list[int]:
        """Return what runs the template's program without a parent that does."""
        run = {pid for pid in self.family() if b"servers.template" in _command(pid)}
        return [pid for pid in run if _parent(pid) not in {0, *run}]  # 0: it ended meanwhile

    def workers(self) -> list[int]:
        """Return the worker processes: what the template forked."""
        return _children(self.template())

    def capacity(self) -> dict[str, Any]:
        """Return what ``/capacity`` says."""
        return self.get("/capacity")

    def get(self, path: str, timeout: float = 10.0) -> Any:
        """Return the JSON at ``path``; AssertionError if that is not what is there."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.dial(timeout)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, f"{path}: {response.status} {body!r}"
            return msgspec.json.decode(body)
        finally:
            connection.close()

    def dial(self, timeout: float = 10.0) -> socket.socket:
        """Return a connected socket."""
        if not self.url.startswith("unix:"):
            host, _, port = self.url.removeprefix("ws://").rpartition(":")
            return socket.create_connection((host, int(port)), timeout)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        sock.connect(self.url.removeprefix("unix:"))
        return sock

    def signal(self, number: int) -> None:
        """Send a signal to the server process."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 30.0) -> int:
        """Wait for its end and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self, timeout: float = 30.0) -> int:
        """Ask it to end, and return its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """Kill the server process alone."""
        assert self._process is not None
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        """Return what it printed."""
        return self._log.read_text(errors="replace") if self._log and self._log.exists() else ""


@contextlib.contextmanager
def serving(target: str, *options: str, **more: Any) -> Iterator[ServerProcess]:
    """Run a server; whatever is left of it at the end is killed, and an error."""
    server = ServerProcess(target, *options, **more)
    server.start()
    try:
        yield server
        code = server.stop()
        assert code == 0, f"exit code {code}:\n{server.log()}"
        assert eventually(lambda: not server.family()), f"left: {server.family()}"
    finally:
        for pid in server.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found.extend(int(child) for child in task.read_text().split())
    return found
