"""Stepping some lanes at a time, and taking the results of those that are ready first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from openenv_gym.errors import ConfigError, InvalidActionError, ResetNeededError

from .calls import Calls, check_timeout, wait
from .failures import describe_lanes
from .ready import Batch, Ready
from .stepper import Stepper

__all__ = ["FirstReady"]


class FirstReady:
    """``send`` and ``recv`` of a vector environment.

    Attributes:
        num_envs: Number of lanes.
    """

    num_envs: int
    native: bool
    _stepper: Stepper
    _ready: Ready
    _calls: Calls

    def send(self, actions: Any, lanes: Sequence[int] | np.ndarray[Any, Any] | None = None) -> None:
        """Send actions for some lanes and wait for nothing; :meth:`recv` gives their results.

        Args:
            actions: A batch with one action for each of ``lanes``.
            lanes: Their indices, each once; ``None``: all.

        Raises:
            InvalidActionError: The actions are not in the action space; nothing was sent.
            ResetNeededError: Lanes have no episode; nothing was sent.
            ConfigError: The lanes are native ones, which are stepped together.
            AlreadyPendingCallError: Lanes still run, or their results were not received.
        """
        self._send(actions, lanes, whole=False)

    def recv(self, n: int | None = None, *, lanes: Any = None, timeout: float | None = None) -> Batch:
        """Return the results of the first ``n`` lanes that are ready, as soon as there are so many.

        A lane that is never the quickest still gets its turn: what is ready longest is given out first.

        Args:
            n: How many; ``None``: all that were sent.
            lanes: Wait for just these lanes instead, and give their results in this order.
            timeout: Seconds to wait; ``None``: as long as it takes.

        Returns:
            A :class:`~openenv_gym.wrappers.vector.Batch`; ``batch.lanes`` says whose results it holds.

        Raises:
            NoAsyncCallError: Fewer lanes were sent than are asked for.
            multiprocessing.TimeoutError: They are not ready yet; nothing is lost.
            VectorEnvError: Lanes failed; ``partial`` is a batch of those that are ready.
        """
        self._check_free("recv")
        check_timeout(timeout)
        busy = self._ready.busy
        only = None if lanes is None else self._indices(lanes)
        count = len(only) if only is not None else (int(busy.sum()) if n is None else n)
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            if n is None and lanes is None:
                raise NoAsyncCallError("no lane was sent; call send() before recv()", "recv")
            raise ValueError(f"recv() takes a number of lanes, at least 1, not {count!r}")
        count = int(count)
        sent = int(busy.sum()) if only is None else int(busy[only].sum())
        if sent < count:
            raise NoAsyncCallError(
                f"recv() is to wait for {count} lanes, and {sent} of them were sent", "recv"
            )
        late = f"not {count} lanes were ready within {timeout} s; recv() waits on"
        receive = partial(self._ready.receive, count, only)
        batch: Batch = self._calls.run("recv", wait, receive, timeout, late)
        return batch

    def send_whole(self, actions: Any, lanes: Sequence[int]) -> None:
        """As :meth:`send`, for lanes whose results will be received together."""
        self._send(actions, lanes, whole=True)

    def halves(self) -> tuple[list[int], list[int]]:
        """Return the lanes in two halves, each with lanes of every session that has several."""
        first: list[int] = []
        for part in self._stepper.fleet.parts:
            half = part.count // 2
            if part.count % 2 and 2 * len(first) < part.first:
                half += 1
            first += range(part.first, part.first + half)
        chosen = set(first)
        return first, [lane for lane in range(self.num_envs) if lane not in chosen]

    def _send(self, actions: Any, lanes: Any, *, whole: bool) -> None:
        self._check_free("send")
        if self.native:
            raise ConfigError("native lanes are stepped together; send() is for lanes that are stepped apart")
        chosen = list(range(self.num_envs)) if lanes is None else self._indices(lanes)
        busy = [lane for lane in chosen if self._ready.busy[lane]]
        if busy:
            raise AlreadyPendingCallError(
                f"send() names {describe_lanes(busy)}, whose results were not received; call recv() first",
                "recv",
            )
        unready = [lane for lane in chosen if self._stepper.unready[lane]]
        if unready:
            raise ResetNeededError(
                f"there is no episode to step in {describe_lanes(unready)}; reset there. Nothing was sent.",
                lanes=unready,
            )
        self._calls.run("send", partial(self._ready.send, actions, chosen, whole=whole))

    def _indices(self, lanes: Any) -> list[int]:
        found = np.asarray(lanes)
        if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
            raise InvalidActionError(f"lanes are a list of indices, not {lanes!r}")
        chosen: list[int] = found.tolist()
        if len(set(chosen)) != len(chosen) or min(chosen) < 0 or max(chosen) >= self.num_envs:
            raise InvalidActionError(f"lanes are different indices below {self.num_envs}, not {chosen[:20]}")
        return chosen

    def _check_received(self, call: str, mask: np.ndarray[Any, Any] | None = None) -> None:
        """Check that what was sent was received, of the lanes in ``mask`` at least."""
        if 1 not in self._ready.busy_bytes:
            return
        busy = self._ready.busy if mask is None else self._ready.busy & mask
        if busy.any():
            raise AlreadyPendingCallError(
                f"{call}() came before the results of {describe_lanes(np.flatnonzero(busy).tolist())} were"
                " received; call recv() first",
                "recv",
            )

    @abstractmethod
    def _check_free(self, call: str) -> None:
        """Check that a call may begin."""
