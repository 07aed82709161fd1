"""One description of a computation, whether or not something in it has to be awaited.

A *flow* is a generator that yields values. A plain value comes back as it is, an awaitable as what it gives.
So a rubric is written once: without anything to await the result is there at once, else it is a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

__all__ = ["Flow", "Rest", "settle", "together"]

T = TypeVar("T")
Flow: TypeAlias = Generator[Any, Any, T]


class Rest(Coroutine[Any, Any, T]):
    """A coroutine that is made when it is first run.

    A coroutine function's would not do: closed or cancelled before it runs, it leaves those that it was going
    to await unclosed, and Python warns of each.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], awaited: Sequence[Awaitable[Any]]) -> None:
        self._make = make
        self._awaited = awaited
        self._running: Coroutine[Any, Any, T] | None = None

    def send(self, value: Any) -> Any:
        """Run on, as a coroutine does."""
        return self._started().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise ``error`` where it stands."""
        if self._running is None:
            self._discard()
        return self._started().throw(*error)

    def close(self) -> None:
        """End it, and all that it was going to await."""
        if self._running is None:
            self._discard()
        self._started().close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._started().__await__()

    def _started(self) -> Coroutine[Any, Any, T]:
        if self._running is None:
            self._running = self._make()
        return self._running

    def _discard(self) -> None:
        for awaitable in self._awaited:
            _discard(awaitable)


def settle(flow: Flow[T]) -> T | Coroutine[Any, Any, T]:
    """Run ``flow`` to its end, or to the first awaitable: then the rest of it is a coroutine."""
    try:
        awaitable = _to_awaitable(flow, None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    return Rest(partial(_finish, flow, awaitable), [awaitable])


def together(calls: Sequence[Callable[[], Any]]) -> list[Any] | Coroutine[Any, Any, list[Any]]:
    """Return the results of ``calls`` in their order; those that have to be awaited run side by side.

    The first that raises ends the others, and its exception is raised.
    """
    results: list[Any] = []
    try:
        for call in calls:
            results.append(call())
    except BaseException:
        for result in filter(isawaitable, results):
            _discard(result)
        raise
    awaited = [result for result in results if isawaitable(result)]
    return Rest(partial(_join, results), awaited) if awaited else results


def _to_awaitable(flow: Flow[Any], value: Any) -> Awaitable[Any]:
    """Send ``value`` into ``flow``, then its own values back, until it yields an awaitable."""
    while not isawaitable(value := flow.send(value)):
        pass
    return value


async def _finish(flow: Flow[T], awaitable: Awaitable[Any]) -> T:
    try:
        while True:
            try:
                value = await awaitable
            except BaseException as exc:
                value = flow.throw(exc)
                awaitable = value if isawaitable(value) else _to_awaitable(flow, value)
            else:
                awaitable = _to_awaitable(flow, value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def _join(results: list[Any]) -> list[Any]:
    failed: BaseException | None = None
    tasks: list[Any] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_begun(item)) if isawaitable(item) else item for item in results]
    except BaseExceptionGroup as failures:
        failed = failures.exceptions[0]
    if failed is not None:
        raise failed
    return [task.result() if isinstance(task, asyncio.Task) else task for task in tasks]


def _begun(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    if isinstance(awaitable, Coroutine):
        return awaitable

    async def wait() -> T:
        return await awaitable

    return wait()


def _discard(awaitable: Awaitable[Any]) -> None:
    if isinstance(awaitable, Coroutine):
        awaitable.close()
    elif isinstance(awaitable, asyncio.Future):
        awaitable.cancel()
