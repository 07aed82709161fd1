"""Sessions are found by id, live as long as they are used, and say why they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from openenv_gym.errors import CapacityError, SessionLostError, WorkerCrashedError
from openenv_gym.protocol import messages as m
from openenv_gym.servers.openenv.sessions import Sessions
from tests.support.serverproc import serving

from ..wire import run
from .fakeworker import FakePool, instead


def _story(tell: Callable[[FakePool, Sessions], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        pool = FakePool(**settings)
        await tell(pool, Sessions(pool))  # type: ignore[arg-type]
        await pool.settle()

    run(main)


def test_a_session_is_found_by_its_id_until_it_is_closed() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        one, two = await sessions.open(ttl=None), await sessions.open(ttl=None)
        assert one.id != two.id
        assert (sessions.find(one.id), sessions.find(two.id)) == (one, two)
        for held in (one, two):
            await sessions.close(held)
            with pytest.raises(SessionLostError, match=f"{held.id}.*it was closed"):
                sessions.find(held.id)
        assert [type(request) for request in pool.asked].count(m.Close) == 2

    _story(tell)


def test_an_unknown_id_is_told_so() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        with pytest.raises(SessionLostError, match="'xyz'.*does not know it"):
            sessions.find("xyz")

    _story(tell)


def test_a_refused_session_is_not_in_the_table() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        pool.refusal = CapacityError("full")
        with pytest.raises(CapacityError):
            await sessions.open(ttl=1.0)
        assert sessions._held == {}

    _story(tell)


def test_a_session_that_nobody_uses_ends_after_its_time() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=0.01)
        await held.peer.ended
        with pytest.raises(SessionLostError, match="nobody used it for 0.01 s"):
            sessions.find(held.id)

    _story(tell)


def test_time_stands_still_while_a_session_is_used() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=0.01)
        with sessions.use(held), sessions.use(held):
            await asyncio.sleep(0.05)
            assert held.timer is None
        assert sessions.find(held.id) is held
        assert held.timer is not None
        await held.peer.ended

    _story(tell)


def test_a_session_whose_client_never_came_back_is_offered_while_no_request_runs() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=10.0)
        offered = [len(pool.offered)]
        with sessions.use(held):
            offered.append(len(pool.offered))
        offered.append(len(pool.offered))
        sessions.find(held.id)
        offered.append(len(pool.offered))
        with sessions.use(held):
            pass
        offered.append(len(pool.offered))
        assert offered == [0, 0, 1, 0, 0]
        await sessions.close(held)

    _story(tell)


def test_a_session_of_a_connection_is_never_offered() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=None)
        with sessions.use(held):
            pass
        assert pool.offered == set()
        await sessions.close(held)

    _story(tell)


def test_a_session_that_yielded_its_slot_is_forgotten_and_its_owner_told() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=10.0)
        held.peer._end(SessionLostError("a newcomer got the slot"))
        await asyncio.sleep(0)
        assert sessions._held == {}
        assert held.timer is None
        with pytest.raises(SessionLostError, match="a newcomer got the slot"):
            sessions.find(held.id)
        held.peer.drop()

    _story(tell)


def test_a_session_whose_worker_crashed_stays_for_its_owner() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=10.0)
        held.peer._end(WorkerCrashedError("it died"))
        await asyncio.sleep(0)
        assert sessions.find(held.id) is held
        await sessions.close(held)

    _story(tell)


def test_a_session_closed_while_it_is_used_gets_no_time_to_live() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=10.0)
        with sessions.use(held):
            await sessions.close(held)
        assert held.timer is None

    _story(tell)


def test_a_session_that_ended_gets_a_new_peer_under_the_same_id_and_only_one() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        held = await sessions.open(ttl=None)
        first = held.peer
        await sessions.renew(held)
        assert held.peer is first
        first.drop()
        await asyncio.gather(*(sessions.renew(held) for _ in range(3)))
        assert held.peer is not first
        assert (await held.peer.step({"a": 1})).observation == {"a": 1}
        assert [type(request) for request in pool.asked].count(m.Hello) == 2
        await sessions.close(held)

    _story(tell)


def test_an_environment_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        pool.answer = instead(m.Close, lambda request: m.Error("environment", "OSError: busy", request.id))
        await sessions.close(await sessions.open(ttl=None))

    _story(tell)
    assert "OSError: busy" in caplog.text


def test_only_so_many_endings_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.servers.openenv.sessions._REMEMBERED", 2)

    async def tell(pool: FakePool, sessions: Sessions) -> None:
        ids = []
        for _ in range(4):
            held = await sessions.open(ttl=None)
            ids.append(held.id)
            await sessions.close(held)
        with pytest.raises(SessionLostError, match="does not know it"):
            sessions.find(ids[0])
        with pytest.raises(SessionLostError, match="was closed"):
            sessions.find(ids[-1])

    _story(tell)


def test_a_client_that_comes_back_after_its_session_has_ended_keeps_the_next_one() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        lost = await sessions.open(ttl=9.0)
        lost.peer._end(SessionLostError("a newcomer got the slot"))
        lost.peer.drop()
        await asyncio.sleep(0)
        offered = []
        for former in (lost.id, lost.id, "never heard of", None):
            held = await sessions.open(ttl=9.0, former=former)
            with sessions.use(held):
                pass
            offered.append(len(pool.offered))
            await sessions.close(held)
            pool.offered.clear()
        assert offered == [0, 1, 1, 1]

    _story(tell)


def test_a_living_session_makes_no_other_one_safe() -> None:
    async def tell(pool: FakePool, sessions: Sessions) -> None:
        first = await sessions.open(ttl=9.0)
        second = await sessions.open(ttl=9.0, former=first.id)
        assert not second.claimed
        for held in (first, second):
            await sessions.close(held)

    _story(tell)


def test_a_flood_takes_an_episode_once_at_most() -> None:
    with serving("CartPole-v1", "--workers", "0", "--max-sessions", "2") as server:

        def flood() -> None:
            for _ in range(3):
                assert httpx.post(f"{server.url}/reset", json={}).status_code == 200

        with httpx.Client(base_url=server.url) as client:
            assert client.post("/reset", json={}).status_code == 200
            flood()
            lost = client.post("/step", json={"action": {"action": 1}})
            assert (lost.status_code, lost.json()["code"]) == (404, "session_lost")
            assert client.post("/reset", json={}).status_code == 200
            flood()
            assert client.post("/step", json={"action": {"action": 1}}).status_code == 200
