"""The sockets a server listens on, made by us: port 0 is known early, and Unix sockets stay private."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from openenv_gym.errors import ConfigError, StartupError

from .settings import ServerSettings

__all__ = ["Listening"]

_LONGEST_PATH = 103
"""Bytes of a path that fit a Unix socket's address on every system; clients have the same limit."""


class Listening:
    """The bound sockets of a server.

    Args:
        settings: Where to listen.

    Attributes:
        sockets: Bound, not yet listening.
        base_url: What clients connect to, such as ``ws://127.0.0.1:8000`` or ``unix:/run/echo.sock``.

    Raises:
        ConfigError: The place cannot be listened on, ever.
        StartupError: It is taken.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._file: tuple[Path, int, int] | None = None
        if settings.uds is not None:
            self.sockets = [self._bind_unix(settings.uds)]
            self.base_url = f"unix:{os.path.abspath(settings.uds)}"
        else:
            self.sockets = _bind_tcp(settings.host, settings.port)
            self.base_url = _tcp_url(settings.host, self.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening, and remove the file of a Unix socket if it is still ours."""
        for sock in self.sockets:
            sock.close()
        if self._file is not None:
            path, device, inode = self._file
            with contextlib.suppress(OSError):
                found = path.lstat()
                if (found.st_dev, found.st_ino) == (device, inode):
                    path.unlink()
            self._file = None

    def _bind_unix(self, text: str) -> socket.socket:
        if not hasattr(socket, "AF_UNIX"):
            raise ConfigError("--uds: this system has no Unix sockets; use --host and --port", option="uds")
        path = Path(text)
        if len(os.fsencode(path.absolute())) > _LONGEST_PATH:
            raise ConfigError(
                f"--uds: the path {str(path.absolute())!r} is longer than the {_LONGEST_PATH} bytes that a"
                " socket's path may have; use a shorter one",
                option="uds",
            )
        _clear(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(OSError):
                os.fchmod(sock.fileno(), 0o600)  # on Linux bind() takes the mode over: no moment with another
            sock.bind(text)
            path.chmod(0o600)
            found = path.lstat()
        except OSError as exc:
            sock.close()
            raise ConfigError(f"--uds: cannot listen on {text!r}: {exc}", option="uds") from None
        self._file = (path.absolute(), found.st_dev, found.st_ino)
        return sock


def _clear(path: Path) -> None:
    """Remove the socket file that a dead server left at ``path``."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as exc:
        raise ConfigError(f"--uds: cannot look at {str(path)!r}: {exc}", option="uds") from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"--uds: {str(path)!r} exists and is no socket; use another path", option="uds")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise StartupError(f"another server listens on {str(path)!r}; stop it, or use another path")


def _bind_tcp(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of ``host``, all on one port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise ConfigError(f"--host: {host!r} is no address of this machine: {exc}", option="host") from None
    sockets: list[socket.socket] = []
    problems: list[str] = []
    for family, address in dict.fromkeys((item[0], item[4]) for item in found):
        place = (address[0], port, *address[2:])
        try:
            sock = _bind(family, place)
        except OSError as exc:
            problems.append(f"{address[0]} port {port}: {exc.strerror or exc}")
            continue
        sockets.append(sock)
        port = sock.getsockname()[1]
    if not sockets:
        raise StartupError(
            f"cannot listen on {'; '.join(problems)}. Use another --port; 0 lets the system pick one"
        )
    return sockets


def _bind(family: int, place: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # '::' means every address of the machine, those of IPv4 too; any other is itself alone.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place[0] != "::")
        sock.bind(place)
    except BaseException:
        sock.close()
        raise
    return sock


def _tcp_url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)
    return f"ws://[{reachable}]:{port}" if ":" in reachable else f"ws://{reachable}:{port}"
