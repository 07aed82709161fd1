"""The turns of many lanes on one thread, with what is the same for all of them done once for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .episodes import NextStep
from .lane_threads import OneThread
from .results import Results
from .shortcut import peeled

__all__ = ["Together"]


class Together:
    """Does in a batch what :meth:`NextStep.turn` does for one lane, for two calls a lane less.

    Args:
        lanes: The lanes.
        runner: Where they run.
    """

    def __init__(self, lanes: Sequence[NextStep], runner: OneThread) -> None:
        self._lanes = lanes
        self._runner = runner
        both = [peeled(lane.env) for lane in lanes]
        self._steps = [step for step, _ in both]
        self._limits = [(at, limit) for at, (_, limit) in enumerate(both) if limit is not None]

    def run(self, actions: Sequence[Any]) -> Results:
        """Take a turn in every lane; return the results in order of lanes.

        Which lanes' episodes end is known when the reply is put together: :meth:`end` is told.
        """
        begin = [at for at, lane in enumerate(self._lanes) if lane.ended]
        works = self._steps
        if begin:
            works = works.copy()
            for at in begin:
                works[at] = self._lanes[at].begin
        results = self._runner.run(works, actions)
        if self._limits:
            self._count(results, {*begin, *(lane for lane, _ in results.failed)})
        return results

    def end(self, lanes: Sequence[int], flags: bytes) -> None:
        """Note whose episodes have ended."""
        for lane, flag in zip(lanes, flags, strict=True):
            if flag:
                self._lanes[lane].ended = True

    def _count(self, results: Results, uncounted: set[int]) -> None:
        """Count the steps of lanes that have a time limit where its wrapper counts them, and truncate."""
        for at, limit in self._limits:
            if at in uncounted:
                continue
            limit._elapsed_steps = elapsed = limit._elapsed_steps + 1
            if elapsed >= limit._max_episode_steps:
                place = results.lanes.index(at)
                results.values[place] = _truncated(results.values[place])


def _truncated(outcome: Any) -> Any:
    try:
        observation, reward, terminated, _, info = outcome
    except (TypeError, ValueError):  # whoever puts the reply together says so
        return outcome
    return observation, reward, terminated, True, info
