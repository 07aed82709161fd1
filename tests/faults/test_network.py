"""Whatever the network does, and when: a request is executed once, or its client has a typed error."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.proxy import Proxy
from tests.support.serverproc import ServerProcess, serving

from .points import HOWS, POINTS, Point, plans
from .table import Aftermath, Table
from .witness import TARGET, Ledger, make_client

_AT_ONCE = 32
_CLIENT = {"keepalive": (0.3, 0.3), "connect_timeout": 2.0, "work": 0.005}
_OPTIONS = ("--resume-grace", "5")


def _one(server: ServerProcess, folder: Path, table: Table, point: Point, number: int) -> Ledger:
    """Let one client run into one fault."""
    rng = random.Random(f"{point.name}/{number}")
    how, spot = HOWS[number % len(HOWS)], point.spots[number // len(HOWS) % len(point.spots)]
    ledger = Ledger(str(folder / f"{point.name}{number}".replace(" ", "-")))
    with Proxy(server.url) as proxy:
        client, requests = make_client(rng, ledger, proxy.url, **_CLIENT)
        hit = len(requests) + 1 if point.closing else rng.randint(1, len(requests))
        proxy.follow(plans(point, spot, how, hit, rng))
        client.run(requests)
        table.add(point.name, ledger, len(proxy.links), 2 if point.again else 1)
    return ledger


def run_into(server: ServerProcess, folder: Path, title: str, faults: int) -> Table:
    table = Table(title, [point.name for point in POINTS])
    aftermath = Aftermath(server, folder)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [
            pool.submit(_one, server, folder, table, point, number)
            for number in range(faults)
            for point in POINTS
        ]
        ledgers = [future.result() for future in running]
    aftermath.check(ledgers)
    assert table.least() >= faults
    return table


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        pytest.param(("--workers", "2"), 12, id="handed over"),
        pytest.param(("--handover", "off"), 10, id="pumped"),
        pytest.param(("--workers", "2"), 100, id="handed over, all", marks=pytest.mark.full),
        pytest.param(("--handover", "off"), 100, id="pumped, all", marks=pytest.mark.full),
        pytest.param(("--workers", "0"), 100, id="threads, all", marks=pytest.mark.full),
    ],
)
def test_a_request_is_executed_once_or_its_client_knows(
    options: tuple[str, ...],
    faults: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    title = request.node.callspec.id
    with serving(TARGET, *_OPTIONS, *options, log=tmp_path / "log") as server:
        table = run_into(server, tmp_path, title, faults)
    with capsys.disabled():
        print(f"\n{table}")
