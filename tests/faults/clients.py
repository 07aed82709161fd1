"""Client processes that can be killed: ``python -m tests.faults.clients JSON`` forks one for each item.

It prints their process ids on one line and ends when they have. An item has ``kind``, ``url``, ``path``,
``requests`` and ``settings``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.support.serverproc import ROOT

from .witness import EnvClient, Ledger, RawClient

__all__ = ["Clients", "main"]

_KINDS = {kind.__name__: kind for kind in (EnvClient, RawClient)}


class Clients:
    """The processes.

    Args:
        items: What each does.

    Attributes:
        pids: Their process ids.
    """

    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.clients", json.dumps(items)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.pids = [int(pid) for pid in self._process.stdout.readline().split()]

    def wait(self) -> list[int]:
        """Return how each ended: its exit code, negative for a signal."""
        assert self._process.stdout is not None
        codes = [int(code) for code in self._process.stdout.readline().split()]
        self._process.stdout.close()
        self._process.wait()
        return codes


def _run(item: dict[str, Any]) -> None:
    client = _KINDS[item["kind"]](Ledger(item["path"]), item["url"], **item["settings"])
    client.run(item["requests"])


def main() -> None:
    """Fork, wait, and say how each ended."""
    pids = []
    for item in json.loads(sys.argv[1]):
        pid = os.fork()
        if pid == 0:
            try:
                _run(item)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    print(*pids, flush=True)
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)


if __name__ == "__main__":
    main()
