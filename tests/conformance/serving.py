"""Servers of every make for the tests: where sessions run, how data reaches them, where they listen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from openenv_gym.servers.run import ServerThread
from openenv_gym.servers.settings import ServerSettings

__all__ = ["CELLS", "PAIRS", "Cell", "serve"]


class Cell(NamedTuple):
    """A make of server."""

    worker: str
    path: str
    address: str

    def __str__(self) -> str:
        return "-".join(self)

    @property
    def opposite(self) -> Cell:
        return _OPPOSITE[self]


CELLS = [Cell(*names) for names in product(("thread", "process"), ("handover", "asgi"), ("tcp", "unix"))]
_OPPOSITE = dict(zip(CELLS, reversed(CELLS), strict=True))

#: A target served by both cells of a pair meets every worker, path and address; the pairs meet every two.
PAIRS = [(cell, cell.opposite) for cell in CELLS if cell.worker == "thread"]


@contextmanager
def serve(target: str, cell: Cell, folder: Path, **settings: Any) -> Iterator[str]:
    """Serve ``target``; yields the server's base URL."""
    place: dict[str, Any] = {"port": 0} if cell.address == "tcp" else {"uds": str(folder / f"{cell}.sock")}
    workers = 1 if cell.worker == "process" else 0
    with ServerThread(
        ServerSettings(workers=workers, handover=cell.path == "handover", **place, **settings), target
    ) as server:
        yield server.base_url
