"""Steps and resets: each in two halves, the requests of all sessions before the first reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import gymnasium as gym
import numpy as np

from openenv_gym.errors import ConfigError, OpenEnvError
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.lanes import lane_bytes
from openenv_gym.protocol.messages import Reset, Step
from openenv_gym.protocol.values import pack

from .batches import LastSeen, columns_of, empty_batch, take_rows
from .failures import MALFORMED, malformed, vector_error, warn
from .fleet import Fleet, Part
from .landing import Landing, ended
from .masks import marks
from .recovery import Recovery

__all__ = ["Stepper"]

#: Who makes others wait for so much of the time of the first once more, is late.
_LATE = 0.125

_Land = Callable[[Landing, Part, Any], None]
_Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class Stepper:
    """Steps and resets the lanes of a fleet.

    Args:
        fleet: The sessions.
        spaces: Observation and action space of one lane.
        recovery: Decides about lost sessions.
        copy: Whether each call returns a batch of its own.
        manual: Whether lanes whose episode ended are reset by the user.
        native: Whether the lanes of a session are one vector environment.

    Attributes:
        unready: Lanes that have no episode to step, a bool each: they must be reset first.
        unready_bytes: The same memory, which ``1 in`` searches quickest.
        revive: Lanes whose next step begins a new episode, since their session was lost.
        untold: Lanes whose session was lost without a result that says so: their next step ends truncated.
    """

    def __init__(
        self,
        fleet: Fleet,
        spaces: tuple[gym.Space[Any], gym.Space[Any]],
        recovery: Recovery,
        *,
        copy: bool,
        manual: bool,
        native: bool,
    ) -> None:
        self._n = n = fleet.parts[-1].stop
        self._alone = len(fleet.parts) == 1
        self._bounds = [(part.first, part.stop) for part in fleet.parts]
        self.fleet = fleet
        self.recovery = recovery
        self.unready_bytes, self.unready = marks(n, True)
        self._revive_bytes, self.revive = marks(n)
        self._untold_bytes, self.untold = marks(n)
        self.observations = column_codec(spaces[0])
        self.actions = column_codec(spaces[1], actions=True)
        self.last = LastSeen(self.observations, n)
        self._manual = manual
        self._native = native
        self._buffer = None if copy else empty_batch(spaces[0], n)
        self._landing: Landing = self.blank()
        self._spare: Landing | None = None
        self._todo: list[Part] = []
        self._late: Part | None = None
        self._telling = True
        self._reset: tuple[Any, Any, np.ndarray[Any, Any] | None] = (None, None, None)

    # -- step

    def post_step(self, actions: Any) -> None:
        """Send the actions of all lanes.

        Raises:
            InvalidActionError: The actions are not in the action space; nothing was sent.
        """
        columns = columns_of(self.actions, actions, self._bounds)
        self._begin(telling=not self.recovery.at_once)
        lost = 1 in self._revive_bytes or 1 in self._untold_bytes
        over = self.revive | self.untold if lost else None
        for part, column in zip(self.fleet.parts, columns, strict=True):
            if over is None or not over[part.first : part.stop].any():
                self._post(part, Step, column)
            else:
                self._post_rest(part, actions, ~over[part.first : part.stop])

    def collect_step(self, patience: float | None) -> _Step:
        """Return what the lanes' steps gave.

        Args:
            patience: When to stop waiting (``time.monotonic()``).

        Raises:
            TimeoutError: Not all replies came in time; call it again.
            VectorEnvError: Some lanes failed.
        """
        landing = self._landing
        if self._spare is None and not self._alone and self._buffer is None:
            self._spare = self.blank()  # for the next step, now that the lanes are at work
            self._spare.prepare()
        self._drain(Landing.step, patience)
        if landing.lost or 1 in self._revive_bytes:
            if self.recovery.at_once:
                self._restart()
            else:
                self._revive()
            self.note_loss(np.flatnonzero(landing.lost_lanes & ~self.unready))
        terminated, truncated = ended(landing.flag_bytes)
        if self._manual:
            self.unready |= landing.flags != 0
        result: _Step = self._returned((landing.rewards, terminated, truncated))
        return result

    # -- reset

    def post_reset(self, seeds: Any, options: Any, mask: np.ndarray[Any, Any] | None) -> None:
        """Ask lanes to begin new episodes, in new sessions where theirs are lost.

        Args:
            seeds: One a lane, or ``None``; native lanes have them as :meth:`_seeds` says.
            options: For the environments.
            mask: The lanes to reset; ``None``: all.

        Raises:
            ValueNotCarriedError: The options have no form on the wire; nothing was sent.
        """
        packed = pack(options, "options")
        self._begin(telling=False)
        self._reset = seeds, packed, mask
        masked = self._masked()
        for part in masked:
            part.check()
            if part.connection is None:
                part.losses = 0  # the user asks for a new beginning
        self._ask_reset(masked)

    def collect_reset(self, patience: float | None) -> tuple[Any, dict[str, Any]]:
        """Return what the lanes' resets gave; argument and errors as for :meth:`collect_step`."""
        landing = self._landing
        self._drain(Landing.reset, patience)
        self._retry(Landing.reset)
        mask = self._reset[2]
        if mask is not None:
            for part in self.fleet.parts:
                rest = [lane for lane in part.lanes if not mask[lane]]
                if rest:
                    landing.keep(part, rest)
        self._began(mask)
        result: tuple[Any, dict[str, Any]] = self._returned(())
        return result

    def begin_again(self, part: Part, lanes: Sequence[int]) -> Landing:
        """Begin new episodes in lanes that lost theirs; return what came of it."""
        mask = np.zeros(self._n, np.bool_)
        mask[list(lanes)] = True
        landing = self._landing = self.blank()
        self._telling, self._reset = False, (None, None, mask)
        if self._may_restart(part):
            self._ask_reset([part])
            self._drain(Landing.reset, None)
        if self.recovery.at_once:
            self._retry(Landing.reset)
        if part not in landing.lost:
            self._began(mask)
        return landing

    # -- what becomes of lanes

    def blank(self) -> Landing:
        """Return an empty result."""
        return Landing(self.observations, self.last, self._n)

    def note_ends(self, lanes: Sequence[int]) -> None:
        """Note that episodes ended."""
        if self._manual:
            self.unready[lanes] = True

    def note_loss(self, lanes: Sequence[int] | np.ndarray[Any, Any]) -> None:
        """Note that episodes were lost and ended as truncated."""
        self.untold[lanes] = False
        if self.recovery.later:
            self.revive[lanes] = True
        elif not self.recovery.at_once:
            self.unready[lanes] = True

    def never_seen(self, mask: np.ndarray[Any, Any]) -> list[int]:
        """Return the lanes in ``mask`` that never had an episode."""
        lanes = ((part, lane) for part in self.fleet.parts for lane in part.lanes)
        return [lane for part, lane in lanes if mask[lane] and not self.last.seen(lane, part.first)]

    def interrupted(self) -> None:
        """Give up what is outstanding: nobody knows its result."""
        self._todo = []
        self.unready[:] = True
        for part in self.fleet.parts:
            part.give_up()

    # -- inside: sending

    def _begin(self, *, telling: bool) -> None:
        spare, self._spare = self._spare, None
        self._landing = spare or Landing(self.observations, self.last, self._n, self._buffer)
        self._todo = []
        self._telling = telling

    def _post(self, part: Part, kind: Callable[..., Any], *args: Any) -> None:
        try:
            part.post(kind, *args)
            self._todo.append(part)
        except OpenEnvError as exc:
            self._failed(part, exc)

    def _post_rest(self, part: Part, actions: Any, going: np.ndarray[Any, Any]) -> None:
        """Send the actions of those lanes of a part that did not lose their session."""
        untold = np.flatnonzero(self.untold[part.first : part.stop])
        if len(untold):
            cause = self.recovery.cause_of(part)
            self._landing.truncate(part, cause, (untold + part.first).tolist(), tell=self._telling)
        if part.connection is not None and going.any():
            lanes = np.flatnonzero(going)
            some = take_rows(self.actions.space, actions, (lanes + part.first).tolist())
            column = self.actions.encode_batch(some, len(lanes), "actions")
            self._post(part, Step, column, lane_bytes(lanes))

    def _masked(self) -> list[Part]:
        mask = self._reset[2]
        return [part for part in self.fleet.parts if mask is None or mask[part.first : part.stop].any()]

    def _ask_reset(self, parts: list[Part]) -> None:
        """Send ``reset`` to parts, after opening new sessions where theirs are lost."""
        seeds, options, mask = self._reset
        for part in self._opened(parts):
            own = None if mask is None else mask[part.first : part.stop]
            shown = None if own is None or own.all() else own.tobytes()
            self._post(part, Reset, self._seeds(seeds, part), options, shown)

    def _seeds(self, seeds: Any, part: Part) -> list[Any] | None:
        """Return the seeds of a part; native lanes get one value, a given int plus their first lane."""
        if seeds is None:
            return None
        chosen = [pack(seed, "seed") for seed in seeds[part.first : part.stop]]
        if not self._native:
            return chosen
        return chosen[:1] if isinstance(seeds, range) else [chosen]

    def _opened(self, parts: list[Part]) -> list[Part]:
        """Open new sessions for those of ``parts`` that have none; return the parts that have one."""
        lost = [part for part in parts if part.connection is None]
        if not lost:
            return parts
        failures = self.fleet.begin(lost)
        failures |= self.fleet.complete(part for part in lost if part.connection is not None)
        for part in lost:
            if part.first in failures:
                self._failed(part, failures[part.first])
            else:
                self._note_rest(part)
        return [part for part in parts if part.connection is not None]

    def _note_rest(self, part: Part) -> None:
        """Note what becomes of the lanes that are not reset, now that the old session is lost."""
        mask = self._reset[2]
        if mask is None:
            return
        lanes = slice(part.first, part.stop)
        rest = ~(mask[lanes] | self.revive[lanes] | self.unready[lanes])
        if self.recovery.truncates:
            self.untold[lanes] |= rest
        elif rest.any():
            lost = np.flatnonzero(rest) + part.first
            self._landing.fail(part, self.recovery.cause_of(part), lost.tolist())

    # -- inside: receiving

    def _drain(self, land: _Land, patience: float | None) -> None:
        """Collect what is outstanding, in the order of the parts; each reply lands while others are made.

        Who shares its core with one of those that are waited for begins with that one, so as not to be woken
        while it still needs the core. It is the one that was late the last time.
        """
        todo, first, crowded = self._todo, 0.0, self.fleet.crowded and not self._alone
        if crowded:
            todo.sort(key=lambda part: part is not self._late)
        while todo:
            part, begun = todo[0], monotonic() if crowded else 0.0
            try:
                reply = part.collect(patience)
            except OpenEnvError as exc:
                self._failed(part, exc)
            else:
                self._land(land, part, reply)
            del todo[0]
            if crowded:
                took = monotonic() - begun
                if not first:
                    first = took
                elif took > first * _LATE:
                    self._late = part

    def _land(self, land: _Land, part: Part, reply: Any) -> None:
        try:
            land(self._landing, part, reply)
        except MALFORMED as exc:
            error = malformed(part.server, exc)
            part.lose(error)
            self._failed(part, error)
            return
        if part.losses:
            part.stepped()
        if reply.warnings:
            warn(reply.warnings)

    def _failed(self, part: Part, exc: OpenEnvError) -> None:
        lanes = self._landing.concerned(part)
        if self.recovery.makes_good(exc):
            self._landing.truncate(part, exc, lanes, tell=self._telling)
        else:
            self._landing.fail(part, exc, lanes)
        if len(lanes) < part.count and part.connection is None:
            self._note_rest(part)

    # -- inside: after a loss

    def _may_restart(self, part: Part) -> bool:
        """Return whether a part may be started once more; else its lanes fail."""
        refusal = self.recovery.refusal(part)
        if refusal is not None:
            self._landing.fail(part, refusal)
        return refusal is None

    def _retry(self, land: _Land) -> None:
        """Reset the lanes of lost sessions in new ones, until that goes well or happened too often."""
        lost = self._landing.lost
        while lost:
            again = list(lost)
            lost.clear()
            self._landing.lost_lanes[:] = False
            self._ask_reset([part for part in again if self._may_restart(part)])
            self._drain(land, None)

    def _restart(self) -> None:
        """Begin new episodes in lanes whose session was lost in this very step."""
        causes = dict(self._landing.lost)
        if not causes:
            return
        self._landing.only = only = self._landing.lost_lanes.copy()
        self._reset, self._telling = (None, None, only), False
        self._retry(lambda landing, part, reply: landing.restart(part, reply, causes[part]))
        self._began(self._reset[2])

    def _revive(self) -> None:
        """Begin new episodes in lanes whose session was lost before this step: that is their step."""
        mask = self.revive & ~self._landing.lost_lanes
        if not mask.any():
            return
        self._landing.only = mask
        self._reset = None, None, mask
        self._ask_reset([part for part in self._masked() if self._may_restart(part)])
        self._drain(Landing.reset, None)
        self._began(mask & ~self._landing.lost_lanes)

    # -- inside: at the end of a call

    def _began(self, mask: np.ndarray[Any, Any] | None) -> None:
        """Note that lanes have new episodes, except those that failed."""
        began = np.ones(self._n, np.bool_) if mask is None else mask.copy()
        began[list(self._landing.errors)] = False
        for lanes in (self.unready, self.revive, self.untold):
            lanes &= ~began

    def _returned(self, between: tuple[Any, ...]) -> Any:
        landing = self._landing
        if self._buffer is not None:
            self._buffer = landing.batch
        result = (landing.batch, *between, landing.infos())
        if landing.errors:
            for error in landing.errors.values():
                if isinstance(error, ConfigError):  # refused: nothing was executed
                    raise error
            lanes = list(landing.errors)
            self.unready[lanes], self.revive[lanes], self.untold[lanes] = True, False, False
            raise vector_error(landing.errors, self._n, result) from landing.errors[min(lanes)]
        return result
