"""Interrupts at random moments of a call, as Ctrl-C brings them.

pytest-timeout wants the same signal; tests that use this are marked ``timeout(method="thread")``.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

__all__ = ["Interrupter", "collect_all", "interrupter", "main_thread_alone"]

_T = TypeVar("_T")


class Interrupter:
    """Calls something and interrupts it.

    Args:
        rng: Chooses the moments.
        longest: The first interrupt comes within so many seconds; more of them follow soon after each other.

    Attributes:
        count: How many calls were interrupted.
    """

    def __init__(self, rng: random.Random, longest: float) -> None:
        self.count = 0
        self._rng, self._longest = rng, longest
        self._interval = 0.0
        self._armed = self._handling = False
        self._report = sys.unraisablehook

    def call(self, work: Callable[[], _T]) -> _T:
        """Return what ``work()`` returns, or raise KeyboardInterrupt.

        ``work`` is a Python function, and calls what is under test with its arguments written out. Then the
        interpreter looks for no signal between the return of that and the assignment below; otherwise an
        interrupt could take the result from the caller, which nobody else can know.
        """
        first, self._interval = 1e-6 + self._rng.random() * self._longest, 5e-6 + self._rng.random() * 5e-5
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, first)
            result = work()
            self._armed = False
            return result
        except KeyboardInterrupt:
            self._armed = False
            self.count += 1
            raise
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if not self._armed or self._handling:  # a slow core still handles one when the next comes
            return
        self._handling = True
        # Only now: on a slow core signals at fixed intervals leave no time for anything else.
        signal.setitimer(signal.ITIMER_REAL, self._interval)
        self._handling = False
        raise KeyboardInterrupt

    def unraisable(self, lost: Any) -> None:
        """Report what a finalizer raised; an interrupt that came in one reaches nobody, and is no failure."""
        if threading.current_thread() is not threading.main_thread():  # where no signal comes
            self._report(lost)
            return
        armed, self._armed = self._armed, False  # one in the midst of a report would lose the report
        try:
            if lost.exc_type is not KeyboardInterrupt:
                self._report(lost)
        finally:
            self._armed = armed


def collect_all() -> None:
    """Find the sockets that an interrupt left between their making and a name.

    To be called when nothing of the test is left, so that it hears of them and not a later one.
    """
    for _ in range(3):  # what finalizers let go is found by the next round
        gc.collect()


@contextmanager
def interrupter(rng: random.Random, longest: float) -> Iterator[Interrupter]:
    """Yield an :class:`Interrupter`."""
    interrupts = Interrupter(rng, longest)
    report, sys.unraisablehook = sys.unraisablehook, interrupts.unraisable
    handler = signal.signal(signal.SIGALRM, interrupts.interrupt)
    try:
        yield interrupts
    finally:
        time.sleep(0.02)  # the last signal may be another thread's to take, and so be late
        signal.signal(signal.SIGALRM, handler if callable(handler) else interrupts.interrupt)
        sys.unraisablehook = report


@contextmanager
def main_thread_alone() -> Iterator[None]:
    """Let threads that are started meanwhile, and theirs, leave the signal to the main thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
