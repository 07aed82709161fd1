"""What a child process prints: a file it appends to, read from time to time."""

from __future__ import annotations

import logging
import os
from pathlib import Path

__all__ = ["Output", "lock_file"]

_LOG = logging.getLogger("openenv_gym.server")
_LONGEST = 16 << 20
_TAIL = 64 << 10


class Output:
    """The output of a child process, and how far it was read.

    The descriptor stays open after the file is removed, so the last words of a dead child can be read.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._read = 0
        self._partial = b""

    def open(self, path: Path) -> None:
        """Start with a new file, locked for as long as it is open anywhere."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._read, self._partial = 0, b""
        _lock(self._fd, wait=True)

    def fileno(self) -> int:
        """Return the descriptor that the child shall write to."""
        return self._fd

    def tail(self, lines: int) -> str:
        """Return the last lines."""
        if self._fd < 0:
            return ""
        size = os.fstat(self._fd).st_size
        text = _read_at(self._fd, _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-lines:])

    def forward(self) -> None:
        """Log what was printed since the last call, line by line."""
        if self._fd < 0:
            return
        size = os.fstat(self._fd).st_size
        if not _LOG.isEnabledFor(logging.INFO):
            self._read, self._partial = size, b""
        while self._read < size:
            data = _read_at(self._fd, min(size - self._read, 1 << 20), self._read)
            if not data:
                break
            self._read += len(data)
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                _LOG.info("%s", line.decode("utf-8", "replace").rstrip("\r"))
        if size > _LONGEST and os.fstat(self._fd).st_size == self._read:
            # The child appends, so it goes on at the new end.
            os.truncate(self._fd, 0)
            self._read = 0


def lock_file(path: Path) -> bool:
    """Return whether nobody has ``path`` open any more (or it is not there)."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return _lock(fd, wait=False)
    finally:
        os.close(fd)


def _lock(fd: int, *, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError:
        return wait
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _read_at(fd: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)
