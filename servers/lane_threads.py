"""Where the lanes of a session run: one after the other on the session's thread, or on threads of their own.

A lane is always on the same thread, from its construction to its end. Both classes take jobs, one a lane at a
time, and give their results back in the order in which they finished. Their methods are called on the
session's thread only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from openenv_gym.errors import CapacityError

__all__ = ["LaneThreads", "OneThread", "Results", "Runner"]

_Work = Callable[[Any], Any]
_Job = tuple[int, _Work, Any]
_LAST = -1
#: Lanes and what they returned, lanes and what they raised; each in the order in which they finished.
Results = tuple[list[tuple[int, Any]], list[tuple[int, BaseException]]]


class Runner(Protocol):
    """Runs jobs of lanes."""

    @property
    def running(self) -> int:
        """How many jobs were started and not collected."""
        ...

    def start(self, lanes: Iterable[int], works: Iterable[_Work], arguments: Iterable[Any]) -> None:
        """Start ``work(argument)`` for each of ``lanes``, none of which has a job."""
        ...

    def collect(self, count: int, until: float | None = None) -> Results:
        """Wait for ``count`` jobs; return the results of all that finished.

        Args:
            count: How many to wait for, at most :attr:`running`.
            until: When to stop waiting (``time.monotonic()``); ``None``: never.
        """
        ...

    def finish(self, last: Callable[[Sequence[int]], None], patience: float) -> None:
        """Call ``last(lanes)`` on every thread with its lanes, after what it does, then end the threads.

        Steps that did not begin are dropped. Raises what one of the calls raises, and TimeoutError when some
        are not done within ``patience`` seconds.
        """
        ...


class OneThread:
    """Runs jobs on the calling thread, while it waits for them.

    Args:
        lanes: How many lanes.
        tick: Called before each job, ``None``: not.
    """

    def __init__(self, lanes: int, tick: Callable[[], None] | None = None) -> None:
        self._lanes = lanes
        self._tick = tick
        self._jobs: deque[_Job] = deque()

    @property
    def running(self) -> int:
        """How many jobs wait for their turn."""
        return len(self._jobs)

    def start(self, lanes: Iterable[int], works: Iterable[_Work], arguments: Iterable[Any]) -> None:
        """See :class:`Runner`."""
        self._jobs.extend(zip(lanes, works, arguments, strict=True))

    def collect(self, count: int, until: float | None = None) -> Results:
        """See :class:`Runner`; runs at least one job if any is asked for, so that all get their turn."""
        jobs, tick = self._jobs, self._tick
        done: list[tuple[int, Any]] = []
        failed: list[tuple[int, BaseException]] = []
        for _ in range(count):
            lane, work, argument = jobs.popleft()
            if tick is not None:
                tick()
            try:
                done.append((lane, work(argument)))
            except BaseException as exc:
                failed.append((lane, exc))
            if until is not None and monotonic() >= until:
                break
        return done, failed

    def finish(self, last: Callable[[Sequence[int]], None], patience: float) -> None:
        """See :class:`Runner`; waits for the call however long it takes."""
        self._jobs.clear()
        last(range(self._lanes))


class LaneThreads:
    """Runs the jobs of lane ``i`` on thread ``i`` modulo the number of threads.

    A lane that overran its deadline is waited for, whatever else has finished: so the request that collects
    overruns it too, which is what the parent looks for.

    Args:
        count: How many threads.
        lanes: How many lanes.
        tick: Called when a job may have begun that had to wait for another; ``None``: not.
        deadline: Longest job in seconds; 0: any.
    """

    def __init__(
        self, count: int, lanes: int, tick: Callable[[], None] | None = None, deadline: float = 0.0
    ) -> None:
        self._running = 0
        self._tick = tick if lanes > count else None
        self._deadline = deadline
        self._since = [float("inf")] * lanes
        self._results: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self._queues: list[SimpleQueue[_Job | None]] = [SimpleQueue() for _ in range(count)]
        name = threading.current_thread().name
        try:
            for at, jobs in enumerate(self._queues):
                threading.Thread(
                    target=self._work, args=(jobs,), name=f"{name}-lanes-{at}", daemon=True
                ).start()
        except RuntimeError as exc:
            for jobs in self._queues:
                jobs.put(None)
            raise CapacityError(
                f"the session got no {count} threads for its lanes ({exc}); raise the limit on threads"
                " (ulimit -u, pids of a container) or set --lane-threads",
                option="lane_threads",
            ) from exc

    @property
    def running(self) -> int:
        """How many jobs were started and not collected."""
        return self._running

    def start(self, lanes: Iterable[int], works: Iterable[_Work], arguments: Iterable[Any]) -> None:
        """See :class:`Runner`."""
        queues, count = self._queues, len(self._queues)
        for job in zip(lanes, works, arguments, strict=True):
            self._running += 1
            queues[job[0] % count].put(job)

    def collect(self, count: int, until: float | None = None) -> Results:
        """See :class:`Runner`."""
        done: list[tuple[int, Any]] = []
        failed: list[tuple[int, BaseException]] = []
        for _ in range(self._running):
            wanted = len(done) + len(failed) < count
            try:
                lane, value, exc = self._next(wanted, until)
            except Empty:
                break
            self._running -= 1
            self._since[lane] = float("inf")
            if exc is None:
                done.append((lane, value))
            else:
                failed.append((lane, exc))
            if self._tick is not None:
                self._tick()
        return done, failed

    def finish(self, last: Callable[[Sequence[int]], None], patience: float) -> None:
        """See :class:`Runner`."""
        self._deadline = 0.0
        for at, jobs in enumerate(self._queues):
            jobs.put((_LAST, last, range(at, len(self._since), len(self._queues))))
            jobs.put(None)
            self._running += 1
        _, failed = self.collect(self._running, monotonic() + patience)
        for lane, exc in failed:
            if lane == _LAST:
                raise exc
        if self._running:
            raise TimeoutError(f"{self._running} lanes were not done within {patience:g} s")

    def _next(self, wanted: bool, until: float | None) -> tuple[int, Any, BaseException | None]:
        """Return the next result; raises ``queue.Empty`` when it is not worth waiting for."""
        if self._deadline and monotonic() - min(self._since) > self._deadline:
            return self._results.get()
        if not wanted:
            return self._results.get_nowait()
        if until is None:
            return self._results.get()
        return self._results.get(timeout=max(until - monotonic(), 0.0))

    def _work(self, jobs: SimpleQueue[_Job | None]) -> None:
        """The body of a thread."""
        results, since = self._results, self._since
        while (job := jobs.get()) is not None:
            lane, work, argument = job
            since[lane] = monotonic()
            value: Any = None
            failure: BaseException | None = None
            try:
                value = work(argument)
            except BaseException as exc:
                failure = exc
            del job, work, argument
            results.put((lane, value, failure))
            del value, failure
