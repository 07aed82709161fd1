"""Two halves of the lanes by turns: one is stepped while the policy looks at the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import NoAsyncCallError

from openenv_gym.errors import ConfigError, InterruptedStepError, ResetNeededError, VectorEnvError

from .batches import take_rows
from .ready import Batch
from .remote_vector_env import RemoteVectorEnv

__all__ = ["Halves"]


class Halves:
    """Steps the two halves of a vector environment by turns.

    While the policy chooses actions for one half, the servers step the other, so policy and environment take
    place at the same time::

        halves = Halves(envs)
        halves.reset(seed=0)
        for _ in range(steps):
            batch = halves.recv()  # the half whose turn it is; batch.lanes says which lanes
            halves.send(policy(batch.observations))

    The first batch of each half is that of the reset, with rewards 0. Each half has lanes of every session,
    so that all workers have something to do. ``NEXT_STEP`` and ``SAME_STEP`` reset the lanes meanwhile.

    Args:
        envs: The vector environment; it stays the user's, to close as well.

    Raises:
        ConfigError: It has less than two lanes in a session, or they are native ones, which step together.

    Attributes:
        lanes: The lanes of the two halves.
    """

    def __init__(self, envs: RemoteVectorEnv) -> None:
        if not isinstance(envs, RemoteVectorEnv):
            raise ConfigError(f"Halves takes an unwrapped RemoteVectorEnv, not a {type(envs).__name__}")
        if envs.native or envs.num_envs < 2:
            raise ConfigError("two halves need two lanes or more that can be stepped apart")
        self._envs = envs
        self.lanes: tuple[Sequence[int], Sequence[int]] = envs.halves()
        self._turn = 0
        self._first: list[Batch | None] = [None, None]
        self._due = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Begin new episodes in all lanes, also after an error; steps under way are forgotten.

        Arguments and errors are as for :meth:`RemoteVectorEnv.reset`.
        """
        self._forget()
        observations, infos = self._envs.reset(seed=seed, options=options)
        for half, lanes in enumerate(self.lanes):
            rows = list(lanes)
            n = len(rows)
            batch = take_rows(self._envs.single_observation_space, observations, rows)
            none = np.zeros(n, np.bool_)
            self._first[half] = Batch(
                batch, np.zeros(n), none, none.copy(), _some(infos, rows), np.array(rows)
            )
        self._turn, self._due = 0, True

    def recv(self) -> Batch:
        """Return the results of the half whose turn it is; errors as for :meth:`RemoteVectorEnv.recv`.

        After a ``VectorEnvError`` only :meth:`reset` goes on.

        Raises:
            ResetNeededError: There was no :meth:`reset`, or :meth:`send` has not answered the last batch.
        """
        if not self._due:
            raise ResetNeededError(
                "call reset() first, and send() the actions for each batch before the next"
            )
        first, self._first[self._turn] = self._first[self._turn], None
        batch = first if first is not None else self._envs.recv(lanes=self.lanes[self._turn])
        self._due = False
        return batch

    def send(self, actions: Any) -> None:
        """Send the actions for the batch that was received last.

        Raises:
            ResetNeededError: No batch waits for actions.
            InvalidActionError: The actions are not in the action space; nothing was sent.
        """
        if self._due:
            raise ResetNeededError("no batch waits for actions; call recv() first")
        self._envs.send_whole(actions, self.lanes[self._turn])
        self._turn, self._due = 1 - self._turn, True

    def _forget(self) -> None:
        """Receive what was sent, whatever came of it."""
        while True:
            try:
                self._envs.recv()
            except VectorEnvError:
                continue
            except (NoAsyncCallError, InterruptedStepError):
                return


def _some(infos: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """Return the infos of some lanes."""
    return {
        key: _some(value, rows) if isinstance(value, dict) else value[rows] for key, value in infos.items()
    }
