"""What the first process of a container has to do: pass signals on, and reap every orphan.

A server that is process 1 forks at once. The child is the server; the process that stays does nothing else,
so it can reap whatever ends without taking an exit status that the server waits for.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

__all__ = ["STOP_SIGNALS", "run_under_init"]

#: What asks a server to stop.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)


def run_under_init(work: Callable[[], int]) -> int:
    """Run ``work`` in a child and be its init; returns in both.

    The stop signals are blocked in the child until ``work`` has its handlers and unblocks them; none is lost.

    Returns:
        In the child, what ``work`` returned; in the init, the exit code to end with: the child's, or 128 and
        the signal that killed it.
    """
    watched = {*STOP_SIGNALS, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if child == 0:
        # Ctrl-C on a terminal reaches a whole process group; the child shall get it once, from the init.
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        return work()
    while True:
        number = signal.sigwait(watched)
        if number == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                return code
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)


def _reap(child: int) -> int | None:
    """Reap all that ended; return the exit code of ``child`` if it was among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code
