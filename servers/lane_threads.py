"""Where the lanes of a session run: one after the other on the session's thread, or on threads of their own.

A lane is always on the same thread, from its construction to its end. Both classes take jobs, one a lane at a
time, and give their results back. Their methods are called on the session's thread only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from openenv_gym.errors import CapacityError

from .processes import FORKS, end_stray_fork
from .results import Results

__all__ = ["LaneThreads", "OneThread", "Runner"]

_Work = Callable[[Any], Any]
_Job = tuple[int, _Work, Any]
_LAST = -1


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
        """Wait for ``count`` jobs; return the results of all that are done, in the order in which they were.

        Args:
            count: How many to wait for, at most :attr:`running`.
            until: When to stop waiting (``time.monotonic()``); ``None``: never.
        """
        ...

    def run(self, works: Sequence[_Work], arguments: Sequence[Any]) -> Results:
        """Run a job on every lane, none of which has one; return the results in order of lanes."""
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
        self._everyone = range(lanes)
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
        results = Results()
        for _ in range(count):
            lane, work, argument = jobs.popleft()
            if tick is not None:
                tick()
            try:
                value = work(argument)
            except BaseException as exc:
                results.failed.append((lane, exc))
            else:
                results.add(lane, value)
            if until is not None and monotonic() >= until:
                break
        return results

    def run(self, works: Sequence[_Work], arguments: Sequence[Any]) -> Results:
        """See :class:`Runner`."""
        if self._tick is not None:
            self.start(self._everyone, works, arguments)
            return self.collect(self.running)
        # The common case by itself, because here every tenth of a microsecond counts.
        values: list[Any] = []
        keep = values.append
        try:
            for work, argument in zip(works, arguments, strict=True):
                keep(work(argument))
        except BaseException as exc:
            at = len(values)
            self.start(self._everyone[at + 1 :], works[at + 1 :], arguments[at + 1 :])
            results = self.collect(self.running)
            results.lanes[:0], results.values[:0] = self._everyone[:at], values
            results.failed.insert(0, (at, exc))
            return results
        return Results(list(self._everyone), values)

    def finish(self, last: Callable[[Sequence[int]], None], patience: float) -> None:
        """See :class:`Runner`; waits for the call however long it takes."""
        self._jobs.clear()
        last(self._everyone)


class LaneThreads:
    """Runs the jobs of lane ``i`` on thread ``i`` modulo the number of threads.

    A lane that overran its deadline is waited for, whatever else has finished: so the request that collects
    overruns it too, which is what the parent looks for.

    Args:
        count: How many threads.
        lanes: How many lanes.
        tick: Called when a job may have begun that had to wait for another; ``None``: not.
        deadline: Longest job in seconds; 0: any.

    Raises:
        CapacityError: The system gives no more threads.
    """

    def __init__(
        self, count: int, lanes: int, tick: Callable[[], None] | None = None, deadline: float = 0.0
    ) -> None:
        self._running = 0
        self._tick = tick if lanes > count else None
        self._deadline = deadline
        self._since = [float("inf")] * lanes
        self._done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self._queues: list[SimpleQueue[_Job | None]] = [SimpleQueue() for _ in range(count)]
        name = threading.current_thread().name
        try:
            for at, jobs in enumerate(self._queues):
                threading.Thread(target=self._work, args=(jobs,), name=f"{name}-{at}", daemon=True).start()
        except RuntimeError as exc:
            self._dismiss()
            raise CapacityError(
                f"the session got no {count} threads for its lanes ({exc}); raise the limit on threads"
                " (ulimit -u, pids of a container) or lower --lane-threads",
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
        results = Results()
        for _ in range(self._running):
            try:
                lane, value, exc = self._next(len(results) < count, until)
            except Empty:
                break
            self._running -= 1
            self._since[lane] = float("inf")
            if exc is None:
                results.add(lane, value)
            else:
                results.failed.append((lane, exc))
            if self._tick is not None:
                self._tick()
        return results

    def run(self, works: Sequence[_Work], arguments: Sequence[Any]) -> Results:
        """See :class:`Runner`."""
        self.start(range(len(works)), works, arguments)
        return self.collect(self._running).in_order()

    def finish(self, last: Callable[[Sequence[int]], None], patience: float) -> None:
        """See :class:`Runner`."""
        self._deadline = 0.0
        for at, jobs in enumerate(self._queues):
            jobs.put((_LAST, last, range(at, len(self._since), len(self._queues))))
            self._running += 1
        self._dismiss()
        for lane, exc in self.collect(self._running, monotonic() + patience).failed:
            if lane == _LAST:
                raise exc
        if self._running:
            raise TimeoutError(f"some of {len(self._since)} lanes were not done within {patience:g} s")

    def _dismiss(self) -> None:
        for jobs in self._queues:
            jobs.put(None)

    def _next(self, wanted: bool, until: float | None) -> tuple[int, Any, BaseException | None]:
        """Return the next result; raises ``queue.Empty`` when there is none worth waiting for."""
        if self._deadline and monotonic() - min(self._since) > self._deadline:
            return self._done.get()
        if not wanted:
            return self._done.get_nowait()
        if until is None:
            return self._done.get()
        return self._done.get(timeout=max(until - monotonic(), 0.0))

    def _work(self, jobs: SimpleQueue[_Job | None]) -> None:
        """The body of a thread."""
        done, since, born = self._done, self._since, FORKS.count
        while (job := jobs.get()) is not None:
            lane, work, argument = job
            since[lane] = monotonic()
            value: Any = None
            failure: BaseException | None = None
            try:
                value = work(argument)
            except BaseException as exc:
                failure = exc
            if FORKS.count != born:
                end_stray_fork()
            del job, work, argument
            done.put((lane, value, failure))
            del value, failure
