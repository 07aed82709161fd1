"""An environment that writes down what is done to it, and clients that write down what they were told."""

from __future__ import annotations

import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import take_settings
from openenv_gym.client.sync import Connection
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import OpenEnvError, ResetNeededError
from openenv_gym.protocol.messages import Call, Reset, Set
from tests.support.faultenvs import CounterEnv, Step, note, notes

__all__ = [
    "HOLD",
    "TARGET",
    "Client",
    "EnvClient",
    "HeldEnv",
    "Ledger",
    "RawClient",
    "WitnessEnv",
    "make_client",
]

TARGET = "tests.faults.witness:WitnessEnv"
_ATTEMPTS = 4
#: The action whose step goes on until the test says so.
HOLD = 7


class WitnessEnv(CounterEnv):
    """Counts in a file, works for ``work`` seconds in each call, and says in ``path.pid`` where it runs.

    The first ``info`` of an episode has the checksum of ``filler``; :meth:`blob` makes large replies.
    """

    def __init__(self, path: str = "", work: float = 0.0, filler: bytes = b"") -> None:
        super().__init__(path)
        self._work = work
        self._filler = {"crc": zlib.crc32(filler)} if filler else {}
        if path:
            Path(f"{path}.pid").write_text(str(os.getpid()))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Note the reset and work."""
        obs, info = super().reset(seed=seed, options=options)
        time.sleep(self._work)
        return obs, info | self._filler

    def step(self, action: Any) -> Step:
        """Note the step and work."""
        result = super().step(action)
        time.sleep(self._work)
        return result

    def blob(self, size: int, work: float = 0.0) -> list[Any]:
        """Note the call, work, and return random bytes and their checksum."""
        self.total = super().bump()
        time.sleep(work)
        data = random.randbytes(size)
        return [data, zlib.crc32(data)]

    def bump(self, by: int = 1) -> int:
        """Note the call and work."""
        total = super().bump(by)
        time.sleep(self._work)
        return total


class HeldEnv(WitnessEnv):
    """A step with the action :data:`HOLD` ends when the file ``path.go`` is there."""

    def step(self, action: Any) -> Step:
        """Note the step, and wait."""
        result = super().step(action)
        while action == HOLD and not os.path.exists(f"{self._path}.go"):
            time.sleep(0.001)
        return result


class Ledger:
    """What one client was told, against what its environment noted.

    Attributes:
        path: Where the environment notes.
        errors: Requests that failed, by mark, and how.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.errors: list[tuple[str, OpenEnvError]] = []

    def acknowledge(self, mark: str) -> None:
        """Note that a request was answered, in a file: a client that is killed has nothing else left."""
        note(f"{self.path}.ack", mark.encode())

    def wrong(self, slack: int = 0) -> str:
        """Return what is wrong with the two accounts, or nothing.

        Args:
            slack: How many requests may be executed without a client that knows, since it was killed.
        """
        executed, known = Counter(notes(self.path)), Counter(notes(f"{self.path}.ack"))
        failed = Counter(mark for mark, _ in self.errors)
        for mark in "rsmw":
            if not known[mark] <= executed[mark] <= known[mark] + failed[mark] + slack:
                return f"{self.path}: executed {executed}, acknowledged {known}, failed {self.errors}"
        return ""

    def open(self) -> int:
        """Return how many environments were built and not closed."""
        executed = Counter(notes(self.path))
        return executed["i"] - executed["c"]


class Client:
    """Makes requests one after the other; what fails is written down and followed by a reset.

    Args:
        ledger: Where it writes.
        url: The server.
        settings: Settings of the client and arguments of the environment.
    """

    KINDS = "rs"

    def __init__(self, ledger: Ledger, url: str, **settings: Any) -> None:
        self.ledger = ledger
        self._settings = {"base_url": url, "path": ledger.path, **settings}
        self.total: int | None = 0

    def item(self, requests: str) -> dict[str, Any]:
        """Return what a process needs to know to be this client."""
        names = {"kind": type(self).__name__, "url": self._settings["base_url"], "path": self.ledger.path}
        more = {name: value for name, value in self._settings.items() if name not in ("base_url", "path")}
        return {**names, "requests": requests, "settings": more}

    def run(self, requests: str) -> None:
        """Open a session, make the requests, close it."""
        self._try("i", self.open)
        for mark in requests:
            self._try(mark, lambda mark=mark: self.request(mark))
        self.close()

    def _try(self, mark: str, work: Callable[[], None]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                work()
                self.ledger.acknowledge(mark)
                return
            except OpenEnvError as exc:
                self.total = None
                if not isinstance(exc, ResetNeededError):
                    self.ledger.errors.append((mark, exc))
            if mark != "i":
                mark, work = "r", lambda: self.request("r")
        raise AssertionError(f"{_ATTEMPTS} attempts in a row failed: {self.ledger.errors}")

    def _check(self, total: int, *expected: int | None) -> None:
        """Compare the environment's own count with what this client knows of it."""
        if None not in expected and total not in expected:
            raise AssertionError(f"{self.ledger.path}: the environment counts {total}, not {expected}")
        self.total = total

    def _grown(self) -> int | None:
        return None if self.total is None else self.total + 1

    def open(self) -> None:
        """Open a session."""
        raise AssertionError

    def request(self, mark: str) -> None:
        """Make the request that the environment notes as ``mark``."""
        raise AssertionError

    def close(self) -> None:
        """Close the session."""
        raise AssertionError


class EnvClient(Client):
    """Uses ``RemoteEnv``."""

    env: RemoteEnv

    def open(self) -> None:
        """Make the env."""
        self.env = RemoteEnv(**self._settings)

    def request(self, mark: str) -> None:
        """Step or reset."""
        if mark == "s":
            self._check(self.env.step(0)[4]["total"], self._grown())
        else:
            self._check(self.env.reset()[1]["total"], self.total, 0)  # 0: in a new session

    def close(self) -> None:
        """Close the env."""
        self.env.close()


class RawClient(Client):
    """Uses the blocking connection below ``RemoteEnv``."""

    KINDS = "rmw"
    connection: Connection

    def open(self) -> None:
        """Open a session."""
        self.connection = Opener(take_settings(self._settings), None).open(patient=True)
        self.total = 0

    def request(self, mark: str) -> None:
        """Reset, call or set."""
        if self.connection.over:
            self.open()
        connection = self.connection
        if mark == "r":
            connection.request(Reset, None, None)
        elif mark == "m":
            self._check(connection.request(Call, "bump", [], {}).values[0], self._grown())
        else:
            connection.request(Set, "level", [1])

    def close(self) -> None:
        """Close the session."""
        self.connection.close()


def make_client(rng: random.Random, ledger: Ledger, url: str, **settings: Any) -> tuple[Client, str]:
    """Return a client of a random kind, and five requests for it of which the first is a reset."""
    kind = rng.choice((EnvClient, RawClient))
    return kind(ledger, url, **settings), "r" + "".join(rng.choices(kind.KINDS, k=4))
