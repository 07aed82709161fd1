"""Where the replies of one call come together: a batch of all lanes, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space, create_empty_array, iterate

from openenv_gym.client.flows import error_of
from openenv_gym.errors import OpenEnvError
from openenv_gym.protocol.columns import Column
from openenv_gym.protocol.lanes import read_lanes
from openenv_gym.protocol.messages import Error, Observation, Transition

from .batches import LastSeen, empty_batch, runs
from .failures import facts_of
from .fleet import Part
from .infos import batch_infos, merge_infos

__all__ = ["ENDED", "TRUNCATED", "Landing", "ended", "infos_of", "lane_errors", "lanes_of", "rewards_of"]

TRUNCATED, ENDED, _RESET_TOO = 2, 3, 16
_FIRST = itemgetter(0)
_ENDS = bytes(flags & ENDED for flags in range(256))
_TERMINATED = bytes(flags & 1 for flags in range(256))
_TRUNCATED = bytes(flags >> 1 & 1 for flags in range(256))


class Landing:
    """What one call returns, as far as it is known.

    Its arrays are made when they are first needed: what one session replies for all lanes takes their place.

    Args:
        codec: Column of the observation space.
        last: The last observation of each lane.
        n: Number of lanes.
        batch: The batch that observations are written to; ``None``: one of its own.

    Attributes:
        flag_bytes: A byte a lane: 1 terminated, 2 truncated.
        errors: What went wrong, by lane.
        lost: Parts with lanes whose episodes ended truncated since their session was lost, and how it was.
        only: The lanes that begin episodes after the others were stepped, a bool each: what fails then is
            no matter of the others, which have their results. ``None``: it concerns all.
    """

    def __init__(self, codec: Column, last: LastSeen, n: int, batch: Any = None) -> None:
        self._codec = codec
        self._last = last
        self._n = n
        self._infos: list[tuple[int, dict[Any, Any]]] = []
        self._vectors: list[tuple[int, int, dict[Any, Any]]] = []
        self._ordered = True
        self._own = batch is None
        if batch is not None:
            self.batch = batch
        self.flag_bytes = bytearray(n)
        self.errors: dict[int, OpenEnvError] = {}
        self.lost: dict[Part, OpenEnvError] = {}
        self.only: np.ndarray[Any, Any] | None = None

    @cached_property
    def batch(self) -> Any:
        """Observations; its tuples are replaced."""
        return empty_batch(self._codec.space, self._n)

    @cached_property
    def _reward_bytes(self) -> bytearray | None:
        # Written as bytes where all is as usual: numpy takes longer for so little.
        return bytearray(8 * self._n)

    @cached_property
    def rewards(self) -> np.ndarray[Any, Any]:
        """A float64 a lane."""
        assert self._reward_bytes is not None
        return np.frombuffer(self._reward_bytes, "<f8")

    @cached_property
    def flags(self) -> np.ndarray[Any, Any]:
        """The bytes of :attr:`flag_bytes`."""
        return np.frombuffer(self.flag_bytes, np.uint8)

    @cached_property
    def lost_lanes(self) -> np.ndarray[Any, Any]:
        """The lanes of :attr:`lost`, a bool each."""
        return np.zeros(self._n, np.bool_)

    def prepare(self) -> None:
        """Make what the replies of several sessions come together in, while there is nothing else to do."""
        _ = self.batch, self.rewards

    def step(self, part: Part, reply: Transition) -> None:
        """Take the results of a step. Raises ``ValueError`` and the like for a malformed reply."""
        lanes = self._observations(part, reply)
        if len(reply.flags) != len(lanes):
            raise ValueError(f"{len(reply.flags)} flags came for {len(lanes)} lanes")
        if lanes is not part.lanes:
            self._take(reply, list(lanes), len(lanes))
        elif part.count == self._n:
            self.rewards = rewards_of(reply, self._n)
            self.flag_bytes[:] = reply.flags.translate(_ENDS)
        elif (known := self._reward_bytes) is not None and type(reply.rewards) is bytes:
            if len(reply.rewards) != 8 * part.count:
                raise ValueError(f"rewards of {len(reply.rewards)} bytes came for {part.count} lanes")
            known[8 * part.first : 8 * part.stop] = reply.rewards
            self.flag_bytes[part.first : part.stop] = reply.flags.translate(_ENDS)
        else:
            self._take(reply, slice(part.first, part.stop), len(lanes))
        if reply.infos is not None or reply.batch_info is not None or reply.final_observations is not None:
            self._note(part, reply, lanes)

    def reset(self, part: Part, reply: Observation) -> None:
        """Take the results of a reset. Raises ``ValueError`` and the like for a malformed reply."""
        lanes = self._observations(part, reply)
        self._note(part, reply, lanes)

    def restart(self, part: Part, reply: Observation, cause: OpenEnvError) -> None:
        """Take the results of the reset that follows a lost session in the same step."""
        lanes = lanes_of(part, reply)
        for lane, value in zip(lanes, self.seen(part, lanes), strict=True):
            self._infos.append((lane, {"final_obs": value, "final_info": {"openenv": facts_of(cause)}}))
        self.reset(part, reply)

    def truncate(self, part: Part, cause: OpenEnvError, lanes: Sequence[int], *, tell: bool) -> None:
        """Let the episodes of lanes of a part end truncated, since their session is lost."""
        where = list(lanes)
        self.lost[part] = cause
        self.lost_lanes[where] = True
        self.keep(part, lanes)
        self.rewards[where], self.flags[where] = 0.0, TRUNCATED
        if tell:
            facts = facts_of(cause)
            self._infos += [(lane, {"openenv": facts}) for lane in lanes]

    def fail(self, part: Part, exc: OpenEnvError, lanes: Iterable[int] | None = None) -> None:
        """Note that lanes of a part failed; they keep their last observation."""
        failed = list(self.concerned(part) if lanes is None else lanes)
        self.errors.update(dict.fromkeys(failed, exc))
        self.rewards[failed], self.flags[failed] = 0.0, 0
        self.keep(part, failed)

    def concerned(self, part: Part) -> Sequence[int]:
        """Return the lanes of a part whose result depends on what happens to it now."""
        only = self.only
        return part.lanes if only is None else [lane for lane in part.lanes if only[lane]]

    def keep(self, part: Part, lanes: Sequence[int]) -> None:
        """Let lanes have their last observation, zeros if there is none."""
        self._ordered = False
        column = self._last.column(part.first, len(lanes))
        if column is not None:
            self.batch = self._codec.decode_into(column, len(lanes), self.batch, part.first)
            return
        values = self.seen(part, lanes)
        for start, stop in runs(lanes):
            self.batch = self._codec.place(values[start:stop], self.batch, lanes[start])

    def seen(self, part: Part, lanes: Sequence[int]) -> list[Any]:
        """Return the last observations of lanes of a part, zeros if there is none."""
        known = [lane for lane in lanes if self._last.seen(lane, part.first)]
        values = dict(zip(known, self._last.values(part.first, known), strict=True)) if known else {}
        return [values[lane] if lane in values else _zero(self._codec.space) for lane in lanes]

    def infos_by_lane(self) -> list[tuple[int, dict[Any, Any]]]:
        """Return the infos of each lane."""
        return self._infos

    def infos(self) -> dict[Any, Any]:
        """Return the infos of all lanes, in the order of the lanes."""
        if self._vectors:
            return merge_infos(sorted(self._vectors, key=_FIRST), self._n)
        if not self._infos:
            return {}
        if not self._ordered:
            self._infos.sort(key=lambda pair: pair[0])
        return batch_infos(self._infos, self._n)

    def _observations(self, part: Part, reply: Any) -> Sequence[int]:
        """Take the observations of a reply; return its lanes, as a range where they are all of the part."""
        if reply.lanes is None and not reply.failed:
            column, batch = reply.observations, None
            if self._own and part.count == self._n:
                batch = self._codec.decode_batch(column, self._n)
            if batch is None:
                batch = self._codec.decode_into(column, part.count, self.batch, part.first)
            self.batch = batch
            self._last.whole(part.first, part.count, column)
            return part.lanes
        lanes = lanes_of(part, reply)
        values = self._codec.decode(reply.observations, len(lanes)) if lanes else []
        for start, stop in runs(lanes):
            self.batch = self._codec.place(values[start:stop], self.batch, lanes[start])
        self._last.some(part.first, lanes, reply.observations)
        for lane, error in lane_errors(part, reply).items():
            self.fail(part, error, [lane])
        self._ordered = False
        return lanes

    def _take(self, reply: Transition, where: slice | list[int], n: int) -> None:
        """Take rewards and flags of ``n`` lanes."""
        rewards = rewards_of(reply, n)
        if type(reply.rewards) is list:
            self.rewards = self.rewards.astype(rewards.dtype, copy=False)  # as the vector class has them
            self._reward_bytes = None
        self.rewards[where] = rewards
        self.flags[where] = np.frombuffer(reply.flags, np.uint8) & ENDED

    def _note(self, part: Part, reply: Any, lanes: Sequence[int]) -> None:
        if reply.batch_info is not None:
            self._vectors.append((part.first, part.count, reply.batch_info))
        if self._infos and part.first < self._infos[-1][0]:
            self._ordered = False
        self._infos.extend(infos_of(self._codec, reply, lanes))


def ended(flags: bytearray) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return which lanes terminated and which were truncated, from their flag bytes."""
    terminated, truncated = flags.translate(_TERMINATED), flags.translate(_TRUNCATED)
    return np.frombuffer(terminated, np.bool_), np.frombuffer(truncated, np.bool_)


def lanes_of(part: Part, reply: Any) -> list[int]:
    """Return the lanes of a reply, as those of the vector environment."""
    failed = {failure.lane for failure in reply.failed}
    if not failed <= set(range(part.count)):
        raise ValueError(f"lanes failed that do not exist: {sorted(failed)}")
    if reply.lanes is None:
        return [part.first + lane for lane in range(part.count) if lane not in failed]
    named = read_lanes(reply.lanes)
    if len(set(named)) != len(named) or max(named, default=0) >= part.count:
        raise ValueError(f"the lanes of a reply are no different lanes below {part.count}: {named[:20]}")
    return [part.first + lane for lane in named if lane not in failed]


def rewards_of(reply: Transition, n: int) -> Any:
    """Return the rewards of ``n`` lanes, with memory of their own."""
    rewards = reply.rewards
    array = np.frombuffer(bytearray(rewards), "<f8") if type(rewards) is bytes else rewards[0]
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.shape != (n,):
        raise ValueError(f"rewards of shape {array.shape} came for {n} lanes")
    return array


def infos_of(codec: Column, reply: Any, lanes: Sequence[int]) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yield lanes and infos of a reply, where an episode ended and the next began those of its end first."""
    infos = reply.infos
    final = getattr(reply, "final_observations", None)
    if infos is not None and len(infos) != len(lanes):
        raise ValueError(f"{len(infos)} infos came for {len(lanes)} lanes")
    if final is None:
        yield from zip(lanes, infos, strict=True) if infos is not None else ()
        return
    ended = [at for at, flags in enumerate(reply.flags) if flags & _RESET_TOO]
    values = codec.decode(final, len(ended))
    last = reply.final_infos or [{}] * len(ended)
    ends = dict(zip(ended, zip(values, last, strict=True), strict=True))
    for at, lane in enumerate(lanes):
        if at in ends:
            yield lane, {"final_obs": ends[at][0], "final_info": ends[at][1]}
        if infos is not None:
            yield lane, infos[at]


def lane_errors(part: Part, reply: Any) -> dict[int, OpenEnvError]:
    """Return what the lanes of a reply that failed report."""
    return {
        part.first + failure.lane: error_of(
            Error(failure.code, failure.message, details=failure.details), part.server
        )
        for failure in reply.failed
    }


def _zero(space: gym.Space[Any]) -> Any:
    return next(iter(iterate(batch_space(space, 1), create_empty_array(space, 1, fn=np.zeros))))
