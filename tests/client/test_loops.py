"""The driver of calls for asyncio."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from openenv_gym.client import loops
from openenv_gym.client.line import Call, Line, Reply, Work
from openenv_gym.client.loops import run


class SocketLink:
    """A connection whose reply is a byte on a socket."""

    def __init__(self) -> None:
        self.span = 5.0
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.due: float | None = None
        self.alive = True
        self.given_up = 0

    def connected(self) -> bool:
        return self.alive

    def fileno(self) -> int:
        return self.ours.fileno()

    def poll(self) -> bool:
        try:
            return bool(self.ours.recv(1, socket.MSG_PEEK)) or True
        except BlockingIOError:
            return False

    def collect(self, patience: float | None = None) -> Any:
        if self.due is not None and self.due <= time.monotonic():
            raise LookupError("too late")
        if not self.alive:
            self.alive = True
            return "restored"
        self.ours.setblocking(True)
        data = self.ours.recv(1)
        self.ours.setblocking(False)
        if data == b"?":
            raise TimeoutError
        return data

    def flow(self) -> Generator[Any, Any, Any]:
        try:
            return (yield Reply(self))
        except BaseException:
            self.given_up += 1
            raise


@pytest.fixture
def link() -> Iterator[SocketLink]:
    link = SocketLink()
    yield link
    link.ours.close()
    link.theirs.close()


def call_in(line: Line, flow: Generator[Any, Any, Any]) -> Call:
    call = Call("it", flow)
    line.add(call)
    return call


def working(work: Work) -> Generator[Any, Any, Any]:
    return (yield work)


async def ticks() -> int:
    """Count how often the loop comes by, for a while."""
    count = 0
    for _ in range(5):
        await asyncio.sleep(0.002)
        count += 1
    return count


def test_a_reply_is_waited_for_on_the_loop(link: SocketLink) -> None:
    async def main() -> tuple[Any, int]:
        line = Line()
        task = asyncio.ensure_future(run(line, call_in(line, link.flow())))
        count = await ticks()
        assert not task.done()
        link.theirs.send(b"x")
        return await task, count

    assert asyncio.run(main()) == (b"x", 5)


def test_a_part_of_a_reply_is_waited_on(link: SocketLink) -> None:
    async def main() -> Any:
        line = Line()
        asyncio.get_running_loop().call_later(0.02, link.theirs.send, b"y")
        link.theirs.send(b"?")
        return await run(line, call_in(line, link.flow()))

    assert asyncio.run(main()) == b"y"


def test_a_deadline_is_kept(link: SocketLink) -> None:
    link.due = time.monotonic() + 0.02
    line = Line()
    with pytest.raises(LookupError, match="too late"):
        asyncio.run(run(line, call_in(line, link.flow())))


def test_what_has_to_connect_first_runs_in_a_thread(link: SocketLink) -> None:
    link.alive = False
    line = Line()
    assert asyncio.run(run(line, call_in(line, link.flow()))) == "restored"


def test_a_loop_that_cannot_watch_descriptors_uses_a_thread(
    link: SocketLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> Any:
        def refuse(*args: Any) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
        asyncio.get_running_loop().call_later(0.02, link.theirs.send, b"z")
        line = Line()
        return await run(line, call_in(line, link.flow()))

    assert asyncio.run(main()) == b"z"


def test_work_runs_in_a_thread_and_its_error_is_the_calls() -> None:
    async def main() -> None:
        line, here = Line(), threading.get_ident()
        assert await run(line, call_in(line, working(Work(threading.get_ident)))) != here
        with pytest.raises(ZeroDivisionError):
            await run(line, call_in(line, working(Work(lambda: 1 / 0))))

    asyncio.run(main())


def test_many_works_run_at_once_whatever_a_pool_would_hold() -> None:
    barrier = threading.Barrier(40)

    async def main() -> list[Any]:
        lines = [Line() for _ in range(40)]
        return await asyncio.gather(
            *(run(line, call_in(line, working(Work(lambda: barrier.wait(20))))) for line in lines)
        )

    assert sorted(asyncio.run(main())) == list(range(40))


def test_tasks_of_one_line_take_turns(link: SocketLink) -> None:
    async def main() -> list[Any]:
        line = Line()
        calls = [call_in(line, link.flow()) for _ in range(3)]
        tasks = [asyncio.ensure_future(run(line, call)) for call in calls]
        for letter in (b"a", b"b", b"c"):
            await asyncio.sleep(0.002)
            link.theirs.send(letter)
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [b"a", b"b", b"c"]


def test_a_cancelled_call_is_given_up_and_the_next_one_goes_on(link: SocketLink) -> None:
    async def main() -> Any:
        line = Line()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run(line, call_in(line, link.flow())), 0.01)
        assert link.given_up == 1
        link.theirs.send(b"n")
        return await run(line, call_in(line, link.flow()))

    assert asyncio.run(main()) == b"n"


def test_a_call_that_waits_for_its_turn_is_cancelled_without_being_begun(link: SocketLink) -> None:
    async def main() -> None:
        line = Line()
        first = asyncio.ensure_future(run(line, call_in(line, link.flow())))
        second = call_in(line, link.flow())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run(line, second), 0.01)
        assert second.done
        assert not first.done()
        link.theirs.send(b"f")
        assert await first == b"f"

    asyncio.run(main())
    assert link.given_up == 0


def test_cancelling_one_who_carries_out_an_earlier_call_leaves_that_call_alone(link: SocketLink) -> None:
    async def main() -> None:
        line = Line()
        earlier = call_in(line, link.flow())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run(line, call_in(line, working(Work(lambda: 1)))), 0.01)
        assert earlier.begun and not earlier.done
        link.theirs.send(b"e")
        assert await run(line, earlier) == b"e"

    asyncio.run(main())
    assert link.given_up == 0


def test_work_of_a_cancelled_call_is_undone_before_the_next_call_begins() -> None:
    entered, release, log = threading.Event(), threading.Event(), []

    def slow() -> str:
        entered.set()
        release.wait(10)
        log.append("done")
        return "thing"

    def after() -> Generator[Any, Any, Any]:
        log.append("next")
        return (yield Work(lambda: None))

    async def main() -> None:
        line = Line()
        first = call_in(line, working(Work(slow, lambda thing: log.append(f"undone {thing}"))))
        task = asyncio.ensure_future(run(line, first))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        following = asyncio.ensure_future(run(line, call_in(line, after())))
        await ticks()
        assert log == []
        release.set()
        await following

    asyncio.run(main())
    assert log == ["done", "undone thing", "next"]


def test_a_blocking_call_on_the_loop_finishes_what_a_task_had_begun(link: SocketLink) -> None:
    async def main() -> Any:
        line, link.span = Line(), 600.0
        task = asyncio.ensure_future(run(line, call_in(line, link.flow())))
        await ticks()
        link.theirs.send(b"t")
        assert line.run(call_in(line, working(Work(lambda: "blocking")))) == "blocking"
        return await asyncio.wait_for(task, 60)  # it is told, and does not find out at the next look

    assert asyncio.run(main()) == b"t"


def test_one_line_serves_one_loop_after_another(link: SocketLink) -> None:
    line = Line()
    for letter in (b"1", b"2"):
        link.theirs.send(letter)
        assert asyncio.run(run(line, call_in(line, link.flow()))) == letter


def test_a_loop_that_is_gone_keeps_nobody_from_going_on() -> None:
    loop = asyncio.new_event_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.close()
    loops._set(loop, future)
    assert not future.done()
