"""How long the parts of a step took, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from openenv_gym.client.stopwatch import Stopwatch
from openenv_gym.errors import RemoteProtocolError
from openenv_gym.protocol.lanes import read_lanes
from openenv_gym.protocol.messages import Transition

__all__ = ["LaneTimes", "LaneWatch"]

_NANO = 1e-9
_CODING = ("decode", "decode_batch", "decode_into", "encode_batch")
_Floats = np.ndarray[Any, np.dtype[np.float64]]


class LaneTimes(NamedTuple):
    """The parts that are known, in seconds: float64 arrays of shape ``(num_envs,)``, NaN where nobody says.

    Attributes:
        queue: How long the lane waited for its turn in the worker.
        environment: How long its ``step`` took, and its ``reset`` where the step began an episode.
        codec: How long the worker of the lane encoded and decoded, and this process for all lanes.
        session: How long the lane's session was at it: the longest ``queue + environment`` of its lanes.
    """

    queue: _Floats
    environment: _Floats
    codec: _Floats
    session: _Floats


class _TimedColumn:
    """A column whose coding is timed."""

    def __init__(self, column: Any, stopwatch: Stopwatch) -> None:
        self._column = column
        for name in _CODING:
            setattr(self, name, stopwatch.timed(getattr(column, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._column, name)


class LaneWatch:
    """Collects what the servers say of their steps, and times the coding here.

    Args:
        n: Number of lanes.
    """

    def __init__(self, n: int) -> None:
        self._stopwatch = Stopwatch()
        self._n = n
        self._nanos = self._blank()

    def attach(self, stepper: Any) -> None:
        """Watch what a stepper codes and what its sessions reply."""
        stepper.observations = _TimedColumn(stepper.observations, self._stopwatch)
        stepper.actions = _TimedColumn(stepper.actions, self._stopwatch)
        for part in stepper.fleet.parts:
            part.watch = self

    def note(self, first: int, count: int, reply: Any) -> None:
        """Take what a reply to the session with these lanes says.

        Raises:
            RemoteProtocolError: It says of another number of lanes.
        """
        if type(reply) is not Transition or reply.timing is None:
            return
        codec, *pairs = reply.timing
        lanes: Sequence[int] | slice = slice(first, first + count)
        if reply.lanes is not None:
            lanes = [first + lane for lane in read_lanes(reply.lanes)]
        # Lanes of a vector class of their own have one pair.
        nanos = self._nanos
        try:
            queue, environment = np.array(pairs, np.float64).reshape(-1, 2).T
            nanos.queue[lanes], nanos.environment[lanes] = queue, environment
        except (ValueError, IndexError) as exc:
            raise RemoteProtocolError(f"'timing' does not fit the lanes of the reply: {exc}") from exc
        nanos.codec[lanes], nanos.session[lanes] = codec, (queue + environment).max(initial=0.0)

    def take(self) -> LaneTimes:
        """Return what was noted since the last call, and begin again."""
        nanos, self._nanos = self._nanos, self._blank()
        nanos.codec[:] += self._stopwatch.take()
        return LaneTimes(*(column * _NANO for column in nanos))

    def _blank(self) -> LaneTimes:
        return LaneTimes(*(np.full(self._n, np.nan) for _ in LaneTimes._fields))
