"""What a call returns while an event loop runs."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Generator
from typing import Any

import pytest

from openenv_gym.client.line import Call, Line, Work
from openenv_gym.client.pending import Pending, loop_runs
from openenv_gym.models import StepResult


class Client:
    """Makes pending calls."""

    def __init__(self) -> None:
        self.line = Line()
        self.log: list[Any] = []

    def call(self, result: Any, *, name: str = "step()", at_last: bool = False) -> Pending[Any]:
        def flow() -> Generator[Any, Any, Any]:
            got = yield Work(lambda: result)
            self.log.append(got)
            if isinstance(got, Exception):
                raise got
            return got

        call = Call(name, flow())
        self.line.add(call)
        return Pending(self.line, call, at_last=at_last)


@pytest.fixture
def client() -> Client:
    return Client()


def test_whether_a_loop_runs() -> None:
    async def inside() -> bool:
        return loop_runs()

    assert not loop_runs()
    assert asyncio.run(inside())
    assert not loop_runs()


def test_awaited_it_is_carried_out_and_may_be_awaited_again(client: Client) -> None:
    async def main() -> None:
        pending = client.call(5)
        assert repr(pending) == "<step(), to be awaited>"
        assert client.log == []
        assert [await pending, await pending] == [5, 5]
        assert repr(pending) == "<step(), done>"

    asyncio.run(main())
    assert client.log == [5]


def test_used_without_await_it_is_carried_out_then(client: Client) -> None:
    async def main() -> None:
        result = client.call(StepResult({"a": 1}, reward=0.5, done=True))
        assert (result.reward, result.done, result.observation["a"]) == (0.5, True, 1)
        state = client.call({"step_count": 3})
        assert (state["step_count"], len(state), list(state), "x" in state) == (3, 1, ["step_count"], False)
        assert not client.call({})
        assert (await result).reward == 0.5

    asyncio.run(main())
    assert len(client.log) == 3


def test_calls_made_before_come_first_whoever_is_awaited(client: Client) -> None:
    async def main() -> None:
        first, second = client.call(1), client.call(2)
        assert await second == 2
        assert client.log == [1, 2]
        assert await first == 1
        third, fourth = client.call("3"), client.call("4")
        assert fourth.upper() == "4"
        assert await third == "3"

    asyncio.run(main())
    assert client.log == [1, 2, "3", "4"]


def test_a_task_a_group_and_a_timeout_take_it(client: Client) -> None:
    async def main() -> None:
        assert await asyncio.create_task(client.call(1)) == 1
        assert await asyncio.gather(client.call(2), client.call(3)) == [2, 3]
        assert await asyncio.wait_for(client.call(4), 5) == 4

    asyncio.run(main())
    assert client.log == [1, 2, 3, 4]


def test_f030_dropped_it_is_not_carried_out_and_named(client: Client) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match=r"step\(\) was never awaited, so it was not carried out"):
            client.call(1)
            gc.collect()
        assert await client.call(2) == 2

    asyncio.run(main())
    assert client.log == [2]


def test_what_has_to_be_done_at_last_is_done_when_it_is_dropped(client: Client) -> None:
    async def main() -> None:
        client.call(1, at_last=True)

    asyncio.run(main())
    assert client.log == [1]


def test_an_error_that_nobody_looked_at_is_named(client: Client) -> None:
    async def main() -> None:
        first = client.call(ValueError("no"), name="reset()")
        assert await client.call(2) == 2
        with pytest.warns(RuntimeWarning, match=r"reset\(\) failed, and nobody looked: ValueError"):
            del first

    asyncio.run(main())


def test_a_task_that_never_began_carries_nothing_out(client: Client) -> None:
    async def main() -> None:
        task = asyncio.create_task(client.call(1))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.call(2) == 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert client.log == [2]


def test_looking_at_it_does_not_carry_it_out(client: Client) -> None:
    async def main() -> None:
        pending = client.call(1)
        for name in ("cr_code", "gi_frame", "__wrapped__", "_private"):
            assert not hasattr(pending, name)
        assert asyncio.iscoroutine(pending)
        assert client.log == []
        await pending

    asyncio.run(main())


def test_closing_it_gives_it_up_and_closing_what_is_done_closes_the_result(client: Client) -> None:
    closed: list[int] = []

    class Thing:
        def close(self) -> None:
            closed.append(1)

    async def main() -> None:
        client.call(1).close()
        thing = client.call(Thing())
        await thing
        thing.close()
        number = client.call(3)
        await number
        number.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert closed == [1]
    assert 1 not in client.log
