"""How long the parts of a step took: what the server says, and what coding took here."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

__all__ = ["StepTimes", "Stopwatch"]

_NANO = 1e-9


class StepTimes(NamedTuple):
    """The parts of the last step that are known, in seconds.

    Attributes:
        queue: How long the environment waited for its turn in the worker.
        environment: How long its ``step`` took, and its ``reset`` where the step began an episode.
        codec: How long observations, actions and infos took to encode and decode, here and there.
    """

    queue: float
    environment: float
    codec: float


class Stopwatch:
    """Adds up the time that calls take.

    Attributes:
        spent: Nanoseconds since the last :meth:`take`.
    """

    def __init__(self) -> None:
        self.spent = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call``, watched."""

        def watched(*args: Any) -> Any:
            began = perf_counter_ns()
            try:
                return call(*args)
            finally:
                self.spent += perf_counter_ns() - began

        return watched

    def take(self) -> int:
        """Return the nanoseconds spent, and begin again."""
        spent, self.spent = self.spent, 0
        return spent

    def times(self, timing: list[int]) -> StepTimes:
        """Return the parts of a step of one lane; ``timing`` is what the server says of it.

        Raises:
            ValueError: ``timing`` does not have its three numbers.
        """
        codec, queue, environment = timing
        return StepTimes(queue * _NANO, environment * _NANO, (codec + self.take()) * _NANO)
