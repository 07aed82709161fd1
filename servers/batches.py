"""The results of many lanes as one reply.

A lane whose result does not travel fails alone: the reply is put together once more without it, and ``done``
and ``failed``, which the methods are given, change accordingly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import Column
from openenv_gym.protocol.values import pack

from .episodes import Episodes
from .failures import failure_of

__all__ = ["Batches", "lane_bytes", "read_lanes"]

_Done = list[tuple[int, Any]]
_Failed = list[tuple[int, BaseException]]
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
        self._all = tuple(range(len(lanes)))
        self._doubles = struct.Struct(f"<{len(lanes)}d")
        self._warnings: list[str] = []
        self._warned: set[str] = set()

    def observation(self, request: int, done: _Done, failed: _Failed) -> m.Observation:
        """Return the answer to ``reset``, of lanes that are done and lanes that failed."""
        lanes, column, infos = self._sifted(done, failed, self._reset_part)
        reply = m.Observation(request, column, infos, lanes, self._take_warnings())
        reply.failed = [failure_of(*item) for item in failed]
        return reply

    def transition(self, request: int, done: _Done, failed: _Failed) -> m.Transition:
        """Return the answer to ``step``, of lanes that are done and lanes that failed."""
        lanes, column, rewards, flags, infos, finals = self._sifted(done, failed, self._step_part)
        warnings = self._take_warnings()
        reply = m.Transition(
            request, column, rewards, flags, infos, lanes, finals[0], finals[1], None, warnings
        )
        if failed:
            reply.failed = [failure_of(*item) for item in failed]
        return reply

    # -- parts

    def _sifted(self, done: _Done, failed: _Failed, part: Callable[[_Done], Any]) -> Any:
        """Return what ``part`` makes of the results that travel; the other lanes are moved to ``failed``."""
        try:
            return part(done)
        except Exception:
            good: _Done = []
            for item in done:
                try:
                    part([item])
                except Exception as exc:
                    failed.append((item[0], exc))
                else:
                    good.append(item)
            done[:] = good
            return part(done)

    def _reset_part(self, done: _Done) -> Any:
        if not done:
            return b"", None, None
        lanes, results = zip(*done, strict=True)
        observations, infos = zip(*results, strict=True)
        return self._named(lanes), self._column(observations), _packed(infos)

    def _step_part(self, done: _Done) -> Any:
        if not done:
            return b"", None, b"", b"", None, (None, None)
        lanes, results = zip(*done, strict=True)
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
        flags, finals = bytes(len(lanes)), (None, None)
        if any(terminated) or any(truncated):
            flags, finals = self._ends(lanes, terminated, truncated)
        column = self._column(observations)
        return self._named(lanes), column, self._rewards(rewards), flags, _packed(infos), finals

    def _ends(self, lanes: Any, terminated: Any, truncated: Any) -> tuple[bytes, Any]:
        """Return flags, and last observations and infos of the episodes that ended."""
        flags = bytes([(1 if t else 0) | (2 if u else 0) for t, u in zip(terminated, truncated, strict=True)])
        if not self._same_step:
            return flags, (None, None)
        finals = [self._lanes[lane].final for lane, flag in zip(lanes, flags, strict=True) if flag]
        observations, infos = zip(*finals, strict=True)
        flags = bytes([flag | _RESET_TOO if flag else 0 for flag in flags])
        return flags, (self._column(observations, "final_obs"), list(infos) if any(infos) else None)

    def _named(self, lanes: tuple[int, ...]) -> bytes | None:
        return None if lanes == self._all else lane_bytes(lanes)

    def _column(self, observations: Sequence[Any], path: str = "obs") -> Any:
        return self._observations.encode(observations, path, self._warn)

    def _rewards(self, rewards: Sequence[Any]) -> bytes:
        if len(rewards) == len(self._all):
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


def lane_bytes(lanes: Sequence[int]) -> bytes:
    """Return lanes as they travel."""
    return np.array(lanes, "<u4").tobytes()


def read_lanes(data: bytes) -> list[int]:
    """Return the lanes in ``data``; raises ``ValueError`` when its length is wrong."""
    lanes: list[int] = np.frombuffer(data, "<u4").tolist() if data else []
    return lanes
