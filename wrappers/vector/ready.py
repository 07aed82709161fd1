"""Batches of the lanes that are ready first.

Strategy. A session answers one request at a time, so a request must not wait long for slow lanes while the
client has actions for others: it waits without limit only for what the client needs from this very session,
else for moments that grow with the time the client has waited. Actions for a session that is still to answer
are queued here and sent as soon as it has.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from openenv_gym.client.deadline import earliest, time_left
from openenv_gym.errors import OpenEnvError
from openenv_gym.protocol.lanes import lane_bytes
from openenv_gym.protocol.messages import Step

from .batches import empty_batch, put_rows, take_rows
from .failures import MALFORMED, facts_of, malformed, vector_error, warn
from .fleet import Part
from .infos import batch_infos
from .landing import ENDED, TRUNCATED, ended, infos_of, lane_errors, lanes_of, rewards_of
from .masks import marks
from .stepper import Stepper

__all__ = ["Batch", "Ready"]

_FIRST_MOMENT = 0.002
_LEAST_MOMENT = 0.001
_SHARE = 8
_LONGEST_SLEEP = 0.5


class Batch(NamedTuple):
    """Results of some lanes, in the order of ``lanes``.

    Attributes:
        observations: A batch of as many values as there are lanes.
        rewards: float64, one a lane.
        terminations, truncations: bools, one a lane.
        infos: Arrays and masks with one item for each of these lanes.
        lanes: Their indices, int64.
    """

    observations: Any
    rewards: np.ndarray[Any, Any]
    terminations: np.ndarray[Any, Any]
    truncations: np.ndarray[Any, Any]
    infos: dict[str, Any]
    lanes: np.ndarray[Any, Any]


class _Chunk(NamedTuple):
    """Results that came together."""

    batch: Any
    rewards: Any
    flags: Any
    infos: dict[int, list[dict[str, Any]]]


class _Job(NamedTuple):
    """Actions for some lanes of a part."""

    lanes: list[int]
    column: Any
    whole: bool


class Ready:
    """Sends actions for some lanes and gives out the results of those that are ready first.

    Args:
        stepper: Knows the sessions and what became of them.
        n: Number of lanes.

    Attributes:
        busy: Lanes whose actions were sent and whose results were not given out, a bool each.
        busy_bytes: The same memory, which ``1 in`` searches quickest.
    """

    def __init__(self, stepper: Stepper, n: int) -> None:
        self.busy_bytes, self.busy = marks(n)
        self._stepper = stepper
        self._space = stepper.observations.space
        self._ready: dict[int, tuple[_Chunk, int]] = {}
        self._errors: dict[int, OpenEnvError] = {}
        self._queues: dict[Part, deque[_Job]] = {part: deque() for part in stepper.fleet.parts}
        self._running: dict[Part, set[int]] = {part: set() for part in stepper.fleet.parts}
        self._usual = 0

    def send(self, actions: Any, lanes: Sequence[int], *, whole: bool = False) -> None:
        """Send a batch of actions for ``lanes``, none of which is busy.

        Args:
            actions: One for each of ``lanes``.
            lanes: Their indices.
            whole: Whether the results will be wanted all together.

        Raises:
            InvalidActionError: They are no actions for so many lanes; nothing was sent.
        """
        stepper = self._stepper
        jobs, over = [], {}
        values = stepper.actions.encode_batch(actions, len(lanes), "actions")
        for part in stepper.fleet.parts:
            rows = [at for at, lane in enumerate(lanes) if part.first <= lane < part.stop]
            own = [lanes[row] for row in rows]
            ended = [lane for lane in own if self._stepper.untold[lane] or stepper.revive[lane]]
            if ended:
                over[part] = ended
                rows = [row for row in rows if lanes[row] not in set(ended)]
            if len(rows) == len(lanes):
                jobs.append((part, _Job(own, values, whole)))
            elif rows:
                some = take_rows(stepper.actions.space, actions, rows)
                column = stepper.actions.encode_batch(some, len(rows), "actions")
                jobs.append((part, _Job([lanes[row] for row in rows], column, whole)))
        self.busy[list(lanes)] = True
        for part, job in jobs:
            self._queues[part].append(job)
            self._pump(part)
        for part, ended in over.items():
            self._go_on(part, ended)

    def receive(self, count: int, only: Sequence[int] | None, deadline: float | None) -> Batch:
        """Return the results of the first ``count`` lanes that are ready, or of the lanes in ``only``.

        Raises:
            TimeoutError: They were not ready by ``deadline``; nothing is lost.
            VectorEnvError: Lanes failed; ``partial`` is a batch of those that are ready.
        """
        begun = monotonic()
        if only is None:
            self._usual = count
        while not self._errors and self._missing(count, only):
            if deadline is not None and monotonic() >= deadline:
                raise TimeoutError("the lanes were not ready in time")
            self._wait(self._missing(count, only), begun, deadline)
        for part in self._queues:
            self._pump(part)
        if self._errors:
            raise self._failure()
        return self._take(list(self._ready)[:count] if only is None else list(only))

    def settle(self) -> None:
        """Collect what is outstanding, so that other requests can be sent."""
        for part in self._queues:
            while part.connection is not None and (part.connection.outstanding or self._queues[part]):
                if part.connection.outstanding:
                    self._collect(part, None)
                else:
                    self._pump(part)

    def forget(self) -> None:
        """Drop everything: all lanes are reset."""
        self.busy[:] = False
        self._ready.clear()
        self._errors.clear()
        for part in self._queues:
            self._queues[part].clear()
            self._running[part].clear()

    # -- sending

    def _pump(self, part: Part) -> None:
        """Send the next actions of a part, if it can take them."""
        queue = self._queues[part]
        connection = part.connection
        if not queue or (connection is not None and connection.outstanding):
            return
        job = queue.popleft()
        running = self._running[part]
        running.update(job.lanes)
        wait, moment = len(job.lanes), None
        if not job.whole:
            needed = self._usual - len(self._ready)
            if len(self._queues) > 1 or needed <= 0:
                moment = _FIRST_MOMENT
            else:
                wait = min(needed, len(running))
        local = lane_bytes([lane - part.first for lane in job.lanes])
        self._post(part, job.column, local, wait, moment)

    def _poll(self, part: Part, needed: int, begun: float) -> None:
        """Ask a part whose lanes run for results."""
        running = len(self._running[part])
        others = sum(map(len, self._running.values())) - running
        others += sum(len(job.lanes) for queue in self._queues.values() for job in queue)
        if needed > others:
            self._post(part, None, b"", min(needed - others, running), None)
        else:
            moment = max(_LEAST_MOMENT, (monotonic() - begun) / _SHARE)
            self._post(part, None, b"", min(needed, running), moment)

    def _post(self, part: Part, *step: Any) -> None:
        try:
            part.post(Step, *step)
        except OpenEnvError as exc:
            self._lost(part, exc)

    # -- receiving

    def _missing(self, count: int, only: Sequence[int] | None) -> int:
        if only is None:
            return max(count - len(self._ready), 0)
        return sum(lane not in self._ready for lane in only)

    def _wait(self, needed: int, begun: float, deadline: float | None) -> None:
        """Wait until something arrives, and take it."""
        outstanding = []
        for part, running in self._running.items():
            self._pump(part)
            if running and part.connection is not None and not part.connection.outstanding:
                self._poll(part, needed, begun)
            if part.connection is not None and part.connection.outstanding:
                outstanding.append(part)
        if not any(self._arrived(part) for part in outstanding):
            self._sleep(outstanding, deadline)
        for part in outstanding:
            if part.connection is not None and self._arrived(part):
                self._collect(part, monotonic())

    def _arrived(self, part: Part) -> bool:
        connection = part.connection
        if connection is None:
            return False
        return connection.poll() or (connection.due is not None and connection.due <= monotonic())

    def _sleep(self, parts: list[Part], deadline: float | None) -> None:
        dues = [part.connection.due for part in parts if part.connection is not None]
        left = time_left(earliest(deadline, *dues))
        with selectors.DefaultSelector() as selector:
            for part in parts:
                if part.connection is not None:
                    selector.register(part.connection.fileno(), selectors.EVENT_READ)
            # Bounded, so that a silent server is noticed.
            selector.select(_LONGEST_SLEEP if left is None else min(left, _LONGEST_SLEEP))

    def _collect(self, part: Part, patience: float | None) -> None:
        try:
            reply = part.collect(patience)
        except TimeoutError:
            return
        except OpenEnvError as exc:
            self._lost(part, exc)
            return
        try:
            self._arrive(part, reply)
        except MALFORMED as exc:
            error = malformed(part.server, exc)
            part.lose(error)
            self._lost(part, error)
        self._pump(part)

    def _arrive(self, part: Part, reply: Any) -> None:
        """Take the results in a reply."""
        stepper = self._stepper
        lanes = lanes_of(part, reply)
        failed = lane_errors(part, reply)
        if not self._running[part].issuperset((*lanes, *failed)):
            raise ValueError("it has results of lanes that were not stepped")
        if lanes:
            batch = stepper.observations.decode_into(
                reply.observations, len(lanes), empty_batch(self._space, len(lanes)), 0
            )
            flags = np.frombuffer(reply.flags, np.uint8)
            if len(flags) != len(lanes):
                raise ValueError(f"{len(flags)} flags came for {len(lanes)} lanes")
            infos: dict[int, list[dict[str, Any]]] = {}
            for lane, info in infos_of(stepper.observations, reply, lanes):
                infos.setdefault(lane, []).append(info)
            self._store(lanes, _Chunk(batch, rewards_of(reply, len(lanes)), flags, infos))
            stepper.last.some(part.first, lanes, reply.observations)
            stepper.note_ends([lane for lane, flag in zip(lanes, flags, strict=True) if flag & ENDED])
        self._running[part].difference_update(lanes, failed)
        self._errors.update(failed)
        if part.losses:
            part.stepped()
        warn(reply.warnings)

    def _store(self, lanes: Sequence[int], chunk: _Chunk) -> None:
        for row, lane in enumerate(lanes):
            self._ready[lane] = chunk, row

    # -- losses

    def _lost(self, part: Part, exc: OpenEnvError) -> None:
        """Note what became of the lanes of a part whose request failed."""
        running = sorted(self._running[part]) + [lane for job in self._queues[part] for lane in job.lanes]
        self._running[part].clear()
        self._queues[part].clear()
        if not self._stepper.recovery.makes_good(exc):
            self._errors.update(dict.fromkeys(part.lanes if part.connection is None else running, exc))
            return
        self._stepper.untold[part.first : part.stop] = True
        self._go_on(part, running)

    def _go_on(self, part: Part, lanes: Sequence[int]) -> None:
        """Give lanes whose session was lost their next result: the end of an episode, or a new one."""
        stepper = self._stepper
        told = [lane for lane in lanes if not self._stepper.untold[lane]]
        untold = [lane for lane in lanes if self._stepper.untold[lane]]
        if untold and not stepper.recovery.at_once:
            self._end(part, untold, stepper.recovery.cause_of(part))
        if told or (untold and stepper.recovery.at_once):
            self._begin_again(part, told or untold)

    def _end(self, part: Part, lanes: list[int], cause: OpenEnvError) -> None:
        """Let the episodes of lanes end truncated."""
        stepper = self._stepper
        facts = facts_of(cause)
        landing = stepper.blank()
        landing.keep(part, lanes)
        flags = np.full(len(lanes), TRUNCATED, np.uint8)
        infos = {lane: [{"openenv": facts}] for lane in lanes}
        self._store(
            lanes, _Chunk(take_rows(self._space, landing.batch, lanes), np.zeros(len(lanes)), flags, infos)
        )
        stepper.note_loss(lanes)

    def _begin_again(self, part: Part, lanes: list[int]) -> None:
        """Begin new episodes in lanes, in a new session if there is none."""
        stepper = self._stepper
        while part.connection is not None and part.connection.outstanding:
            self._collect(part, None)
        cause = stepper.recovery.cause_of(part)
        seen = dict(zip(lanes, stepper.blank().seen(part, lanes), strict=True))
        landing = stepper.begin_again(part, lanes)
        failed = [lane for lane in lanes if lane in landing.errors]
        self._errors.update({lane: landing.errors[lane] for lane in failed})
        going = [lane for lane in lanes if lane not in landing.errors]
        if part in landing.lost:
            self._end(part, going, landing.lost[part])
            return
        flag = TRUNCATED if stepper.recovery.at_once else 0
        infos = {lane: [info] for lane, info in landing.infos_by_lane() if lane in set(going)}
        if stepper.recovery.at_once:
            for lane in going:
                final = {"final_obs": seen[lane], "final_info": {"openenv": facts_of(cause)}}
                infos[lane] = [final, *infos.get(lane, [])]
        batch = take_rows(self._space, landing.batch, going)
        self._store(going, _Chunk(batch, np.zeros(len(going)), np.full(len(going), flag, np.uint8), infos))

    # -- giving out

    def _take(self, lanes: list[int]) -> Batch:
        """Take the results of ``lanes`` out."""
        taken = [self._ready.pop(lane) for lane in lanes]
        self.busy[lanes] = False
        n = len(lanes)
        rewards, raw = np.zeros(n), bytearray(n)
        flags = np.frombuffer(raw, np.uint8)
        batch = empty_batch(self._space, n)
        groups: dict[int, tuple[_Chunk, list[int], list[int]]] = {}
        for at, (chunk, row) in enumerate(taken):
            _, places, rows = groups.setdefault(id(chunk), (chunk, [], []))
            places.append(at)
            rows.append(row)
        for chunk, places, rows in groups.values():
            rewards[places], flags[places] = chunk.rewards[rows], chunk.flags[rows]
            batch = put_rows(self._space, batch, places, chunk.batch, rows)
        infos = [(at, info) for at, lane in enumerate(lanes) for info in taken[at][0].infos.get(lane, ())]
        return Batch(batch, rewards, *ended(raw), batch_infos(infos, n), np.array(lanes, np.int64))

    def _failure(self) -> Exception:
        errors, self._errors = self._errors, {}
        lanes = list(errors)
        self.busy[lanes] = False
        self._stepper.unready[lanes] = True
        error = vector_error(errors, len(self.busy), self._take(list(self._ready)))
        error.__cause__ = errors[min(lanes)]
        return error
