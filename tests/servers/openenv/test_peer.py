"""A peer speaks the binary protocol with a worker, whatever the worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import (
    CapacityError,
    ConstructionError,
    DeadlineExceededError,
    MessageTooLargeError,
    OpenEnvError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    SessionLostError,
    ValidationError,
    WorkerCrashedError,
)
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import pack
from openenv_gym.servers.openenv.peer import Outcome, Peer

from ..wire import LOOPS, run
from .fakeworker import FakePool, instead, reply_to


def _story(tell: Callable[[], Awaitable[None]], new_loop: Any = asyncio.new_event_loop) -> None:
    async def main() -> None:
        await tell()

    run(main, new_loop)


async def _open(pool: FakePool, **more: Any) -> Peer:
    return await Peer.open(pool, **more)  # type: ignore[arg-type]


async def _gated() -> tuple[asyncio.Event, FakePool, Peer]:
    """Return a peer whose worker answers no step before the event comes."""
    gate = asyncio.Event()

    async def wait(request: m.Step) -> Any:
        await gate.wait()
        return reply_to(request)

    pool = FakePool(instead(m.Step, wait))
    return gate, pool, await _open(pool)


async def _begun(pool: FakePool) -> None:
    """Wait until the worker has the first request of a session."""
    while len(pool.asked) < 2:
        await asyncio.sleep(0)


@LOOPS
def test_a_session_from_end_to_end(new_loop: Any) -> None:
    async def tell() -> None:
        pool = FakePool()
        peer = await _open(pool, env_kwargs={"size": 3}, patience=2.0)
        first = await peer.reset(7, {"episode_id": "e"})
        assert first == Outcome({"seed": 7, "episode_id": "e"}, None, False, False, {"start": True})
        second = await peer.step({"x": [1, 2.5, None]})
        assert second == Outcome({"x": [1, 2.5, None]}, 0.5, True, False, {"n": 2})
        assert (first.done, second.done) == (False, True)
        assert await peer.state() == {"episode_id": "e", "step_count": 3}
        assert await peer.ask("tools/list", {"cursor": "c"}) == ["tools/list", {"cursor": "c"}]
        assert not peer.has_tools
        await peer.close()
        await pool.settle()
        kinds = [type(request) for request in pool.asked]
        assert kinds == [m.Hello, m.Reset, m.Step, m.State, m.Ask, m.Close]
        hello = pool.asked[0]
        assert (hello.face, hello.env_kwargs, hello.slot_timeout) == ("typed", {"size": 3}, 2.0)
        assert pool.done == []

    _story(tell, new_loop)


@LOOPS
def test_a_message_may_be_large_and_come_in_pieces(new_loop: Any) -> None:
    image = np.arange(3 << 20, dtype=np.uint8)
    large = instead(m.State, lambda request: m.Value(request.id, [{"image": pack(image)}]))

    async def tell() -> None:
        peer = await _open(FakePool(large))
        assert np.array_equal((await peer.state())["image"], image)
        peer.drop()

    _story(tell, new_loop)


def test_without_seed_or_options_nothing_is_sent() -> None:
    async def tell() -> None:
        pool = FakePool()
        peer = await _open(pool)
        assert (await peer.reset()).observation == {"seed": None}
        assert pool.asked[1] == m.Reset(1)
        peer.drop()

    _story(tell)


@pytest.mark.parametrize(
    "error", [CapacityError("full", active=1, max=1), ConstructionError("no such level")]
)
def test_a_refusal_is_raised_and_leaves_nothing(error: OpenEnvError) -> None:
    async def tell() -> None:
        refused = FakePool(refusal=error)
        with pytest.raises(type(error), match=error.message):
            await _open(refused)
        said = m.Error(str(error.code), error.message, details=error.details)
        failed = FakePool(instead(m.Hello, said))
        with pytest.raises(type(error), match=error.message) as caught:
            await _open(failed)
        assert caught.value.details == error.details
        await failed.settle()

    _story(tell)


def test_an_error_is_raised_and_the_session_goes_on() -> None:
    def fail(request: m.Step) -> m.Error:
        return m.Error("environment", "ValueError: no", request.id, True, {"type": "ValueError"})

    async def tell() -> None:
        peer = await _open(FakePool(instead(m.Step, fail)))
        with pytest.raises(RemoteEnvironmentError, match="no") as caught:
            await peer.step({})
        assert caught.value.details == {"type": "ValueError"}
        assert not peer.ended.done()
        assert (await peer.state())["step_count"] == 2
        peer.drop()

    _story(tell)


def test_an_error_that_ends_the_session_is_the_answer_to_every_call() -> None:
    def end(request: m.Step) -> m.Error:
        return m.Error("deadline_exceeded", "too slow", request.id, False)

    async def tell() -> None:
        pool = FakePool(instead(m.Step, end))
        peer = await _open(pool)
        for call in (peer.step({}), peer.state(), peer.reset()):
            with pytest.raises(DeadlineExceededError, match="too slow"):
                await call
        assert peer.ended.result().message == "too slow"
        await peer.close()
        assert [type(request) for request in pool.asked] == [m.Hello, m.Step]

    _story(tell)


def test_what_the_worker_says_between_two_calls_is_known_at_once() -> None:
    idle = m.Error("session_lost", "idle for too long")

    async def tell() -> None:
        peer = await _open(FakePool(instead(m.Hello, lambda hello: [reply_to(hello), idle])))
        assert (await peer.ended).message == "idle for too long"
        with pytest.raises(SessionLostError, match="idle for too long"):
            await peer.step({})
        peer.drop()

    _story(tell)


def test_a_worker_that_dies_is_asked_about() -> None:
    async def tell() -> None:
        pool = FakePool(instead(m.Step, lambda request: None))
        peer = await _open(pool)
        (session,) = pool.living
        pool.endings[session] = WorkerCrashedError("signal 11", signal=11)
        with pytest.raises(WorkerCrashedError, match="signal 11") as caught:
            await peer.step({})
        assert caught.value.details == {"signal": 11}
        with pytest.raises(WorkerCrashedError):
            await peer.reset()
        await peer.close()

    _story(tell)


def test_a_worker_that_closes_politely_is_asked_about_too() -> None:
    goodbye = frames.frame(frames.CLOSE, frames.close_payload(1001, "bye"), masked=False)

    async def tell() -> None:
        pool = FakePool(instead(m.Step, [bytes(goodbye), None]))
        peer = await _open(pool)
        with pytest.raises(SessionLostError, match="the fake worker let go"):
            await peer.step({})
        peer.drop()

    _story(tell)


def test_signs_of_life_are_no_answer() -> None:
    pong = bytes(frames.frame(frames.PONG, masked=False))

    async def tell() -> None:
        peer = await _open(FakePool(lambda request: [pong, reply_to(request), pong]))
        assert (await peer.step({"a": 1})).observation == {"a": 1}
        peer.drop()

    _story(tell)


def test_a_call_that_was_cancelled_gives_no_other_call_its_answer() -> None:
    async def tell() -> None:
        gate, pool, peer = await _gated()
        call = asyncio.create_task(peer.step({"late": True}))
        await _begun(pool)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        asking = asyncio.create_task(peer.state())
        await asyncio.sleep(0)
        gate.set()
        assert (await asking)["step_count"] == 2
        peer.drop()

    _story(tell)


def test_a_call_that_is_cancelled_before_its_turn_is_not_carried_out() -> None:
    async def tell() -> None:
        gate, pool, peer = await _gated()
        first = asyncio.create_task(peer.step({"n": 1}))
        await _begun(pool)
        first.cancel()  # it has begun, so the next has to wait for it all the same
        second, third = (asyncio.create_task(peer.step({"n": n})) for n in (2, 3))
        await asyncio.sleep(0)
        second.cancel()
        gate.set()
        assert (await third).observation == {"n": 3}
        assert [request.actions for request in pool.asked[1:]] == [{"n": 1}, {"n": 3}]
        assert first.cancelled() and second.cancelled()
        peer.drop()

    _story(tell)


def test_a_session_that_ends_during_a_cancelled_call_answers_the_next_one() -> None:
    async def tell() -> None:
        gate = asyncio.Event()

        async def die(request: m.Step) -> None:
            await gate.wait()

        pool = FakePool(instead(m.Step, die))
        peer = await _open(pool)
        first = asyncio.create_task(peer.step({}))
        await _begun(pool)
        first.cancel()
        second = asyncio.create_task(peer.state())
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(SessionLostError, match="let go"):
            await second
        assert not peer._lock.locked()
        peer.drop()

    _story(tell)


def test_calls_take_turns() -> None:
    async def tell() -> None:
        peer = await _open(FakePool())
        answers = await asyncio.gather(*(peer.step({"n": n}) for n in range(20)))
        assert [answer.observation["n"] for answer in answers] == list(range(20))
        peer.drop()

    _story(tell)


def test_a_call_that_overruns_its_time_ends_the_session() -> None:
    async def tell() -> None:
        async def never(request: m.Step) -> None:
            await asyncio.Event().wait()

        pool = FakePool(instead(m.Step, never))
        peer = await _open(pool)
        with pytest.raises(DeadlineExceededError, match="step took longer than 0.01 s") as caught:
            await peer.step({}, timeout=0.01)
        assert caught.value.details == {"operation": "step", "deadline": 0.01}
        ((what, reason),) = pool.done
        assert (what, reason.message) == ("condemn", caught.value.message)
        with pytest.raises(DeadlineExceededError):
            await peer.state()
        peer.drop()
        for task in pool.tasks:
            task.cancel()

    _story(tell)


def test_a_step_that_could_not_begin_in_time_leaves_the_session_to_the_one_that_runs() -> None:
    async def tell() -> None:
        go_on = asyncio.Event()

        async def later(request: m.Step) -> m.Transition:
            await go_on.wait()
            return m.Transition(request.id, pack({"x": 1}, "obs"), [1.0], b"\0")

        pool = FakePool(instead(m.Step, later))
        peer = await _open(pool)
        running = asyncio.create_task(peer.step({}))
        await _begun(pool)
        with pytest.raises(DeadlineExceededError, match="could not begin within 0.01 s"):
            await peer.step({}, timeout=0.01)
        assert (pool.done, peer.ended.done()) == ([], False)
        go_on.set()
        assert (await running).observation == {"x": 1}
        assert (await peer.step({}, timeout=20.0)).reward == 1.0
        peer.drop()

    _story(tell)


def test_a_session_is_dropped_once_while_a_call_runs() -> None:
    async def tell() -> None:
        async def never(request: m.Step) -> None:
            await asyncio.Event().wait()

        pool = FakePool(instead(m.Step, never))
        peer = await _open(pool)
        call = asyncio.create_task(peer.step({}))
        await _begun(pool)
        await peer.close()
        await peer.close()
        with pytest.raises(SessionLostError, match="closed by its client"):
            await call
        assert [what for what, _ in pool.done] == ["end"]
        for task in pool.tasks:
            task.cancel()

    _story(tell)


def test_an_environment_that_fails_to_close_is_told_of() -> None:
    def fail(request: m.Close) -> m.Error:
        return m.Error("environment", "OSError: the disk is full", request.id)

    async def tell() -> None:
        peer = await _open(FakePool(instead(m.Close, fail)))
        with pytest.raises(RemoteEnvironmentError, match="disk is full"):
            await peer.close()
        assert peer.ended.done()

    _story(tell)


def test_what_cannot_travel_is_refused_before_it_is_sent() -> None:
    async def tell() -> None:
        pool = FakePool(max_message_size=1024)
        peer = await _open(pool)
        with pytest.raises(ValidationError, match=r"^\$\['x'\] has no form"):
            await peer.step({"x": object()})
        peer._wire.peer_max_message = 64
        with pytest.raises(MessageTooLargeError):
            await peer.step({"x": "y" * 100})
        assert (await peer.step({"x": 1})).observation == {"x": 1}
        assert [request.id for request in pool.asked[1:]] == [1]
        peer.drop()

    _story(tell)


def test_bytes_that_are_no_message_are_a_fault_of_the_worker() -> None:
    async def tell() -> None:
        peer = await _open(FakePool())
        with pytest.raises(RemoteProtocolError):
            peer._heard(b"\xc1")
        peer.drop()

    _story(tell)
