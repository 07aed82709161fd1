"""A process is killed while exchanges stand at a named point; at most the request under way is in doubt."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.proxy import Link, Proxy
from tests.support.serverproc import ServerProcess, eventually, serving

from .clients import Clients
from .points import POINTS, Point, plans
from .table import Aftermath, Table
from .witness import TARGET, Client, Ledger, make_client

_CLIENT = {"keepalive": (20.0, 20.0), "connect_timeout": 20.0, "work": 0.02}
_OPTIONS = ("--resume-grace", "3")
_WITHOUT_SESSION = ("before the 101", "hello not sent", "hello in flight")
_WITH_SESSION = [point for point in POINTS if point.name not in _WITHOUT_SESSION]
_PATIENCE = 20.0


@dataclass(frozen=True)
class _Stand:
    """A client on a proxy of its own that holds everything still at the point."""

    point: Point
    ledger: Ledger
    client: Client
    requests: str
    proxy: Proxy

    def link(self) -> Link:
        """Return the connection that was held, once it is."""
        link = self.proxy.link(1 if self.point.again else 0, _PATIENCE)
        assert link.cut.wait(_PATIENCE), f"{self.ledger.path}: the point was not reached"
        return link

    def run(self) -> None:
        """Be the client."""
        self.client.run(self.requests)


@contextmanager
def _stands(
    server: ServerProcess, folder: Path, points: Sequence[Point], number: int, size: int
) -> Iterator[list[_Stand]]:
    """Prepare ``size`` clients for each point."""
    with ExitStack() as stack:
        stands = []
        for index in range(size * len(points)):
            point = points[index % len(points)]
            rng = random.Random(f"{point.name}/{number}/{index}")
            spot = point.spots[(number + index // len(points)) % len(point.spots)]
            ledger = Ledger(str(folder / f"{point.name}{number}.{index}".replace(" ", "-")))
            proxy = stack.enter_context(Proxy(server.url))
            client, requests = make_client(rng, ledger, proxy.url, **_CLIENT)
            hit = len(requests) + 1 if point.closing else rng.randint(1, len(requests))
            proxy.follow(plans(point, spot, "freeze", hit, rng))
            stands.append(_Stand(point, ledger, client, requests, proxy))
        yield stands


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # one that had a single session, closed meanwhile, is gone
        os.kill(pid, signal.SIGKILL)


def _kill_workers(server: ServerProcess, stands: list[_Stand]) -> None:
    for stand in stands:
        file = Path(f"{stand.ledger.path}.pid")
        assert eventually(lambda file=file: file.exists() and file.read_text() != "")
        _kill(int(file.read_text()))


def _kill_template(server: ServerProcess, stands: list[_Stand]) -> None:
    _kill(server.template())


def _kill_server(server: ServerProcess, stands: list[_Stand]) -> None:
    before = server.family()
    server.kill()
    assert eventually(lambda: not before.keys() & server.family().keys()), (
        "processes of the dead server live on"
    )
    server.start()


def _round(
    server: ServerProcess,
    folder: Path,
    table: Table,
    kill: Callable[[ServerProcess, list[_Stand]], None],
    points: Sequence[Point],
    number: int,
    size: int,
) -> list[Ledger]:
    """Kill once, while ``size`` clients stand at each point."""
    with _stands(server, folder, points, number, size) as stands, ThreadPoolExecutor(len(stands)) as pool:
        running = [pool.submit(stand.run) for stand in stands]
        links = [stand.link() for stand in stands]
        kill(server, stands)
        for link in links:
            link.drop("rst")
        for future in running:
            future.result()
        for stand in stands:
            table.add(stand.point.name, stand.ledger, len(stand.proxy.links), 2 if stand.point.again else 1)
        return [stand.ledger for stand in stands]


def _client_round(
    server: ServerProcess, folder: Path, points: Sequence[Point], number: int, size: int
) -> list[tuple[Point, Ledger, bool]]:
    """Kill the clients that stand at each point; return whether each was killed."""
    with _stands(server, folder, points, number, size) as stands:
        clients = Clients([stand.client.item(stand.requests) for stand in stands])
        links = [stand.link() for stand in stands]
        for pid in clients.pids:
            _kill(pid)
        for link in links:
            link.drop("rst")
        codes = clients.wait()  # one that closes does not wait for ever, and may have ended by itself
        assert set(codes) <= {-signal.SIGKILL, 0}
        return [(stand.point, stand.ledger, code != 0) for stand, code in zip(stands, codes, strict=True)]


def _groups(points: Sequence[Point], size: int) -> list[Sequence[Point]]:
    return [points[start : start + size] for start in range(0, len(points), size)]


# How many faults at a point, how many clients at a point fall to one kill, and how many points do.
_AMOUNT = pytest.mark.parametrize(
    ("faults", "size", "together"),
    [pytest.param(10, 10, 6, id="few"), pytest.param(100, 25, 3, id="all", marks=pytest.mark.full)],
)


def _show(table: Table, faults: int, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{table}")
    assert table.least() >= faults


@_AMOUNT
def test_workers_are_killed(
    faults: int, size: int, together: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("a worker is killed", [point.name for point in _WITH_SESSION])
    with serving(TARGET, *_OPTIONS, "--sessions-per-worker", "1", log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        ledgers = []
        for points in _groups(_WITH_SESSION, 5):
            for number in range(faults // 5):
                ledgers += _round(server, tmp_path, table, _kill_workers, points, number, 5)
        aftermath.check(ledgers, killed=True)
    _show(table, faults, capsys)


@_AMOUNT
@pytest.mark.parametrize(("victim", "kill"), [("template", _kill_template), ("server", _kill_server)])
def test_the_server_or_its_template_is_killed(
    victim: str,
    kill: Callable[[ServerProcess, list[_Stand]], None],
    faults: int,
    size: int,
    together: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table(f"the {victim} is killed", [point.name for point in POINTS])
    with serving(TARGET, *_OPTIONS, "--workers", "2", log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        ledgers = []
        for points in _groups(POINTS, together):
            for number in range(faults // size):
                ledgers += _round(server, tmp_path, table, kill, points, number, size)
        aftermath.check(ledgers, killed=victim == "template")
    _show(table, faults, capsys)


@_AMOUNT
def test_clients_are_killed(
    faults: int, size: int, together: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("a client is killed", [point.name for point in POINTS])
    with serving(TARGET, *_OPTIONS, "--workers", "2", log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        found = []
        for points in _groups(POINTS, together):
            for number in range(faults // size):
                found += _client_round(server, tmp_path, points, number, size)
        aftermath.check([ledger for _, ledger, _ in found], slack=1)
    for point, ledger, killed in found:
        outcome = "one unacknowledged" if ledger.wrong() else "all acknowledged"
        table.count(point.name, outcome if killed else "closed before")
    _show(table, faults, capsys)
