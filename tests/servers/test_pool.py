"""The pool gives slots, places and sockets to sessions, and takes all of them back however they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv_gym.errors import (
    CapacityError,
    ConstructionError,
    DeadlineExceededError,
    EnvironmentMismatchError,
    LocalProtocolError,
    OpenEnvError,
    RemoteProtocolError,
    ServerDrainingError,
    SessionLostError,
    VersionMismatchError,
    WorkerCrashedError,
)
from openenv_gym.protocol.codec import encode
from openenv_gym.servers import control as c

from .poolscene import PLACES, FakeWorker, Scene, tell_story
from .wire import TOKEN, hello

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def test_a_session_is_placed_with_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        assert scene.pool.idle_since() is not None
        record = await scene.admit(A)
        opening = scene.worker.sent[0]
        assert isinstance(opening, c.Open)
        assert (opening.session, opening.hello, opening.local) == (A, encode(hello(A)), True)
        assert opening.place == record.place
        assert (scene.worker.sessions, scene.worker.served, len(scene.worker.fds)) == ({A}, 1, 1)
        assert (scene.active, scene.pool.idle_since()) == (1, None)
        scene.say(c.Opened(A, {"target": "t"}))
        scene.say(c.Ended(A))
        assert (scene.worker.sessions, scene.active, scene.free()) == (set(), 0, PLACES)
        assert scene.pool.idle_since() is not None
        assert scene.crew.relieved == [scene.worker]

    tell_story(monkeypatch, tell)


def test_sessions_of_a_group_keep_apart_from_each_other_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        other = FakeWorker(2, False)
        scene.crew.workers.append(other)
        assert (await scene.admit(A, group="one")).worker is scene.worker
        assert (await scene.admit(B, group="two")).worker is scene.worker
        assert (await scene.admit(C, group="one")).worker is other
        for worker, name in ((scene.worker, A), (scene.worker, B), (other, C)):
            scene.crew.received(worker, c.Ended(name))

    tell_story(monkeypatch, tell, max_sessions=3)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"version": 2}, VersionMismatchError),
        ({"expect": "Acrobot-v1"}, EnvironmentMismatchError),
        ({"autoreset": "sometimes"}, RemoteProtocolError),
    ],
)
def test_who_cannot_get_what_it_expects_takes_no_slot(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], error: type[OpenEnvError]
) -> None:
    async def tell(scene: Scene) -> None:
        with pytest.raises(error):
            await scene.admit(A, **fields)
        assert (scene.active, scene.pool.records.living) == (0, {})

    tell_story(monkeypatch, tell)


@pytest.mark.parametrize("failure", [OSError(24, "Too many open files"), asyncio.CancelledError()])
def test_a_slot_is_given_back_when_there_is_no_worker(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    async def tell(scene: Scene) -> None:
        scene.crew.failure = failure
        with pytest.raises(type(failure)):
            await scene.admit(A)
        assert (scene.active, scene.pool.records.living) == (0, {})

    tell_story(monkeypatch, tell)


def test_a_slot_is_given_back_when_the_worker_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        for _ in range(PLACES):
            scene.worker.take_place()
        with pytest.raises(CapacityError):
            await scene.admit(A)
        assert scene.active == 0

    tell_story(monkeypatch, tell)


def test_a_full_server_says_how_full_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        await scene.admit(B)
        with pytest.raises(CapacityError, match="2/2 sessions active") as caught:
            await scene.admit(C)
        assert (caught.value.details["active"], caught.value.details["max"]) == (2, 2)
        assert scene.pool.capacity()["waiting"] == 0

    tell_story(monkeypatch, tell)


def test_a_newcomer_waits_for_a_slot_as_long_as_both_sides_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        waiting = asyncio.ensure_future(scene.admit(B, slot_timeout=20.0))
        while scene.pool.capacity()["waiting"] == 0:
            await asyncio.sleep(0)
        scene.say(c.Ended(A))
        assert (await waiting).session == B
        with pytest.raises(CapacityError):
            await scene.admit(C, slot_timeout=0.01)

    tell_story(monkeypatch, tell, max_sessions=1)


def test_the_server_may_not_let_anybody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        with pytest.raises(CapacityError):
            await scene.admit(B, slot_timeout=1e9)

    tell_story(monkeypatch, tell, max_sessions=1, slot_wait=0.0)


def test_a_session_is_opened_once_even_while_its_twin_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        with pytest.raises(LocalProtocolError, match="resume it"):
            await scene.admit(A)
        twins = [asyncio.ensure_future(scene.admit(B, slot_timeout=20.0)) for _ in range(2)]
        while scene.pool.capacity()["waiting"] < 2:
            await asyncio.sleep(0)
        scene.say(c.Ended(A))
        assert (await twins[0]).session == B
        scene.say(c.Ended(B))
        assert (await twins[1]).session == B
        third = asyncio.ensure_future(scene.admit(B, slot_timeout=20.0))
        scene.pool.slots.maximum = 2
        scene.pool.slots.give(0)
        with pytest.raises(LocalProtocolError):
            await third
        assert scene.active == 1

    tell_story(monkeypatch, tell, max_sessions=1)


def test_a_lost_session_yields_its_slot_to_a_newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        await scene.admit(B)
        scene.say(c.Detached(A))
        assert scene.pool.capacity()["detached"] == 1
        newcomer = asyncio.ensure_future(scene.admit(C))
        while not isinstance(scene.worker.sent[-1], c.End):
            await asyncio.sleep(0)
        end = scene.worker.sent[-1]
        assert isinstance(end, c.End)
        assert (end.session, end.code, end.now) == (A, "session_lost", False)
        assert "a newcomer got the slot" in end.message
        with pytest.raises(SessionLostError, match="newcomer"):
            scene.pool.records.find(A, TOKEN)
        scene.say(c.Ended(A))
        assert (await newcomer).session == C
        assert scene.active == 2

    tell_story(monkeypatch, tell)


def test_a_session_that_is_lost_while_somebody_waits_yields_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        newcomer = asyncio.ensure_future(scene.admit(B, slot_timeout=20.0))
        while scene.pool.capacity()["waiting"] == 0:
            await asyncio.sleep(0)
        scene.say(c.Detached(A))
        assert isinstance(scene.worker.sent[-1], c.End)
        scene.say(c.Ended(A))
        assert (await newcomer).session == B

    tell_story(monkeypatch, tell, max_sessions=1)


@pytest.mark.parametrize("how", ["attached", "reported"])
def test_a_session_that_was_resumed_keeps_its_slot(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    async def tell(scene: Scene) -> None:
        record = await scene.admit(A)
        scene.say(c.Detached(A))
        if how == "attached":
            arrival = scene.arrival()
            arrival.unread, arrival.deflate = b"x", True
            scene.pool.attach(record, arrival)
            assert scene.worker.sent[-1] == c.Attach(A, b"x", True)
            assert (arrival.sock.fileno(), len(scene.worker.fds)) == (-1, 2)
        else:
            scene.say(c.Attached(A))
        with pytest.raises(CapacityError):
            await scene.admit(B)
        assert not any(isinstance(sent, c.End) for sent in scene.worker.sent)

    tell_story(monkeypatch, tell, max_sessions=1)


def test_what_is_said_of_unknown_sessions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        for message in (c.Detached(C), c.Attached(C), c.Ended(C), c.Ended(C), c.Described(0, {})):
            places = scene.free()
            scene.say(message)
            if isinstance(message, c.Described):
                places += 1
            assert scene.free() == places
        assert scene.active == 1

    tell_story(monkeypatch, tell)


def test_the_slots_of_a_worker_that_ended_are_given_back_and_its_clients_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        record = await scene.admit(B)
        record.ending = DeadlineExceededError("too long", operation="step", deadline=1.0)
        scene.crew.ended(scene.worker, WorkerCrashedError("the worker exited", exit_code=7))
        assert (scene.active, scene.worker.sessions) == (0, set())
        with pytest.raises(WorkerCrashedError, match="the worker exited"):
            scene.pool.records.find(A, TOKEN)
        with pytest.raises(DeadlineExceededError):
            scene.pool.records.find(B, TOKEN)
        scene.say(c.Ended(A))
        assert scene.active == 0

    tell_story(monkeypatch, tell)


def test_a_call_that_overran_alone_in_its_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        record = await scene.admit(A)
        reason = DeadlineExceededError("too long", operation="step", deadline=1.0)
        scene.pool.condemn(record, reason)
        assert (scene.worker.kills, scene.worker.tainted) == (1, False)
        assert len(scene.worker.sent) == 1
        scene.crew.ended(scene.worker, WorkerCrashedError("killed"))
        with pytest.raises(DeadlineExceededError):
            scene.pool.records.find(A, TOKEN)
        assert scene.active == 0

    tell_story(monkeypatch, tell, killable=True)


@pytest.mark.parametrize("killable", [True, False])
def test_a_call_that_overran_beside_others_is_given_up(
    monkeypatch: pytest.MonkeyPatch, killable: bool
) -> None:
    async def tell(scene: Scene) -> None:
        record = await scene.admit(A)
        if killable:
            await scene.admit(B)
        before = scene.free()
        scene.pool.condemn(record, DeadlineExceededError("too long", operation="step", deadline=1.0))
        end = scene.worker.sent[-1]
        assert isinstance(end, c.End)
        assert (end.session, end.code, end.now) == (A, "deadline_exceeded", True)
        assert end.details == {"operation": "step", "deadline": 1.0}
        assert (scene.worker.kills, scene.worker.tainted) == (0, True)
        assert scene.crew.relieved == [scene.worker]
        assert (scene.active, scene.free()) == (killable, before)
        scene.say(c.Ended(A))  # the call has returned after all
        assert (scene.active, scene.free()) == (killable, before + 1)

    tell_story(monkeypatch, tell, killable=killable)


def test_an_environment_is_described_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        asking = [asyncio.ensure_future(scene.pool.describe()) for _ in range(3)]
        while not scene.worker.sent:
            await asyncio.sleep(0)
        [describe] = scene.worker.sent
        assert isinstance(describe, c.Describe)
        assert scene.active == 1
        scene.say(c.Described(describe.place, {"target": "t"}))
        assert [await one for one in asking] == [{"target": "t"}] * 3
        assert await scene.pool.describe() == {"target": "t"}
        assert (scene.active, scene.free(), len(scene.worker.sent)) == (0, PLACES, 1)

    tell_story(monkeypatch, tell)


def test_who_asks_what_is_served_waits_not_long_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        with pytest.raises(CapacityError):
            await scene.pool.describe()
        scene.pool.offer(A, True)
        asking = asyncio.ensure_future(scene.pool.describe())
        while not isinstance(scene.worker.sent[-1], c.End):
            await asyncio.sleep(0)
        scene.say(c.Ended(A))
        while not isinstance(describe := scene.worker.sent[-1], c.Describe):
            await asyncio.sleep(0)
        scene.say(c.Described(describe.place, {"target": "t"}))
        assert await asking == {"target": "t"}

    tell_story(monkeypatch, tell, max_sessions=1, slot_wait=0.0)


def test_what_a_session_found_is_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        scene.say(c.Opened(A, None))  # one that was not the first in its worker
        scene.say(c.Opened(A, {"target": "seen"}))
        assert await scene.pool.describe() == {"target": "seen"}

    tell_story(monkeypatch, tell)


def test_a_description_that_failed_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        for _ in range(2):
            asking = asyncio.ensure_future(scene.pool.describe())
            sent = len(scene.worker.sent)
            while len(scene.worker.sent) == sent:
                await asyncio.sleep(0)
            describe = scene.worker.sent[-1]
            assert isinstance(describe, c.Describe)
            scene.say(c.Described(describe.place, None, "RuntimeError: no display"))
            with pytest.raises(ConstructionError, match="no display"):
                await asking
            assert (scene.active, scene.free()) == (0, PLACES)

    tell_story(monkeypatch, tell)


def test_a_description_has_the_deadline_of_a_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        with pytest.raises(DeadlineExceededError, match="construction took longer than 0.001 s") as caught:
            await scene.pool.describe()
        assert caught.value.details == {"operation": "construction", "deadline": 0.001}
        assert scene.worker.tainted
        assert scene.crew.relieved == [scene.worker]
        assert scene.active == 0
        [describe] = scene.worker.sent
        assert isinstance(describe, c.Describe)
        scene.say(c.Described(describe.place, {"target": "late"}))
        assert scene.free() == PLACES

    tell_story(monkeypatch, tell, construction_deadline=0.001)


def test_a_description_ends_with_its_worker_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        asking = asyncio.ensure_future(scene.pool.describe())
        while not scene.worker.sent:
            await asyncio.sleep(0)
        scene.crew.ended(FakeWorker(1, True), WorkerCrashedError("another"))
        await asyncio.sleep(0)
        assert not asking.done()
        scene.crew.ended(scene.worker, WorkerCrashedError("the one", exit_code=3))
        with pytest.raises(WorkerCrashedError, match="the one"):
            await asking
        assert scene.active == 0

    tell_story(monkeypatch, tell)


def test_who_no_longer_waits_for_a_description_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        asking = asyncio.ensure_future(scene.pool.describe())
        while not scene.worker.sent:
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (scene.active, scene.free()) == (0, PLACES - 1)
        describe = scene.worker.sent[0]
        assert isinstance(describe, c.Describe)
        scene.say(c.Described(describe.place, {"target": "late"}))
        assert scene.free() == PLACES

    tell_story(monkeypatch, tell)


def test_a_server_that_shuts_down_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        await scene.admit(A)
        waiting = asyncio.ensure_future(scene.admit(B, slot_timeout=20.0))
        while scene.pool.capacity()["waiting"] == 0:
            await asyncio.sleep(0)
        await scene.pool.drain(0.0)
        with pytest.raises(ServerDrainingError):
            await waiting
        with pytest.raises(ServerDrainingError):
            await scene.admit(C)
        assert scene.active == 1

    tell_story(monkeypatch, tell, max_sessions=1)
