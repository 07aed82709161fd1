"""Whether and how long a receiver tries before it lets the kernel put it to sleep.

To wake a sleeping process on another core costs tens of microseconds on a virtual CPU. A receiver that
tries without waiting, yielding the core between tries, gets a quick reply in a fraction of that. It must know
when to stop: on a busy machine its tries take time away from whoever is to send the reply.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import monotonic

from ..errors import ConfigError
from ..protocol.reader import FrameReader

__all__ = ["Poller", "cpu_quota", "possible", "worthwhile"]

#: Seconds to try for as long as nothing else was learned, and at most.
_SHORT = 120e-6
_LONG = 1e-3
#: Seconds that a yield takes only if somebody else wants the core.
_CROWDED = 20e-6
#: How many yields of a long wait may take longer, and up to which share of the limit: the tick of the clock
#: alone can take 20 microseconds on a virtual CPU.
_CHANCES = 2
_HARMLESS = 0.125
_BEARABLE = 1e-3

#: The share of the newest wait in what is learned.
_PACE = 0.125

_MOST = 8
_MISS = 3
_PAUSE = 64

#: A busy neighbour may keep a yielded core for milliseconds; then the pause grows with what was lost, so that
#: polling costs a receive no more than a few hundredths of its time.
_DEAR = 2 * _SHORT
#: So much of a short one; it grows with the limit.
_LOST_A_RECEIVE = 2e-6


class Poller:
    """Tries to receive without waiting, as long as that has paid off lately.

    How long it tries is learned: about twice as long as what it waits for took lately. So it waits for many
    lanes as well as for one, and does not try for long where nothing is to be had that quickly.

    Args:
        tries: Each ``next`` receives into the reader's kept buffer without waiting, and gives the number of
            bytes or raises ``BlockingIOError``.

    Attributes:
        patient: Whether to bear with neighbours on the core for longer: for who has long work to do after
            each receive, and would be put on the core of somebody else when it wakes up.
    """

    __slots__ = ("_begun", "_credit", "_limit", "_pause", "_tries", "patient")

    def __init__(self, tries: Iterator[int]) -> None:
        self._tries = tries
        self._credit = _MOST
        self._pause = 0
        self._limit = _SHORT
        self.patient = False
        self._begun: float | None = None

    def receive(self, reader: FrameReader) -> int:
        """Receive into ``reader`` and return the number of bytes, 0 at the end, -1 if nothing came."""
        if self._pause:
            self._pause -= 1
            return -1
        rest, limit = os.sched_yield, self._limit
        if self.patient:
            crowded, chances = _BEARABLE, _CHANCES
        else:
            crowded, chances = (limit * _HARMLESS, _CHANCES) if limit > 2 * _SHORT else (_CROWDED, 0)
        begun = before = monotonic()
        while True:
            rest()
            now = monotonic()
            # A long yield counts as a miss even if the reply came meanwhile: to be put to sleep and woken
            # would have been quicker, since the scheduler favours one that sleeps over one that yields.
            if now - before > _CROWDED:
                chances -= 1
                if chances < 0 or now - before > crowded:
                    self._miss(now - before)
                    return -1
                if self.patient:
                    begun += now - before
            if now - begun > limit:
                self._begun = begun
                self._miss(0.0)
                return -1
            try:
                for reader.arrived in self._tries:  # one step, or an interrupt could lose the number
                    break
            except BlockingIOError:
                before = now
            else:
                if self._credit < _MOST:
                    self._credit += 1
                if limit > _SHORT:
                    self._limit = max(limit + (2 * (now - begun) - limit) * _PACE, _SHORT)
                return reader.arrived

    def follow(self, reader: FrameReader, tries: Iterator[int]) -> int:
        """Receive more of a message under way, which cannot be far; return as :meth:`receive` does."""
        if self._pause:
            return -1
        begun = before = now = monotonic()
        while now - begun <= _SHORT and now - before <= _CROWDED:
            before = now
            try:
                for reader.arrived in tries:
                    break
            except BlockingIOError:
                os.sched_yield()
                now = monotonic()
            else:
                return reader.arrived
        return -1

    def learn(self) -> None:
        """Note that what :meth:`receive` did not wait for has come."""
        if self._begun is not None:
            took, self._begun = monotonic() - self._begun, None
            if took < _LONG:
                self._limit = max(self._limit, min(2 * took, _LONG))

    def _miss(self, lost: float) -> None:
        if lost > _DEAR:
            pause = lost / _LOST_A_RECEIVE * (_SHORT / self._limit)
            # After long receives that went well it may be chance; if not, the next one pays in full.
            chance = self._credit == _MOST and self._limit > 2 * _SHORT
            self._pause = 1 if chance else int(pause)
            self._credit = 0
            return
        self._credit -= _MISS
        if self._credit < 0:
            self._credit = 0
            self._pause = _PAUSE


def possible() -> bool:
    """Return whether this system can poll."""
    return sys.platform == "linux" and hasattr(socket, "MSG_DONTWAIT") and hasattr(os, "sched_yield")


def worthwhile() -> bool:
    """Return whether polling can help here: the system can do it and no CPU quota below one forbids it.

    ``OPENENV_POLL=0`` turns it off.

    Raises:
        ConfigError: ``OPENENV_POLL`` is neither 0 nor 1.
    """
    asked = os.environ.get("OPENENV_POLL", "1")
    if asked not in ("0", "1"):
        raise ConfigError(f"OPENENV_POLL must be 0 (off) or 1 (on, where it helps), not {asked!r}")
    return possible() and asked == "1" and _own_quota() >= 1


@cache
def _own_quota() -> float:
    return cpu_quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))


def cpu_quota(mount: Path, membership: Path) -> float:
    """Return how many CPUs the control groups of this process allow it; infinity: as many as there are.

    Args:
        mount: Where the control groups are mounted, version 1 or 2.
        membership: File that says which groups the process is in.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return float("inf")
    quota = float("inf")
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            roots = [mount, mount / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mount / controllers, mount / "cpu"]
        else:
            continue
        for root in roots:
            # In a container the path may be the host's; the root of the mount then is the own group.
            path = root / group.strip("/")
            for folder in (path, *path.parents):
                quota = min(quota, _quota_of(folder))
                if folder == root:
                    break
    return quota


def _quota_of(folder: Path) -> float:
    try:
        if (folder / "cpu.max").exists():
            allowed, period = (folder / "cpu.max").read_text().split()
        else:
            allowed = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
    except OSError:
        return float("inf")
    return float("inf") if allowed in ("max", "-1") else int(allowed) / int(period)
