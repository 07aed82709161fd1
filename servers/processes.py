"""What a process does to itself before it runs environments (Linux; elsewhere these do nothing)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import sys
from collections.abc import Collection
from typing import NoReturn

__all__ = [
    "FORKS",
    "adopt_orphans",
    "adopts_orphans",
    "children",
    "die_with_parent",
    "end_children",
    "end_stray_fork",
    "ignore_stop_signals",
    "outlive_parent",
    "reseed",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent's calling thread ends; ``parent`` is its pid."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request was in force
        os._exit(0)


def outlive_parent() -> None:
    """Take :func:`die_with_parent` back."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def children() -> set[int]:
    """Return the children of this process's main thread, orphans included; none where nobody knows."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return set(map(int, file.read().split()))
    except OSError:
        return set()


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of descendants whose parent ended, so that none escapes; or do so no longer."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def adopts_orphans() -> bool:
    """Return whether this process does that."""
    answer = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def end_children(spared: Collection[int] = ()) -> None:
    """Kill and reap all children but ``spared``, and the orphans that they leave to this process."""
    while found := children().difference(spared):
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        for pid in found:
            os.waitpid(pid, 0)


class _Forks:
    """How many forks lie between the start of the program and this process."""

    def __init__(self) -> None:
        self.count = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.count += 1


FORKS = _Forks()


def end_stray_fork() -> NoReturn:
    """End the child of a fork in an environment that returned from the call instead of exiting.

    It would go on as its parent: serve the same session, on the same connection.
    """
    text = (
        "an environment forked, and the child came back out of the call: it ends here; use os._exit() in it\n"
    )
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
    os._exit(70)


def ignore_stop_signals() -> None:
    """Leave stopping to the parent: Ctrl-C on a terminal reaches every process of the group.

    By handlers and not by SIG_IGN, which the programs that an environment starts would inherit.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)


def _ignore(number: int, frame: object) -> None:
    pass


def reseed() -> None:
    """Give this fork its own random streams; it inherited those of the template."""
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
