"""What was lost is said once, is never made up, and the same env goes on after a reset."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import OpenEnvError, ServerConnectionError, SessionLostError, WorkerCrashedError
from tests.support.faultenvs import notes
from tests.support.proxy import Plan, Policy, Proxy
from tests.support.serverproc import ServerProcess, eventually, serving

COUNTER = "tests.support.testenvs:CounterEnv"


def _kill_worker(server: ServerProcess) -> None:
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)


def _kill_server(server: ServerProcess) -> None:
    """Kill it, and let its workers say goodbye."""
    server.kill()
    assert eventually(lambda: not server.family())


def test_f010_after_a_server_was_killed_the_same_env_goes_on(tmp_path: Path) -> None:
    with serving(COUNTER, "--workers", "1", log=tmp_path / "log") as server:
        env = RemoteEnv(base_url=server.url, path=str(tmp_path / "count"))
        env.reset()
        env.step(0)
        _kill_server(server)
        server.start()
        with pytest.raises(SessionLostError, match="the server process was killed"):
            env.step(0)
        observation, info = env.reset()
        assert (int(observation), info) == (0, {"total": 0})
        assert env.step(0)[4] == {"total": 1}
        env.close()


def test_f010_while_there_is_no_server_each_call_says_so(tmp_path: Path) -> None:
    with serving(COUNTER, "--workers", "1", log=tmp_path / "log") as server:
        env = RemoteEnv(base_url=server.url, connect_timeout=4.0, path=str(tmp_path / "count"))
        env.reset()
        _kill_server(server)
        with pytest.raises(SessionLostError, match="the server process was killed"):
            env.step(0)
        for _ in range(2):
            with pytest.raises(ServerConnectionError, match="no server listens there|no answer in time"):
                env.reset()
        server.start()
        env.reset()
        assert env.step(0)[4] == {"total": 1}
        env.close()


@pytest.mark.parametrize("where", ["before", "middle"])
def test_f011_a_step_whose_reply_is_lost_is_not_done_again(where: Any, tmp_path: Path) -> None:
    lost = Plan(down=Policy(cut_frame=3, where=where))
    path = tmp_path / "count"
    with serving(COUNTER, "--workers", "1", log=tmp_path / "log") as server:
        with Proxy(server.url, [lost]) as proxy:
            env = RemoteEnv(base_url=proxy.url, path=str(path))
            env.reset()
            assert env.step(0)[4] == {"total": 1}
            assert len(proxy.links) == 2
            assert notes(path) == "irs"
            env.close()


@pytest.mark.parametrize("on_error", ["raise", "truncate"])
@pytest.mark.parametrize(
    ("kill", "kind", "code"),
    [
        (_kill_worker, WorkerCrashedError, "worker_crashed"),
        (ServerProcess.kill, ServerConnectionError, "connection"),
    ],
)
def test_f012_a_lost_step_is_never_an_ordinary_transition(
    kill: Any, kind: type[OpenEnvError], code: str, on_error: str, tmp_path: Path
) -> None:
    options = ("--workers", "1", "--drain-timeout", "0")
    with serving(COUNTER, *options, log=tmp_path / "log") as server, ThreadPoolExecutor(1) as pool:
        with Proxy(server.url, [Plan(up=Policy(cut_frame=3, how="freeze"))]) as proxy:
            patience = 30.0 if kill is _kill_worker else 3.0  # the latter is spent in vain
            env = RemoteEnv(base_url=proxy.url, connect_timeout=patience, on_error=on_error)
            first, _ = env.reset()
            step = pool.submit(env.step, 0)
            proxy.link().cut.wait()
            kill(server)
            proxy.link().drop()
            if on_error == "raise":
                with pytest.raises(kind):
                    step.result()
            else:
                observation, reward, terminated, truncated, info = step.result()
                assert (int(observation), reward, terminated, truncated) == (int(first), 0.0, False, True)
                assert info["openenv"]["error"] == code
                assert info["openenv"]["message"]
                assert info["openenv"]["server"] == proxy.url
            env.close()
        if kill is ServerProcess.kill:
            server.start()
