from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.rubrics.flow import Flow, Rest, settle, together


async def give(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


def echo(values: list[Any]) -> Flow[list[Any]]:
    got = []
    for value in values:
        got.append((yield value))
    return got


def run(result: Any) -> Any:
    assert isinstance(result, Coroutine)
    return asyncio.run(result)


def test_without_anything_to_await_the_result_is_there() -> None:
    assert settle(echo([1, None, "x"])) == [1, None, "x"]
    assert settle(echo([])) == []


@given(st.lists(st.tuples(st.integers(), st.booleans())))
def test_values_and_awaitables_come_back_in_their_order(items: list[tuple[int, bool]]) -> None:
    settled = settle(echo([give(value) if later else value for value, later in items]))
    expected = [value for value, _ in items]
    assert (run(settled) if any(later for _, later in items) else settled) == expected


def catching(first: Any, then: Any) -> Flow[Any]:
    try:
        yield first
    except KeyError:
        return (yield then)
    return "nothing raised"


def test_an_exception_is_raised_where_the_flow_waits() -> None:
    assert run(settle(catching(give(KeyError()), "plain"))) == "plain"
    assert run(settle(catching(give(KeyError()), give("awaited")))) == "awaited"
    assert run(settle(catching(give(1), None))) == "nothing raised"
    with pytest.raises(ValueError, match="this"):
        run(settle(catching(give(ValueError("this")), None)))


def test_what_a_flow_itself_raises_comes_at_once() -> None:
    def flow() -> Flow[None]:
        yield 1
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        settle(flow())


def test_a_coroutine_that_is_never_run_leaves_nothing_behind() -> None:
    inner = give(1)
    outer = settle(echo([settle(echo([inner]))]))
    assert isinstance(outer, Rest)
    outer.close()
    with pytest.raises(RuntimeError, match="cannot reuse"):
        inner.send(None)


def test_a_task_cancelled_before_it_runs_leaves_nothing_behind() -> None:
    inner = give(1)

    async def main() -> None:
        task = asyncio.ensure_future(settle(echo([inner])))  # type: ignore[arg-type]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="cannot reuse"):
        inner.send(None)


def test_a_future_that_nobody_will_await_is_cancelled() -> None:
    async def main() -> bool:
        future = asyncio.get_running_loop().create_future()
        settle(echo([future])).close()  # type: ignore[union-attr]
        return future.cancelled()

    assert asyncio.run(main())


def test_cancelling_reaches_what_runs() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    async def main() -> None:
        task = asyncio.ensure_future(together([slow, slow]))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == ["slow", "slow"]


def test_closing_one_that_runs_closes_what_it_awaits() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("slow")

    rest = settle(echo([slow()]))
    assert isinstance(rest, Rest)
    rest.send(None)
    rest.close()
    assert ended == ["slow"]


def test_together_keeps_the_order_of_the_calls() -> None:
    assert together([lambda: 1, lambda: 2]) == [1, 2]
    assert together([]) == []
    assert run(together([lambda: give(1), lambda: 2, lambda: give(3)])) == [1, 2, 3]


def test_together_takes_any_awaitable() -> None:
    async def main() -> Any:
        future = asyncio.get_running_loop().create_future()

        async def give_it() -> str:
            future.set_result("from the future")
            return "given"

        return await together([lambda: future, give_it])  # type: ignore[misc]

    assert asyncio.run(main()) == ["from the future", "given"]


def test_together_runs_side_by_side() -> None:
    async def main() -> Any:
        barrier = asyncio.Barrier(10)

        async def meet() -> int:
            return await barrier.wait()

        return await together([meet] * 10)  # type: ignore[misc]

    assert sorted(asyncio.run(main())) == list(range(10))


def test_the_first_failure_ends_the_others() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    cause = OSError("below")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("first") from cause

    with pytest.raises(LookupError, match="first") as caught:
        run(together([slow, fail, slow]))
    assert ended == ["slow", "slow"]
    assert caught.value.__cause__ is cause


def test_a_call_that_raises_closes_those_before_it() -> None:
    inner = give(1)

    def fail() -> None:
        raise LookupError("now")

    with pytest.raises(LookupError, match="now"):
        together([lambda: inner, fail, lambda: give(2)])
    with pytest.raises(RuntimeError, match="cannot reuse"):
        inner.send(None)
