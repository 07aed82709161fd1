"""Keepalive: what is alive is not given up, however busy, and what is dead does not hold a call for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import ServerConnectionError
from tests.faults.witness import TARGET
from tests.support.faultenvs import notes
from tests.support.proxy import PASS, Plan, Policy, Proxy
from tests.support.serverproc import ServerProcess, eventually, serving
from tests.support.wsmeter import PING, PONG

_NO_CONTROL = Policy(swallow=frozenset((PING, PONG)))
_TUNNEL = Plan(up=_NO_CONTROL, down=_NO_CONTROL)
_SLEEP, _BUSY, _GIL = (f"tests.support.testenvs:{name}Env" for name in ("Sleep", "Busy", "Gil"))
_HANDOVER = pytest.mark.parametrize("handover", ["on", "off"])


@contextmanager
def _serving(target: str, folder: Path, *options: str) -> Iterator[ServerProcess]:
    with serving(target, *options, log=folder / "log") as server:
        yield server


@_HANDOVER
def test_f001_without_keepalive_a_tunnel_may_drop_pings(handover: str, tmp_path: Path) -> None:
    with _serving(_SLEEP, tmp_path, "--workers", "1", "--handover", handover, "--keepalive", "0.5") as server:
        with Proxy(server.url, lambda number: _TUNNEL) as proxy:
            env = RemoteEnv(base_url=proxy.url, keepalive=None, step=1.2)
            env.reset()
            time.sleep(0.6)
            assert int(env.step(3)[0]) == 3
            env.close()
            assert len(proxy.links) == 1


def test_f001_with_keepalive_the_error_names_the_option(tmp_path: Path) -> None:
    with _serving(_SLEEP, tmp_path, "--workers", "1") as server:
        with Proxy(server.url, lambda number: _TUNNEL) as proxy:
            env = RemoteEnv(base_url=proxy.url, keepalive=(1.0, 1.0), connect_timeout=2.0, step=8.0)
            env.reset()
            with pytest.raises(ServerConnectionError, match="OPENENV_KEEPALIVE=none") as caught:
                env.step(3)
            assert caught.value.details["option"] == "keepalive"
            env.close()


@_HANDOVER
@pytest.mark.parametrize(
    ("keepalive", "pause"), [(1.0, 3.5), pytest.param(20.0, 65.0, marks=pytest.mark.full, id="real")]
)
def test_f002_a_client_may_compute_between_steps(
    keepalive: float, pause: float, handover: str, tmp_path: Path
) -> None:
    options = ("--workers", "1", "--handover", handover, "--keepalive", str(keepalive))
    with _serving(TARGET, tmp_path, *options) as server, Proxy(server.url) as proxy:
        env = RemoteEnv(base_url=proxy.url, keepalive=keepalive)
        env.reset()
        env.step(0)
        end = time.monotonic() + pause
        while time.monotonic() < end:  # keeps the interpreter's lock
            pass
        assert env.step(0)[4] == {"total": 2}
        env.close()
        assert len(proxy.links) == 1


@pytest.mark.parametrize(
    ("target", "handover"),
    [
        pytest.param(_SLEEP, "on", id="sleeping", marks=pytest.mark.full),
        pytest.param(_BUSY, "on", id="busy"),
        pytest.param(_BUSY, "off", id="busy-pumped"),
        pytest.param(_SLEEP, "off", id="sleeping-pumped", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    ("keepalive", "patience", "seconds"),
    [(0.5, 20.0, 2.5), pytest.param(20.0, 20.0, 65.0, marks=pytest.mark.full, id="real")],
)
def test_f003_a_busy_session_is_not_a_dead_one(
    keepalive: float, patience: float, seconds: float, target: str, handover: str, tmp_path: Path
) -> None:
    sessions = 20
    argument = {"step": seconds} if target is _SLEEP else {"seconds": seconds}
    options = ("--workers", "2", "--handover", handover, "--keepalive", str(keepalive))
    with _serving(target, tmp_path, *options) as server, Proxy(server.url) as proxy:
        envs = [
            RemoteEnv(base_url=proxy.url, keepalive=(keepalive, patience), **argument)
            for _ in range(sessions)
        ]
        for env in envs:
            env.reset()
        with ThreadPoolExecutor(sessions) as pool:
            results = list(pool.map(lambda env: env.step(1)[1], envs))
        assert results == [1.0] * sessions
        for env in envs:
            env.close()
        assert len(proxy.links) == sessions


@pytest.mark.parametrize(
    ("keepalive", "handover"),
    [("0.5", "on"), ("0.5", "off"), ("none", "on"), pytest.param("none", "off", marks=pytest.mark.full)],
)
def test_f004_the_interval_is_what_the_option_says(keepalive: str, handover: str, tmp_path: Path) -> None:
    options = ("--workers", "1", "--handover", handover, "--keepalive", keepalive)
    with _serving(_SLEEP, tmp_path, *options) as server, Proxy(server.url) as proxy:
        env = RemoteEnv(base_url=proxy.url, keepalive=None, step=4.0)
        env.reset()
        env.step(0)
        signs = set(proxy.link().controls["down"])
        env.close()
    assert bool(signs) == (keepalive != "none")


def test_f013_a_peer_that_vanished_does_not_hold_a_step(tmp_path: Path) -> None:
    vanished = Plan(up=Policy(cut_frame=3, how="freeze"))
    nowhere = Plan(up=Policy(cut_frame=0, where="before", how="freeze"))
    path = tmp_path / "count"
    with _serving(TARGET, tmp_path, "--workers", "1", "--resume-grace", "1") as server:
        with Proxy(server.url, lambda number: nowhere if number else vanished) as proxy:
            env = RemoteEnv(base_url=proxy.url, keepalive=(1.0, 3.0), connect_timeout=2.0, path=str(path))
            env.reset()
            with pytest.raises(ServerConnectionError, match="no sign of life"):
                env.step(0)
            proxy.follow([PASS] * 100)
            env.reset()
            assert env.step(0)[4] == {"total": 1}
            env.close()
        assert eventually(lambda: notes(path).count("c") == 2)


def test_f022_f026_a_slow_session_delays_nobody(tmp_path: Path) -> None:
    path = tmp_path / "count"
    with _serving(_GIL, tmp_path, "--workers", "2") as server, ThreadPoolExecutor(1) as pool:
        slow = RemoteEnv(base_url=server.url, seconds=6.0, path=str(path))
        quick = RemoteEnv(base_url=server.url, seconds=0.0)
        slow.reset()
        quick.reset()
        step = pool.submit(slow.step, 0)
        assert eventually(lambda: "s" in notes(path))
        for _ in range(50):
            quick.step(0)
        for place in ("/health", "/ready", "/capacity", "/health"):
            assert server.get(place)
        assert not step.done(), "the others had to wait for the slow session"
        assert step.result()[1] == 1.0
        slow.close()
        quick.close()


def test_f026_a_busy_server_is_a_healthy_one(tmp_path: Path) -> None:
    sessions = 32
    path = tmp_path / "count"
    with _serving(_BUSY, tmp_path, "--workers", "2") as server, ThreadPoolExecutor(sessions) as pool:
        envs = [RemoteEnv(base_url=server.url, seconds=6.0, path=str(path)) for _ in range(sessions)]
        for env in envs:
            env.reset()
        steps = [pool.submit(env.step, 0) for env in envs]
        assert eventually(lambda: notes(path).count("s") == sessions)
        for _ in range(5):
            assert server.get("/health") == {"status": "healthy"}
        assert not any(step.done() for step in steps), "the answers had to wait for a step"
        assert [step.result()[1] for step in steps] == [1.0] * sessions
        for env in envs:
            env.close()
