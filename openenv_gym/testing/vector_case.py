"""A vector environment under examination: rollouts, their repetition, and what each lane got of them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ..lane_infos import lane_info
from .compare import difference

__all__ = ["Case", "Frame", "Lane", "Mode", "NotCheckedError", "Policy", "dispose", "is_in", "unordered"]

Mode = AutoresetMode
Policy = Callable[[Any, dict[str, Any]], Any]
_REPEATED = 40


class NotCheckedError(Exception):
    """A rule cannot be checked; the text says why."""


class Frame(NamedTuple):
    """One call and what it returned.

    Attributes:
        kind: ``"reset"`` or ``"step"``.
        given: Seed and options of a reset, actions of a step, as nobody else has them.
        passed: The objects that the environment was given.
        live: The objects that it returned.
        result: What it returned, as nobody else has it.
    """

    kind: str
    given: Any
    passed: Any
    live: Any
    result: Any

    @property
    def done(self) -> np.ndarray[Any, Any]:
        """Which lanes ended, bool."""
        if self.kind == "reset":
            return np.zeros(0, np.bool_)
        return np.asarray(self.result[2], np.bool_) | np.asarray(self.result[3], np.bool_)

    @property
    def ended(self) -> list[int]:
        """The lanes that ended."""
        return [int(lane) for lane in np.flatnonzero(self.done)]


class Lane(NamedTuple):
    """What one lane got of a call; reward and flags are ``None`` after a reset."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[str, Any]


class Case:
    """A vector environment, and how to drive it.

    Args:
        envs: The environment.
        make: Makes another one like it; ``None``: nobody can.
        make_other: Makes one of another autoreset mode; ``None``: nobody can.
        asked: The mode that was asked for; ``None``: none was.
        seed: Of the rollout and of its actions.
        steps: Length of the rollout.
        policy: Chooses the actions; ``None``: samples.
        reference: Functions that make each lane's environment; ``None``: unknown.

    Attributes:
        over: Whether episodes ended in the last step, as far as is known.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        *,
        make: Callable[[], VectorEnv[Any, Any, Any]] | None = None,
        make_other: Callable[[], VectorEnv[Any, Any, Any]] | None = None,
        asked: Mode | None = None,
        seed: int,
        steps: int,
        policy: Policy | None,
        reference: Sequence[Callable[[], Any]] | None,
    ) -> None:
        self.envs = envs
        self.make = make
        self.make_other = make_other
        self.asked = asked
        self.seed = seed
        self.reference = reference
        self._steps = steps
        self._policy = policy
        self.over = False
        mode = envs.metadata.get("autoreset_mode")
        self.mode = mode if isinstance(mode, Mode) else None

    @property
    def n(self) -> int:
        """Number of lanes."""
        return int(self.envs.num_envs)

    @property
    def samples(self) -> bool:
        """Whether any action will do."""
        return self._policy is None

    def renew(self) -> None:
        """Go on with another environment, because nobody knows what state this one is in."""
        if self.make is not None:
            dispose(self.envs)
            self.envs = self.make()
            self.over = False

    def settle(self) -> None:
        """Begin a rule: with another environment, if episodes ended in the last step."""
        # Whether a reset forgets such an end is one rule's question, and must not disturb the others.
        if self.over:
            self.renew()

    def fresh(self) -> VectorEnv[Any, Any, Any]:
        """Return an environment that nothing else uses."""
        if self.make is None:
            raise NotCheckedError("it takes an environment of its own; pass a factory")
        return self.make()

    # -- calls

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> Frame:
        """Reset and return the call."""
        passed = copy.deepcopy((seed, options))
        live = self.envs.reset(seed=passed[0], options=passed[1])
        return Frame("reset", (seed, options), passed, live, _snapshot(live))

    def step(self, actions: Any) -> Frame:
        """Step and return the call."""
        passed = copy.deepcopy(actions)
        live = self.envs.step(passed)
        frame = Frame("step", actions, passed, live, _snapshot(live))
        self.over = bool(frame.ended)
        return frame

    def repeat(self, frames: Sequence[Frame]) -> list[Frame]:
        """Make the same calls again."""
        return [
            self.reset(*frame.given) if frame.kind == "reset" else self.step(frame.given) for frame in frames
        ]

    # -- the rollout

    @cached_property
    def trace(self) -> list[Frame]:
        """A seeded rollout over as many episodes as fit."""
        frames = [self.reset(self.seed)]
        space = batch_space(self.envs.single_action_space, self.n)
        space.seed(self.seed)
        for _ in range(self._steps):
            last = frames[-1]
            if self.mode is Mode.DISABLED and last.ended:
                frames.append(self.reset(None, {"reset_mask": last.done}))
            last = frames[-1].result
            actions = space.sample() if self._policy is None else self._policy(last[0], last[-1])
            frames.append(self.step(copy.deepcopy(actions)))
        return frames

    @cached_property
    def repeatable(self) -> str | None:
        """Where a repetition of the rollout's beginning differs; ``None``: nowhere."""
        first = self.trace[:_REPEATED]
        for at, (old, new) in enumerate(zip(first, self.repeat(first), strict=True)):
            text = difference(new.result, old.result, f"call {at} ({old.kind}): result")
            if text is not None:
                return text
        return None

    def require_repeatable(self) -> None:
        """Refuse to judge by repetition what does not repeat itself."""
        if self.repeatable is not None:
            raise NotCheckedError("the same seed gives different results")

    @property
    def end(self) -> int:
        """Index of the first call of the rollout in which an episode ends."""
        found = next((at for at, frame in enumerate(self.trace) if frame.ended), None)
        if found is None:
            raise NotCheckedError("no episode ended in the rollout; raise steps= or pass a policy=")
        return found

    @property
    def prefix(self) -> list[Frame]:
        """The first calls, a reset and at most three steps; no episode ends in them or in the next."""
        first = self.trace[:5]
        end = next((at for at, frame in enumerate(first) if frame.ended), len(first))
        return first[: max(end - 1, 1)]

    # -- lanes

    def lanes(self, frame: Frame) -> list[Lane]:
        """Return what each lane got."""
        observations = list(iterate(self.envs.observation_space, frame.result[0]))
        infos = [lane_info(frame.result[-1], lane) for lane in range(self.n)]
        if frame.kind == "reset":
            return [Lane(obs, None, None, None, info) for obs, info in zip(observations, infos, strict=True)]
        columns = zip(observations, *frame.result[1:4], infos, strict=True)
        return [Lane(*parts) for parts in columns]

    def actions(self, actions: Any) -> list[Any]:
        """Return each lane's action."""
        return list(iterate(batch_space(self.envs.single_action_space, self.n), actions))

    def batch(self, actions: Sequence[Any]) -> Any:
        """Return actions of lanes as one batch."""
        space = self.envs.single_action_space
        empty: Any = create_empty_array(space, n=len(actions), fn=np.zeros)
        return concatenate(space, actions, empty)


def dispose(envs: VectorEnv[Any, Any, Any]) -> None:
    """Close an environment that may be in any state."""
    if isinstance(envs.unwrapped, AsyncVectorEnv):
        # After a refused call it waits for answers that never come.
        envs.close(terminate=True)
    else:
        envs.close()


def _snapshot(value: Any) -> Any:
    """Return a copy that later writes into arrays and containers do not reach; other objects stay."""
    if isinstance(value, np.ndarray):
        copied = value.copy()
        if value.dtype == object:
            for place in np.ndindex(value.shape):
                copied[place] = _snapshot(value[place])
        return copied
    if type(value) is dict:
        return {key: _snapshot(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_snapshot(item) for item in value)
    if hasattr(value, "_fields"):
        return type(value)(*(_snapshot(item) for item in value))
    return value


def is_in(space: gym.Space[Any], value: Any) -> bool:
    """Return whether ``value`` is in the space, without the warnings about what it might have meant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return space.contains(value)


def unordered(value: Any) -> Any:
    """Return ``value`` with the items of all dicts in one order, for comparison."""
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value, key=repr)}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(unordered(item) for item in value)
    return value
