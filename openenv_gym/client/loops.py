"""The driver of calls for asyncio: waits on the loop for what a call waits for.

A connection is a plain socket that belongs to no loop, so a client may be used under one loop after another,
and without any. What cannot be waited for by a descriptor, above all connecting, runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from .line import Answering, Call, Line, Reply, Work

__all__ = ["run"]

#: Who drives a call that was given up while its work goes on in a thread.
_NOBODY = (0, True)


async def run(line: Line, call: Call) -> Any:
    """Carry out ``call``, and those before it; return its result.

    When this is cancelled the call is given up, not undone: what was sent is executed, and nobody gets the
    reply. Calls before it that were begun here are left to the next driver.
    """
    try:
        while not call.done:
            head = await _turn(line, call)
            if head is not None:
                await _finish(line, head, own=head is call)
    except asyncio.CancelledError as exc:
        if not call.begun:
            call.advance(error=exc)
            line.leave(call)
        raise
    return call.outcome()


async def _turn(line: Line, call: Call) -> Call | None:
    """Return the first call if this task may carry it out; else wait until something has changed."""
    loop = asyncio.get_running_loop()
    changed = loop.create_future()
    head = line.claim(call, blocks=False, waker=lambda: _set(loop, changed))
    if head is None:
        await changed
    return head


def _set(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
        loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _finish(line: Line, call: Call, *, own: bool) -> None:
    try:
        while not call.done:
            await _step(call)
    except asyncio.CancelledError as exc:
        if own:
            _give_up(line, call, exc)
        raise
    finally:
        if call.done:
            call.driver = None
            line.leave(call)
        elif call.driver != _NOBODY:
            line.release(call)


def _give_up(line: Line, call: Call, exc: BaseException) -> None:
    running, intent = call.running, call.intent
    if running is None:
        call.advance(error=exc)
        return
    call.driver = _NOBODY  # the next call waits until the thread has ended

    def ended(future: Future[Any]) -> None:
        if isinstance(intent, Work) and intent.undo is not None and future.exception() is None:
            intent.undo(future.result())
        call.advance(error=exc)
        line.leave(call)

    running.add_done_callback(ended)


async def _step(call: Call) -> None:
    """Wait for what a call waits for, and go on with it, unless somebody else has done so meanwhile."""
    intent = call.intent
    try:
        if call.running is not None:
            result = await asyncio.wrap_future(call.running)
        elif isinstance(intent, Work):
            result = await _in_thread(call, intent.run)
        elif isinstance(intent, Reply):
            result = await _reply(call, intent.link)
        else:
            result = None
    except Exception as exc:
        if call.intent is intent and not call.done:
            call.advance(error=exc)
    else:
        if call.intent is intent and not call.done:
            call.advance(result)


async def _reply(call: Call, link: Answering) -> Any:
    intent = call.intent
    while call.intent is intent and not call.done:
        if not link.connected():
            return await _in_thread(call, link.collect)  # connects again, which may take long
        now = monotonic()
        if link.poll() or (link.due is not None and link.due <= now):
            if not link.connected():
                continue
            with contextlib.suppress(TimeoutError):  # only a part of it has arrived
                return link.collect(now)
        left = link.span if link.due is None else min(link.span, link.due - now)
        if not await _readable(call, link.fileno(), left):
            return await _in_thread(call, link.collect)
    return None


async def _readable(call: Call, descriptor: int, seconds: float) -> bool:
    """Wait until something arrives, or ``call`` has gone on, for some seconds at most.

    Returns:
        Whether the loop can do that.
    """
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    try:
        loop.add_reader(descriptor, _resolve, arrived)
    except NotImplementedError:
        return False
    timer = loop.call_later(max(seconds, 0.0), _resolve, arrived)
    call.waker = lambda: _set(loop, arrived)
    try:
        await arrived
    finally:
        call.waker = None
        timer.cancel()
        loop.remove_reader(descriptor)
    return True


async def _in_thread(call: Call, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a thread of its own; a pool's few would be taken by those who wait."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    call.running = future

    def body() -> None:
        try:
            result = work()
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(result)

    threading.Thread(target=body, name="openenv-client", daemon=True).start()
    return await asyncio.wrap_future(future)
