"""Counts what became of faults, and looks for what they left behind."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.support.serverproc import ServerProcess, descriptors, eventually

from .witness import EnvClient, Ledger

__all__ = ["Aftermath", "Table"]


class Table:
    """Point by outcome."""

    def __init__(self, title: str, points: Iterable[str]) -> None:
        self._title = title
        self._rows: dict[str, Counter[str]] = {point: Counter() for point in points}
        self._lock = threading.Lock()

    def add(self, point: str, ledger: Ledger, connections: int, expected: int = 1) -> None:
        """Count a fault: how many connections there were, and what the client was told."""
        outcome = "resumed" if connections > expected else "unharmed"
        if ledger.errors:
            outcome = f"{ledger.errors[0][1].code}"
        with self._lock:
            self._rows[point][outcome] += 1

    def least(self) -> int:
        """Return the smallest number of faults at a point."""
        return min(row.total() for row in self._rows.values())

    def outcomes(self, point: str) -> Counter[str]:
        """Return what became of the faults at a point."""
        return self._rows[point]

    def __str__(self) -> str:
        columns = sorted({outcome for row in self._rows.values() for outcome in row})
        width = max(len(name) for name in [*self._rows, self._title])
        lines = [f"{self._title:<{width}}  faults  " + "  ".join(columns)]
        for name, row in self._rows.items():
            cells = (f"{row[column] or '.':>{len(column)}}" for column in columns)
            lines.append(f"{name:<{width}}  {row.total():>6}  " + "  ".join(cells))
        return "\n".join(lines)


class Aftermath:
    """What a server and this process had before the faults, to be compared with what they have after them.

    Args:
        server: Started; a few sessions are opened and closed first, so that all it needs is there.
        folder: For the files of these.
    """

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server = server
        clients = [EnvClient(Ledger(str(folder / f"warm{n}")), server.url) for n in range(4)]
        for client in clients:
            client.open()
        for client in clients:
            client.close()
        self._idle()
        self._before = self._now()

    def check(self, ledgers: list[Ledger], slack: int = 0) -> None:
        """Wait for the sessions of clients that went to end, then compare."""
        self._idle()
        assert [wrong for ledger in ledgers if (wrong := ledger.wrong(slack))] == []
        assert [ledger.path for ledger in ledgers if ledger.open()] == [], "environments that were not closed"
        assert eventually(self._nothing_more), f"{self._before} became {self._now()}"

    def _nothing_more(self) -> bool:
        return all(now <= self._before.get(name, 0) for name, now in self._now().items())

    def _idle(self) -> None:
        assert eventually(lambda: self._server.capacity()["active"] == 0), self._server.capacity()

    def _now(self) -> dict[str, int]:
        """Count descriptors, threads and processes. A worker that is idle for a second has a thread less."""
        counts = {"own descriptors": descriptors(), "own threads": threading.active_count()}
        for pid, state in self._server.family().items():
            counts[f"{pid} {state == 'Z'}"] = 1
            counts[f"descriptors of {pid}"] = descriptors(pid)
            counts[f"threads of {pid}"] = len(list(Path(f"/proc/{pid}/task").iterdir()))
        return counts
