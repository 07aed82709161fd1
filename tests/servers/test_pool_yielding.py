"""Sessions that nobody holds a connection of yield their slots to newcomers."""

from __future__ import annotations

import asyncio

import pytest

from openenv_gym.errors import CapacityError
from openenv_gym.servers import control as c

from .poolscene import Scene, tell_story

A, B, C = "a" * 32, "b" * 32, "c" * 32


def test_unclaimed_sessions_yield_their_slots_the_lost_first_then_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tell(scene: Scene) -> None:
        for name in (A, B, C):
            await scene.admit(name)
        scene.pool.offer(A, True)
        scene.pool.offer(B, True)
        scene.say(c.Detached(C))
        newcomers = [asyncio.ensure_future(scene.admit(name)) for name in ("d" * 32, "e" * 32)]
        while scene.pool.capacity()["waiting"] < 2:
            await asyncio.sleep(0)
        ends = [sent for sent in scene.worker.sent if isinstance(sent, c.End)]
        assert [end.session for end in ends] == [C, A]
        assert "no second request" in ends[1].message
        for name in (A, C):
            scene.say(c.Ended(name))
        assert [(await newcomer).session[0] for newcomer in newcomers] == ["d", "e"]
        assert B in scene.pool.records.living

    tell_story(monkeypatch, tell, max_sessions=3)


def test_a_newcomer_with_many_lanes_gets_the_slots_of_several_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A, lanes=2)
        await scene.admit(B, lanes=2)
        newcomer = asyncio.ensure_future(scene.admit(C, lanes=4, slot_timeout=30.0))
        while not scene.pool.capacity()["waiting"]:
            await asyncio.sleep(0)
        for name in (A, B):  # the first is not over when the second is lost
            scene.say(c.Detached(name))
        assert [sent.session for sent in scene.worker.sent if isinstance(sent, c.End)] == [A, B]
        for name in (A, B):
            scene.say(c.Ended(name))
        await newcomer

    tell_story(monkeypatch, tell, max_sessions=4, lane_threads=1)


def test_a_session_that_was_claimed_keeps_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        scene.pool.offer(A, True)
        scene.pool.offer(A, False)
        scene.pool.offer(C, True)
        with pytest.raises(CapacityError):
            await scene.admit(B)

    tell_story(monkeypatch, tell, max_sessions=1)
