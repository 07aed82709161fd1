"""Counts what became of faults, and looks for what they left behind."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
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
        if ledger.errors:
            self.count(point, str(ledger.errors[0][1].code))
        else:
            self.count(point, "recovered" if connections > expected else "unharmed")

    def count(self, point: str, outcome: str) -> None:
        """Count a fault and what became of it."""
        with self._lock:
            self._rows[point][outcome] += 1

    def least(self) -> int:
        """Return the smallest number of faults at a point."""
        return min(row.total() for row in self._rows.values())

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
        server: A started server.
        folder: For the files of some sessions that are opened and closed first: it may need more then.
    """

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._warm()
        self._before = self._now()

    def check(self, ledgers: Sequence[Ledger], *, slack: int = 0, killed: bool = False) -> None:
        """Wait until the sessions of clients that went have ended, then compare.

        Args:
            ledgers: What the clients were told.
            slack: How many requests may be executed without a client that knows, since it was killed.
            killed: Whether environments were killed, and so not closed.
        """
        self._idle()
        assert [wrong for ledger in ledgers if (wrong := ledger.wrong(slack))] == []

        def left() -> list[str]:
            return [ledger.path for ledger in ledgers if ledger.open()]

        assert killed or eventually(lambda: not left()), f"environments that were not closed: {left()}"
        self._warm()
        assert eventually(self._nothing_more), f"{self._before} became {self._now()}"

    def _warm(self) -> None:
        clients = [EnvClient(Ledger(str(self._folder / f"warm{n}")), self._server.url) for n in range(4)]
        for client in clients:
            client.open()
        for client in clients:
            client.close()
        self._idle()

    def _idle(self) -> None:
        assert eventually(lambda: self._server.capacity()["active"] == 0), self._server.capacity()

    def _nothing_more(self) -> bool:
        return all(now <= self._before[name] for name, now in self._now().items())

    def _now(self) -> dict[str, int]:
        family = self._server.family()
        return {
            "own descriptors": descriptors(),
            "own threads": threading.active_count(),
            "the server's processes": len(family),
            "their descriptors": sum(max(descriptors(pid), 0) for pid in family),  # some may be gone
            "their threads": sum(map(_threads, family)),
        }


def _threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0
