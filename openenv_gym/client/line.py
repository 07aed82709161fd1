"""The calls of one client, which take turns: one is carried out at a time, in the order they were made.

A call is a generator that yields what has to be waited for (:class:`Work`, :class:`Reply`); a *driver* waits
for it and goes on. There are two: the blocking one is here, the one of asyncio in :mod:`.loops`. A call that
a task has begun can be finished by a blocking driver in the same thread, since nothing in it belongs to an
event loop; otherwise a blocking call behind it could wait for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..errors import LocalProtocolError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Answering", "Call", "Line", "Reply", "Work"]


class Answering(Protocol):
    """A connection of which a reply is outstanding."""

    @property
    def due(self) -> float | None:
        """When the reply must be there (``time.monotonic()``)."""

    def connected(self) -> bool:
        """Whether there is a connection, and :meth:`collect` would not have to make one."""

    @property
    def span(self) -> float:
        """For how many seconds at most :meth:`poll` need not be called."""

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something arrives."""

    def poll(self) -> bool:
        """Return, without waiting, whether :meth:`collect` has something to say."""

    def collect(self, patience: float | None = None) -> Any:
        """Return the reply; raise TimeoutError when ``patience`` is over."""


class Work(Struct, frozen=True):
    """Intent: run a function that may take long.

    Attributes:
        run: The function.
        undo: What is done with its result when the call was given up meanwhile.
    """

    run: Callable[[], Any]
    undo: Callable[[Any], None] | None = None


class Reply(Struct, frozen=True):
    """Intent: wait for the outstanding reply."""

    link: Answering


class Call:
    """One call of a client, carried out once.

    Args:
        name: What errors and warnings call it.
        flow: Yields intents, is sent results, and returns the call's result.

    Attributes:
        intent: What is waited for.
        done: Whether it has a result or an error.
        driver: The thread that carries it out, and whether it blocks meanwhile; ``None``: nobody does.
        running: What runs for it in a thread of its own.
        waker: Called once when it has gone on, for a task that waits for it while another driver does that.
        error: What it raised.
    """

    def __init__(self, name: str, flow: Generator[Any, Any, Any]) -> None:
        self.name = name
        self.intent: Any = None
        self.done = False
        self.driver: tuple[int, bool] | None = None
        self.running: Future[Any] | None = None
        self.waker: Callable[[], None] | None = None
        self._flow = flow
        self._begun = False
        self._value: Any = None
        self.error: BaseException | None = None

    @property
    def begun(self) -> bool:
        """Return whether it was begun."""
        return self._begun

    def advance(self, result: Any = None, error: BaseException | None = None) -> None:
        """Go on with what came of the intent."""
        self._begun, self.running = True, None
        try:
            self.intent = self._flow.send(result) if error is None else self._flow.throw(error)
        except StopIteration as stop:
            self._value, self.done = stop.value, True
        except BaseException as exc:
            self.error, self.done = exc, True
        if self.waker is not None:
            self.waker()

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self._value


class Line:
    """Who is whose turn it is. May be used from any thread."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: How many threads wait for a change; to tell nobody takes time as well.
        self._waiting = 0
        self._wakers: list[Callable[[], None]] = []

    def add(self, call: Call) -> None:
        """Put a call at the end."""
        with self._lock:
            self._calls.append(call)

    def leave(self, call: Call) -> None:
        """Take a call out that is done, or was never begun."""
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)
            if self._waiting or self._wakers:
                self.wake()

    def wake(self) -> None:
        """Tell everybody who waits that something has changed."""
        with self._lock:
            self._changed.notify_all()
            wakers, self._wakers = self._wakers, []
        for waker in wakers:
            waker()

    def claim(self, call: Call, *, blocks: bool, waker: Callable[[], None] | None = None) -> Call | None:
        """Return the first call, now this thread's to carry out; ``None``: somebody else does it.

        Args:
            call: The call that is wanted; when it is done it is returned itself.
            blocks: Whether the driver blocks its thread; it may then take over from a task of this thread.
            waker: Called once when something has changed, if the answer is ``None``.

        Raises:
            LocalProtocolError: This thread carries it out already: a signal handler came in between.
        """
        me = threading.get_ident()
        with self._lock:
            if call.done:
                return call
            head = self._calls[0]
            if head.driver is not None and head.driver == (me, True):
                raise LocalProtocolError(
                    f"{head.name} is under way; a signal handler cannot make another call"
                )
            if head.driver is None or (blocks and head.driver[0] == me):
                head.driver = me, blocks
                return head
            if waker is not None:
                self._wakers.append(waker)
            return None

    def release(self, call: Call) -> None:
        """Let somebody else go on with a call that is not done."""
        with self._lock:
            call.driver = None
        self.wake()

    def run(self, call: Call) -> Any:
        """Carry out ``call``, and those before it, while this thread waits; return its result.

        When an interrupt comes before it was begun, it is not carried out any more.
        """
        try:
            while not call.done:
                with self._lock:
                    head = self.claim(call, blocks=True)
                    if head is None:
                        self._wait()
                if head is not None:
                    self._finish(head)
        except BaseException as exc:
            if not call.begun:
                call.advance(error=exc)
                self.leave(call)
            raise
        return call.outcome()

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def _finish(self, call: Call) -> None:
        try:
            while not call.done:
                _step(call)
        finally:
            call.driver = None
            self.leave(call)


def _step(call: Call) -> None:
    """Wait for what a call waits for, and go on with it. An interrupt ends the call and is raised."""
    intent = call.intent
    try:
        if call.running is not None:
            result = call.running.result()
        elif type(intent) is Reply:
            result = intent.link.collect()
        else:
            result = intent.run() if type(intent) is Work else None
    except Exception as exc:
        call.advance(error=exc)
    except BaseException as exc:
        call.advance(error=exc)
        raise
    else:
        call.advance(result)
