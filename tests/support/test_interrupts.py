"""Interrupts come while something is called, and disturb no report of what a finalizer raised."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.interrupts import interrupter, main_thread_alone

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    pytest.mark.timeout(method="thread"),
]


def test_calls_are_interrupted_or_give_their_result() -> None:
    report = sys.unraisablehook
    with interrupter(random.Random(0), 1e-3) as interrupts:
        with pytest.raises(KeyboardInterrupt):
            interrupts.call(lambda: time.sleep(20.0))
        assert interrupts.count == 1
    with interrupter(random.Random(0), 60.0) as interrupts:
        assert interrupts.call(lambda: 3) == 3
        assert interrupts.count == 0
    assert sys.unraisablehook == report
    signal.raise_signal(signal.SIGALRM)  # one that is late ends nothing


def test_an_interrupt_that_comes_while_one_is_handled_is_none_more(monkeypatch: pytest.MonkeyPatch) -> None:
    set_timer, times = signal.setitimer, 0

    def at_once(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        nonlocal times
        times += 1
        if seconds:
            interrupts.interrupt(signal.SIGALRM, None)
        return set_timer(which, 0)

    with interrupter(random.Random(0), 1e-3) as interrupts:
        monkeypatch.setattr(signal, "setitimer", at_once)
        with pytest.raises(KeyboardInterrupt):
            interrupts.call(lambda: 3)
    assert (interrupts.count, times) == (1, 3)  # to begin with, for the next interrupt, and to stop


def test_threads_leave_the_signal_to_the_main_thread() -> None:
    masks: list[Any] = []
    with main_thread_alone():
        thread = threading.Thread(target=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
        thread.start()
        thread.join()
    assert signal.SIGALRM in masks[0]
    assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_only_interrupts_go_unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []

    def report(lost: Any) -> None:
        reported.append(lost)
        interrupts.interrupt(signal.SIGALRM, None)  # does nothing now

    monkeypatch.setattr(sys, "unraisablehook", report)
    lost = [SimpleNamespace(exc_type=kind) for kind in (KeyboardInterrupt, KeyError)]
    with interrupter(random.Random(0), 1.0) as interrupts:

        def finalize() -> None:
            for each in lost:
                sys.unraisablehook(each)  # type: ignore[arg-type]
            interrupts.interrupt(signal.SIGALRM, None)

        with pytest.raises(KeyboardInterrupt):
            interrupts.call(finalize)
    assert reported == lost[1:]
