"""The results of many lanes as one reply.

A lane whose result does not travel fails alone: the reply is put together once more without it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import truth
from typing import Any

import numpy as np

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import Column
from openenv_gym.protocol.lanes import lane_bytes
from openenv_gym.protocol.values import pack

from .episodes import Episodes
from .failures import failure_of
from .results import Results

__all__ = ["Batches"]

_RESET_TOO = 16


class Batches:
    """Puts replies of a group together.

    Args:
        lanes: The lanes.
        observations: Column of their observation space.
        same_step: Whether a turn that ends an episode begins the next one too.
    """

    def __init__(self, lanes: Sequence[Episodes], observations: Column, *, same_step: bool) -> None:
        self._lanes = lanes
        self._observations = observations
        self._same_step = same_step
        self._everyone = list(range(len(lanes)))
        self._doubles = struct.Struct(f"<{len(lanes)}d")
        self._warnings: list[str] = []
        self._warned: set[str] = set()

    def observation(self, request: int, results: Results) -> tuple[m.Observation, Results]:
        """Return the answer to ``reset``, and the results as they are in it."""
        results, (column, infos) = self._sifted(results, self._reset_part)
        lanes, warnings = self._named(results.lanes), self._take_warnings()
        failed = [failure_of(*item) for item in results.failed]
        return m.Observation(request, column, infos, lanes, warnings, failed), results

    def transition(self, request: int, results: Results) -> tuple[m.Transition, Results]:
        """Return the answer to ``step``, and the results as they are in it."""
        results, (column, rewards, flags, infos, finals) = self._sifted(results, self._step_part)
        lanes, warnings = self._named(results.lanes), self._take_warnings()
        failed = [failure_of(*item) for item in results.failed]
        reply = m.Transition(
            request, column, rewards, flags, infos, lanes, finals[0], finals[1], None, warnings, failed
        )
        return reply, results

    # -- parts

    def _sifted(self, results: Results, part: Callable[[list[int], list[Any]], Any]) -> tuple[Results, Any]:
        """Return the results that travel, the other lanes failed, and what ``part`` makes of them."""
        try:
            return results, part(results.lanes, results.values)
        except Exception:
            good = Results(failed=results.failed)
        for lane, value in zip(results.lanes, results.values, strict=True):
            try:
                part([lane], [value])
            except Exception as exc:
                good.failed.append((lane, exc))
            else:
                good.add(lane, value)
        return good, part(good.lanes, good.values)

    def _reset_part(self, lanes: list[int], values: list[Any]) -> Any:
        if not lanes:
            return None, None
        observations, infos = zip(*values, strict=True)
        return self._column(observations), _packed(infos)

    def _step_part(self, lanes: list[int], values: list[Any]) -> Any:
        if not lanes:
            return None, b"", b"", None, (None, None)
        observations, rewards, terminated, truncated, infos = zip(*values, strict=True)
        flags, finals = bytes(len(lanes)), (None, None)
        if any(terminated) or any(truncated):
            flags, finals = self._ends(lanes, terminated, truncated)
        return self._column(observations), self._rewards(rewards), flags, _packed(infos), finals

    def _ends(self, lanes: list[int], terminated: Any, truncated: Any) -> tuple[bytes, Any]:
        """Return flags, and last observations and infos of the episodes that ended."""
        flags = bytes(map(truth, terminated))
        if any(truncated):
            flags = bytes([t | (2 if u else 0) for t, u in zip(flags, truncated, strict=True)])
        if not self._same_step:
            return flags, (None, None)
        finals = [self._lanes[lane].final for lane, flag in zip(lanes, flags, strict=True) if flag]
        observations, infos = zip(*finals, strict=True)
        flags = bytes([flag | _RESET_TOO if flag else 0 for flag in flags])
        return flags, (self._column(observations, "final_obs"), list(infos) if any(infos) else None)

    def _named(self, lanes: list[int]) -> bytes | None:
        return None if lanes == self._everyone else lane_bytes(lanes)

    def _column(self, observations: Sequence[Any], path: str = "obs") -> Any:
        return self._observations.encode(observations, path, self._warn)

    def _rewards(self, rewards: Sequence[Any]) -> bytes:
        if len(rewards) == len(self._everyone):
            try:
                return self._doubles.pack(*rewards)
            except (struct.error, TypeError, OverflowError):
                pass
        row = np.empty(len(rewards), "<f8")
        for at, reward in enumerate(rewards):  # one by one: what numpy takes for a float64 is taken here
            row[at] = reward
        return row.tobytes()

    def _warn(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < 64:
            self._warned.add(text)
            self._warnings.append(text)

    def _take_warnings(self) -> list[str]:
        if not self._warnings:
            return []
        taken, self._warnings = self._warnings, []
        return taken


def _packed(infos: Sequence[Any]) -> list[Any] | None:
    if not any(infos):
        return None
    return [pack(info, "info", opaque=True) if info else {} for info in infos]
