"""Slots: taken before an environment is built, given back whatever happens, and never more than there are."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import CapacityError, ConstructionError
from tests.faults.clients import Clients
from tests.support.faultenvs import live_peak, notes
from tests.support.proxy import Proxy
from tests.support.serverproc import ServerProcess, descriptors, eventually, serving

SLEEP = "tests.support.testenvs:SleepEnv"


def _active(server: ServerProcess) -> int:
    active: int = server.capacity()["active"]
    return active


def test_f016_sessions_of_peers_that_froze_are_ended(tmp_path: Path) -> None:
    path = tmp_path / "count"
    options = ("--workers", "1", "--max-sessions", "2", "--idle-timeout", "6", "--resume-grace", "0.5")
    with serving(SLEEP, *options, log=tmp_path / "log") as server, Proxy(server.url) as proxy:
        envs = [RemoteEnv(base_url=proxy.url, path=str(path)) for _ in range(2)]
        for env in envs:
            env.reset()
        before = descriptors(server.workers()[0])
        proxy.freeze()
        assert eventually(lambda: _active(server) == 0)
        assert notes(path) == "iirrcc"
        assert eventually(lambda: descriptors(server.workers()[0]) == before - 2)
        newcomer = RemoteEnv(base_url=server.url)
        newcomer.reset()
        newcomer.close()
        proxy.drop()
        for env in envs:
            env.close()


def test_f016_a_connection_that_says_nothing_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openenv_gym.servers import takeover
    from openenv_gym.servers.run import serve_in_thread
    from openenv_gym.servers.settings import ServerSettings
    from tests.faults.raw import RawConnection, upgrade

    monkeypatch.setattr(takeover, "PATIENCE", 2.5)
    server = serve_in_thread(ServerSettings(uds=str(tmp_path / "s.sock"), workers=0), SLEEP)
    try:
        with RawConnection(server.base_url) as silent, RawConnection(server.base_url) as slow:
            slow.send(upgrade()[:20])
            assert silent.sock.recv(10) == b""
            assert slow.sock.recv(10) == b""
    finally:
        server.stop()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_f018_a_storm_of_failing_constructors_never_exceeds_the_limit(workers: str, tmp_path: Path) -> None:
    path, tries = tmp_path / "count", tmp_path / "tries"
    target = "tests.support.testenvs:FailingInitEnv"
    options = ("--workers", workers, "--max-sessions", "4")
    arguments = {"seconds": 0.05, "every": 5, "tries": str(tries), "path": str(path)}
    with serving(target, *options, log=tmp_path / "log") as server:

        def connect(number: int) -> str:
            try:
                env = RemoteEnv(base_url=server.url, slot_timeout=60.0 * (number % 2), **arguments)
            except (CapacityError, ConstructionError) as exc:
                return type(exc).__name__
            env.reset()
            env.close()
            return "served"

        with ThreadPoolExecutor(50) as pool:
            outcomes = Counter(pool.map(connect, range(50)))
        assert eventually(lambda: _active(server) == 0)
        built = len(notes(tries))
        assert outcomes == {
            "ConstructionError": built // 5,
            "served": built - built // 5,
            "CapacityError": 50 - built,
        }
        assert built >= 25
        assert live_peak(path) <= 4
        assert notes(path).count("i") == notes(path).count("c") == outcomes["served"]
        assert eventually(lambda: server.capacity()["waiting"] == 0)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_f111_who_comes_back_at_once_waits_for_the_cleaning(workers: str, tmp_path: Path) -> None:
    path = tmp_path / "count"
    target = "tests.support.testenvs:SlowCloseEnv"
    options = ("--workers", workers, "--max-sessions", "1", "--resume-grace", "60")
    with serving(target, *options, log=tmp_path / "log") as server:
        settings = {"base_url": server.url, "seconds": 0.5}
        item = {"kind": "EnvClient", "url": server.url, "path": str(path), "requests": "r" + "s" * 120_000}
        clients = Clients([{**item, "settings": {"seconds": 0.5}}])
        assert eventually(lambda: "s" in notes(path))
        os.kill(clients.pids[0], signal.SIGKILL)
        env = RemoteEnv(**settings, slot_timeout=30.0)
        assert notes(path)[-1] == "c"
        env.reset()
        env.close()
        assert clients.wait() == [-signal.SIGKILL]


def test_f111_who_leaves_the_queue_gets_no_slot(tmp_path: Path) -> None:
    path = tmp_path / "count"
    with serving(SLEEP, "--workers", "1", "--max-sessions", "1", log=tmp_path / "log") as server:
        holder = RemoteEnv(base_url=server.url)
        item = {"kind": "EnvClient", "url": server.url, "path": str(path), "requests": "r"}
        clients = Clients([{**item, "settings": {"slot_timeout": 60.0}}] * 2)
        assert eventually(lambda: server.capacity()["waiting"] == 2)
        os.kill(clients.pids[0], signal.SIGKILL)
        assert eventually(lambda: server.capacity()["waiting"] == 1)
        holder.close()
        assert sorted(clients.wait()) == [-signal.SIGKILL, 0]
        assert notes(path) == "irc"
