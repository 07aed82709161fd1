"""Answers the pings of servers while their clients are busy elsewhere.

A server of OpenEnv closes a connection that left a ping unanswered for some 20 s, and the session is lost. A
trainer may well think for longer between two steps. One thread looks at all connections now and then.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Protocol

__all__ = ["Attended", "attend_to"]

#: Seconds between two looks; far less than a server's patience.
_PERIOD = 1.0


class Attended(Protocol):
    """A connection that may receive pings while nobody reads."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""

    def attend(self) -> None:
        """Answer pings, without waiting."""

    def forget(self) -> None:
        """Leave the connection to the parent process."""


_attended: weakref.WeakSet[Attended] = weakref.WeakSet()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def attend_to(link: Attended) -> None:
    """Attend to ``link`` until it is over or dropped."""
    global _thread
    with _lock:
        _attended.add(link)
        if _thread is None:
            _thread = threading.Thread(target=_attend, name="openenv-attendant", daemon=True)
            _thread.start()


def _attend() -> None:
    """Look at all connections now and then; end when there are none."""
    global _thread
    while True:
        time.sleep(_PERIOD)
        with _lock:
            links = [link for link in _attended if not link.over]
            if not links:
                _thread = None
                return
        for link in links:
            link.attend()
        del links, link


def _after_fork() -> None:
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    for link in list(_attended):
        link.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
