"""Sessions of many lanes on a server: slots, workers, deadlines, and the trial of one environment for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.client.sync import Connection
from openenv_gym.errors import CapacityError, DeadlineExceededError, WorkerCrashedError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.lanes import lane_bytes
from openenv_gym.protocol.specs import from_spec
from openenv_gym.servers import control as c
from tests.support.faultenvs import live_peak, notes
from tests.support.handclient import HandClient
from tests.support.serverproc import ServerProcess, eventually, serving

from .poolscene import FakeWorker, Scene, tell_story

_SLEEP = "tests.support.testenvs:SleepEnv"
_COUNTER = "tests.support.testenvs:CounterEnv"
A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@contextmanager
def _session(server: ServerProcess, target: str, **fields: Any) -> Iterator[Connection]:
    opener = Opener(ClientSettings(base_url=server.url), target)
    fields = {"lanes": 2, "capabilities": ["lanes"], **fields}
    opener.hello = msgspec.structs.replace(opener.hello, **fields)
    connection = opener.open(patient=True)
    try:
        yield connection
    finally:
        connection.close()


def _actions(connection: Connection, actions: list[int]) -> Any:
    space = from_spec(connection.welcome.action_space)
    return column_codec(space, actions=True).encode([np.int64(action) for action in actions], "action")


def test_lanes_are_slots_and_spread_over_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        other = FakeWorker(2, False)
        other.lanes = 3
        scene.crew.workers.append(other)
        record = await scene.admit(A, lanes=4)
        assert (record.worker.lanes, scene.active) == (4, 4)
        with pytest.raises(CapacityError, match="4/6 sessions active; 3 more were asked for"):
            await scene.admit(B, lanes=3)
        with pytest.raises(CapacityError, match="8 more were asked for"):
            await scene.admit(B, lanes=8)
        scene.say(c.Ended(A))
        assert (scene.worker.lanes, scene.active) == (0, 0)

    tell_story(monkeypatch, tell, max_sessions=6, lane_threads=1)


def test_one_session_tries_for_all_and_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(scene: Scene) -> list[bool | None]:
        return [message.slow for message in scene.worker.sent if isinstance(message, c.Open)]

    async def tell(scene: Scene) -> None:
        await scene.admit(A, lanes=2)
        second = asyncio.ensure_future(scene.admit(B, lanes=2))
        await asyncio.sleep(0)
        await scene.admit(C)
        assert (known(scene), second.done()) == ([None, None], False)
        scene.say(c.Measured(A, True))
        await second
        assert known(scene) == [None, None, True]
        for name in (A, B, C):
            scene.say(c.Ended(name))

    tell_story(monkeypatch, tell, max_sessions=6)


def test_when_that_session_ends_another_one_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A, lanes=2)
        second = asyncio.ensure_future(scene.admit(B, lanes=2))
        await asyncio.sleep(0)
        scene.say(c.Ended(A))
        await second
        assert scene.worker.sent[-1].slow is None  # type: ignore[union-attr]
        scene.say(c.Ended(B))

    tell_story(monkeypatch, tell, max_sessions=6)


@pytest.mark.parametrize("tried", [True, False])
def test_a_worker_that_ends_during_the_trial_is_explained_by_it(
    monkeypatch: pytest.MonkeyPatch, tried: bool
) -> None:
    async def tell(scene: Scene) -> None:
        record = await scene.admit(A, lanes=2)
        if not tried:
            scene.say(c.Measured(A, False))
        scene.crew.ended(scene.worker, WorkerCrashedError("the worker exited", exit_code=7))
        assert isinstance(record.ending, WorkerCrashedError)
        assert record.ending.details == {"exit_code": 7}
        trial = (
            "while an environment was built and tried (reset and at most 8 steps with random actions), which"
            " shows whether lanes need threads; lane_threads=N (--lane-threads N on the server) builds them"
            " without a trial: "
        )
        assert record.ending.message == (trial if tried else "") + "the worker exited"

    tell_story(monkeypatch, tell)


@pytest.mark.parametrize("killable", [True, False])
def test_a_trial_that_overruns_a_deadline_is_named(monkeypatch: pytest.MonkeyPatch, killable: bool) -> None:
    async def tell(scene: Scene) -> None:
        record = await scene.admit(A, lanes=2)
        late = DeadlineExceededError("too long", operation="construction", deadline=1.0)
        scene.pool.condemn(record, late)
        assert isinstance(record.ending, DeadlineExceededError)
        assert record.ending.message.endswith("builds them without a trial: too long")
        assert record.ending.details == late.details

    tell_story(monkeypatch, tell, killable=killable)


def test_who_finds_no_worker_leaves_the_trial_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        scene.crew.failure = RuntimeError("no worker")
        with pytest.raises(RuntimeError, match="no worker"):
            await scene.admit(A, lanes=2)
        scene.crew.failure = None
        await scene.admit(B, lanes=2)
        assert scene.active == 2
        scene.say(c.Ended(B))

    tell_story(monkeypatch, tell)


def test_the_answer_to_a_handshake_says_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        first = await scene.admit(A, lanes=3)
        assert scene.pool.advertisement() == {
            "OpenEnv-Workers": "5",
            "OpenEnv-Sessions-Per-Worker": "1",
            "OpenEnv-Slots-Free": "4",
            "OpenEnv-Slots-Max": "7",
        }
        first.detached = True  # a newcomer would get its slots
        assert scene.pool.advertisement()["OpenEnv-Slots-Free"] == "7"
        scene.say(c.Ended(A))

    tell_story(monkeypatch, tell, max_sessions=7, workers=5, sessions_per_worker=1, lane_threads=1)


@pytest.mark.parametrize("handover", ["on", "off"])
def test_both_paths_say_it(handover: str) -> None:
    options = ("--workers", "0", "--max-sessions", "9", "--handover", handover)
    with serving("CartPole-v1", *options) as server, HandClient(server.url) as client:
        assert client.headers["openenv-workers"] == "1"
        assert client.headers["openenv-sessions-per-worker"] == "0"
        assert (client.headers["openenv-slots-free"], client.headers["openenv-slots-max"]) == ("9", "9")


def test_the_environment_that_is_tried_never_lives_beside_the_lanes(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with serving(_COUNTER, "--workers", "2", "--max-sessions", "4") as server:
        kwargs = {"path": str(path)}
        with _session(server, _COUNTER, env_kwargs=kwargs), _session(server, _COUNTER, env_kwargs=kwargs):
            assert notes(path).count("i") == 5
        assert eventually(lambda: notes(path).count("c") == 5)
    assert live_peak(path) == 4


def test_two_sessions_have_two_workers() -> None:
    with serving(_COUNTER, "--workers", "2") as server:
        fields = {"env_kwargs": {"pid": True}}
        with _session(server, _COUNTER, **fields) as one, _session(server, _COUNTER, **fields) as two:
            pids = [{info["pid"] for info in session.request(m.Reset).infos} for session in (one, two)]
        assert [len(found) for found in pids] == [1, 1]
        assert pids[0] != pids[1]


@pytest.mark.parametrize("native", [False, True])
def test_a_server_full_of_lanes_is_described(native: bool) -> None:
    fields = {"lanes": 4, "native": native, "autoreset": "any" if native else "disabled"}
    with serving("CartPole-v1", "--workers", "1", "--max-sessions", "4") as server:
        with _session(server, "CartPole-v1", **fields):
            answer = httpx.get(f"{server.url}/metadata").json()
            schemas = httpx.get(f"{server.url}/schema").json()
    assert (answer["name"], answer["render_mode"]) == ("CartPole-v1", None)
    assert answer["metadata"]["render_fps"] == 50
    assert schemas["spaces"]["action"]["n"] == 2


def test_sessions_that_need_no_trial_do_not_wait_for_each_other() -> None:
    threaded = "tests.servers.test_grouping:ThreadedEnv"
    with serving(threaded, "--workers", "2") as server:
        with _session(server, threaded) as one, _session(server, threaded) as two:
            assert [len(session.request(m.Reset).infos) for session in (one, two)] == [2, 2]


def test_a_lane_that_overruns_takes_the_lanes_of_its_worker_alone(tmp_path: Path) -> None:
    kwargs = {"unit": 1.0}
    with serving(_SLEEP, "--workers", "2", "--lane-threads", "2") as server:
        with (
            _session(server, _SLEEP, env_kwargs=kwargs, limits=m.Limits(step=0.3)) as bad,
            _session(server, _SLEEP, env_kwargs=kwargs) as good,
        ):
            bad.request(m.Reset)
            good.request(m.Reset)
            with pytest.raises(DeadlineExceededError, match=r"step took longer than 0\.3 s"):
                bad.request(m.Step, _actions(bad, [60, 0]))
            reply = good.request(m.Step, _actions(good, [0, 0]))
            assert reply.flags == b"\0\0"


def test_a_lane_that_overruns_behind_the_others_is_found_too() -> None:
    options = ("--workers", "1", "--lane-threads", "2", "--step-deadline", "2.5")
    with serving(_SLEEP, *options) as server:
        with _session(server, _SLEEP, env_kwargs={"unit": 1.0}) as session:
            session.request(m.Reset)
            session.request(m.Step, _actions(session, [60, 0]), None, 1)
            quick = lane_bytes([1])
            with pytest.raises(DeadlineExceededError):
                for _ in range(1_000_000):
                    session.request(m.Step, _actions(session, [0]), quick, 1)


def test_a_deadline_is_for_each_call_and_not_for_all_lanes_together() -> None:
    options = ("--workers", "1", "--lane-threads", "1", "--step-deadline", "2", "--reset-deadline", "2")
    kwargs = {"step": 0.05, "reset": 0.05, "init": 0.05}
    with serving(_SLEEP, *options, "--construction-deadline", "2") as server:
        with _session(server, _SLEEP, lanes=45, env_kwargs=kwargs) as session:
            session.request(m.Reset)
            assert session.request(m.Step, _actions(session, [0] * 45)).flags == bytes(45)


@pytest.mark.full
def test_256_slow_lanes_work_side_by_side() -> None:
    kwargs = {"step": 3.0, "reset": 3.0, "close": 3.0}
    with serving(_SLEEP, "--workers", "2") as server:
        took = []
        with _session(server, _SLEEP, lanes=256, env_kwargs=kwargs) as session:
            for call in (
                lambda: session.request(m.Reset),
                lambda: session.request(m.Step, _actions(session, [0] * 256)),
                session.close,
            ):
                began = time.monotonic()
                call()
                took.append(time.monotonic() - began)
        assert max(took) < 60.0, "one after the other they would take minutes"
