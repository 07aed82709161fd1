"""Many lanes as one stage: copies of an environment that are reset and stepped together.

A step both starts lanes and collects finished ones, so a client may take results as they come: lanes whose
results nobody collected yet are *out*. Results that came while another request waited are kept in the stash.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic, perf_counter_ns
from typing import Any, cast

from openenv_gym.errors import RemoteProtocolError, ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.lanes import read_lanes

from .access import Access, release
from .batches import Batches
from .episodes import Episodes, NextStep, SameStep
from .failures import error_of_lane
from .lane_threads import OneThread, Runner
from .results import Results
from .together import Together

__all__ = ["CLOSING", "Group"]

CLOSING = 10.0
"""Seconds that lanes have to finish what they do and close."""


class Group:
    """Answers the requests of a session of many lanes.

    Args:
        lanes: The lanes, all of the same spaces; closed by :meth:`close`.
        runner: Where they run; each was built there.
        timed: Whether replies say how long steps took.

    Every method is called on the session's thread.
    """

    spent: Any = None

    def __init__(self, lanes: Sequence[Episodes], runner: Runner, *, timed: bool = False) -> None:
        self._lanes = list(lanes)
        self._runner = runner
        self._everyone = range(len(lanes))
        self._turns: list[Callable[[Any], Any]] = [lane.turn for lane in lanes]
        env = lanes[0].env
        self._actions = column_codec(env.action_space, actions=True)
        same_step = isinstance(lanes[0], SameStep)
        self._batches = Batches(self._lanes, column_codec(env.observation_space), same_step=same_step)
        self._ends_unready = type(lanes[0]) is Episodes
        self._unready = set(self._everyone)
        self._out: set[int] = set()
        self._stash = Results()
        self._watch = _Stopwatch(self._turns) if timed else None
        self._together: Together | None = None
        if type(lanes[0]) is NextStep and type(runner) is OneThread and not timed:
            self._together = Together(cast("list[NextStep]", self._lanes), runner)

    @property
    def first(self) -> Any:
        """The environment of lane 0."""
        return self._lanes[0].env

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``."""
        answer = _ANSWERS.get(type(request))
        if answer is None:
            raise RemoteProtocolError(f"these environments have no '{type(request).__struct_config__.tag}'")
        return answer(self, request)

    def reset(self, request: m.Reset) -> m.Observation:
        """Begin episodes; what the lanes were doing is waited for and forgotten."""
        lanes = self._masked(request.mask)
        seeds = [None] * len(self._lanes) if request.seeds is None else request.seeds
        if len(seeds) != len(self._lanes):
            raise RemoteProtocolError(f"'reset' has {len(seeds)} seeds for {len(self._lanes)} lanes")
        self._await(lanes)
        self._stash.take(lanes)
        self._out.difference_update(lanes)
        self._unready.update(lanes)
        starts = [(seeds[lane], copy.deepcopy(request.options)) for lane in lanes]
        results = self._run(lanes, [self._lanes[lane].reset for lane in lanes], starts)
        reply, results = self._batches.observation(request.id, results.in_order())
        self._unready.difference_update(results.lanes)
        return reply

    def step(self, request: m.Step) -> m.Transition:
        """Start turns, and collect those that are done."""
        entered = perf_counter_ns() if self._watch else 0
        lanes: Sequence[int] = self._everyone if request.lanes is None else self._named(request.lanes, "step")
        self._check_startable(lanes)
        actions = self._actions.decode(request.actions, len(lanes)) if lanes else []
        if self._watch:
            self._watch.ask(lanes)
        started = perf_counter_ns() if self._watch else 0
        results = self._stepped(request, lanes, actions)
        finished = perf_counter_ns() if self._watch else 0
        reply, results = self._batches.transition(request.id, results)
        self._note_ends(reply, results)
        self.spent = results
        if self._watch:
            spent = started - entered + perf_counter_ns() - finished
            reply.timing = [spent, *self._watch.read(results.lanes)]
        return reply

    def render(self, request: m.Render) -> m.Frames:
        """Render every lane."""
        replies = self._each(Access.render, [request] * len(self._lanes), self._everyone)
        return m.Frames(request.id, [reply.frames[0] for reply in replies])

    def get(self, request: m.Get) -> m.Value:
        """Read an attribute of every lane."""
        return self._values(request, Access.get, [request] * len(self._lanes), self._everyone)

    def set(self, request: m.Set) -> m.Value:
        """Set an attribute of lanes."""
        lanes = self._everyone if request.lanes is None else self._named(request.lanes, "set")
        if len(request.values) != len(lanes):
            raise RemoteProtocolError(f"'set' has {len(request.values)} values for {len(lanes)} lanes")
        parts = [m.Set(request.id, request.name, [value]) for value in request.values]
        return self._values(request, Access.set, parts, lanes)

    def call(self, request: m.Call) -> m.Value:
        """Call a method of lanes."""
        lanes = self._everyone if request.lanes is None else self._named(request.lanes, "call")
        part = m.Call(request.id, request.name, request.args, request.kwargs)
        return self._values(request, Access.call, [part] * len(lanes), lanes)

    def close(self) -> None:
        """Close every lane, those of different threads side by side; wait for some seconds at most."""
        self._stash, self._together = Results(), None
        self._runner.finish(lambda team: release(self._lanes[lane] for lane in team), CLOSING)

    # -- starting and collecting

    def _stepped(self, request: m.Step, lanes: Sequence[int], actions: list[Any]) -> Results:
        """Start turns; return the results of lanes that are out and were not collected before."""
        everything = request.wait is None and request.patience is None
        if everything and lanes is self._everyone:
            together = self._together
            return self._runner.run(self._turns, actions) if together is None else together.run(actions)
        self._out.update(lanes)
        self._runner.start(lanes, [self._turns[lane] for lane in lanes], actions)
        wanted = len(self._out) if request.wait is None else min(max(request.wait, 0), len(self._out))
        until = None if request.patience is None else monotonic() + request.patience
        results, self._stash = self._stash, Results()
        results += self._runner.collect(max(wanted - len(results), 0), until)
        self._out.difference_update(results.everyone())
        return results.in_order() if everything else results

    def _await(self, lanes: Iterable[int]) -> None:
        """Wait until the steps of these lanes are done; results go to the stash."""
        waited = self._out.intersection(lanes)
        while not waited.issubset(self._stash.everyone()):
            self._stash += self._runner.collect(1)

    def _run(self, lanes: Collection[int], works: Sequence[Any], arguments: Sequence[Any]) -> Results:
        """Run a job on lanes that have none; return its results. Steps that end meanwhile go to the stash."""
        results, ours = Results(), set(lanes)
        self._runner.start(lanes, works, arguments)
        while len(results) < len(ours):
            some = self._runner.collect(1)
            results += some.take(ours)
            self._stash += some
        return results

    def _each(
        self, work: Callable[[Any, Any], Any], requests: Sequence[Any], lanes: Sequence[int]
    ) -> list[Any]:
        """Carry out a request on each of ``lanes``; raises if one of them did."""
        self._await(lanes)
        results = self._run(lanes, [work.__get__(self._lanes[lane]) for lane in lanes], requests)
        if results.failed:
            raise error_of_lane(results.failed)
        return results.in_order().values

    def _values(
        self, request: Any, work: Callable[[Any, Any], Any], parts: Sequence[Any], lanes: Sequence[int]
    ) -> m.Value:
        replies = self._each(work, parts, lanes)
        callables = any(reply.callable for reply in replies)
        return m.Value(request.id, [reply.values[0] for reply in replies], callables)

    # -- checks

    def _masked(self, mask: bytes | None) -> Sequence[int]:
        if mask is None:
            return self._everyone
        if len(mask) != len(self._lanes) or not set(mask) <= {0, 1}:
            raise RemoteProtocolError(
                f"the mask of 'reset' must be {len(self._lanes)} bytes: 1 for a lane to reset, 0 for another"
            )
        return [lane for lane, reset in enumerate(mask) if reset]

    def _named(self, data: bytes, request: str) -> list[int]:
        try:
            lanes = read_lanes(data)
        except ValueError as exc:
            raise RemoteProtocolError(f"the lanes of '{request}' are no array of uint32: {exc}") from exc
        if len(set(lanes)) < len(lanes) or max(lanes, default=-1) >= len(self._lanes):
            raise RemoteProtocolError(
                f"'{request}' must name different lanes below {len(self._lanes)}; it names {lanes[:20]}"
            )
        return lanes

    def _check_startable(self, lanes: Sequence[int]) -> None:
        """Refuse a step, before anything runs, of lanes that cannot take one."""
        if self._out and not self._out.isdisjoint(lanes):
            busy = sorted(self._out.intersection(lanes))
            raise RemoteProtocolError(
                f"'step' names lanes that were not collected since the last one: {busy}"
            )
        if self._unready and not self._unready.isdisjoint(lanes):
            unready = sorted(self._unready.intersection(lanes))
            raise ResetNeededError(
                f"lanes {', '.join(map(str, unready))} have no episode (it ended or failed, or never began);"
                " reset them, with a mask if the others shall go on. Nothing was stepped.",
                lanes=unready,
            )

    def _note_ends(self, reply: m.Transition, results: Results) -> None:
        self._unready.update(lane for lane, _ in results.failed)
        if not any(reply.flags):
            return
        if self._ends_unready:
            self._unready.update(lane for lane, flag in zip(results.lanes, reply.flags, strict=True) if flag)
        if self._together is not None:
            self._together.end(results.lanes, reply.flags)


_ANSWERS: dict[type, Callable[[Group, Any], m.Reply]] = {
    m.Step: Group.step,
    m.Reset: Group.reset,
    m.Render: Group.render,
    m.Get: Group.get,
    m.Set: Group.set,
    m.Call: Group.call,
}


class _Stopwatch:
    """How long turns waited and worked, in nanoseconds; wraps the turns that it is given.

    Args:
        turns: The turns, replaced in place.
    """

    def __init__(self, turns: list[Callable[[Any], Any]]) -> None:
        self._asked = [0] * len(turns)
        self._began = [0] * len(turns)
        self._worked = [0] * len(turns)
        turns[:] = [self._timed(lane, turn) for lane, turn in enumerate(turns)]

    def ask(self, lanes: Iterable[int]) -> None:
        """Note that these lanes are asked for a turn."""
        now = perf_counter_ns()
        for lane in lanes:
            self._asked[lane] = now

    def read(self, lanes: Iterable[int]) -> list[int]:
        """Return waiting and working time of each lane's last turn."""
        return [
            number for lane in lanes for number in (self._began[lane] - self._asked[lane], self._worked[lane])
        ]

    def _timed(self, lane: int, turn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(action: Any) -> Any:
            self._began[lane] = began = perf_counter_ns()
            outcome = turn(action)
            self._worked[lane] = perf_counter_ns() - began
            return outcome

        return timed
