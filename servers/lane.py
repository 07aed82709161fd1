"""One lane: an environment, and the requests that act on it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import gymnasium as gym
import numpy as np

from openenv_gym.errors import RemoteProtocolError, ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.specs import to_spec
from openenv_gym.protocol.values import pack

from .access import Access, release

__all__ = ["Lane", "TimedLane", "facts_of"]

_DOUBLE = struct.Struct("<d").pack
_FLAG_BYTES = [bytes([flags]) for flags in range(32)]


class Lane(Access):
    """An environment that answers the requests of one session.

    Args:
        env: The environment; closed by :meth:`close`.
        attributes: Whether clients may reach its attributes and methods.

    Every method is called on the session's thread.
    """

    def __init__(self, env: gym.Env[Any, Any], *, attributes: bool = True) -> None:
        super().__init__(env, attributes=attributes)
        self._step = env.step
        self._actions = column_codec(env.action_space, actions=True)
        self._observations = column_codec(env.observation_space)
        self._warnings: list[str] = []
        self._warned: set[str] = set()
        self._episode = False

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``; raises what the environment raises."""
        answer = _ANSWERS.get(type(request))
        if answer is None:
            raise RemoteProtocolError(f"this environment has no '{type(request).__struct_config__.tag}'")
        return answer(self, request)

    def reset(self, request: m.Reset) -> m.Observation:
        """Start an episode."""
        seeds = request.seeds
        if seeds is not None and len(seeds) != 1:
            raise RemoteProtocolError(f"'reset' has {len(seeds)} seeds for one lane")
        if request.mask is not None:
            raise RemoteProtocolError("'reset' has a mask; a session of one lane needs none")
        self._episode = False
        observation, info = self.env.reset(seed=seeds[0] if seeds else None, options=request.options)
        self._episode = True
        return m.Observation(
            request.id,
            self._observations.encode_one(observation, "obs", self._warn),
            [pack(info, "info", opaque=True)] if info else None,
            None,
            self._take_warnings() if self._warnings else [],
        )

    def step(self, request: m.Step) -> m.Transition:
        """Step the episode."""
        if not self._episode:
            raise ResetNeededError("there is no episode; call reset() before step()")
        if request.lanes is not None or request.wait is not None or request.patience is not None:
            raise RemoteProtocolError("'step' names lanes; say hello with the capability 'lanes' for that")
        action = self._actions.decode_one(request.actions)
        observation, reward, terminated, truncated, info = self._step(action)
        if terminated is True:
            flags = 1
        else:
            flags = 0 if terminated is False else self._flag(terminated, "terminated", 1)
        if truncated is not False:
            flags |= 2 if truncated is True else self._flag(truncated, "truncated", 2)
        return m.Transition(
            request.id,
            self._observations.encode_one(observation, "obs", self._warn),
            _DOUBLE(reward) if type(reward) is float else [pack(reward, "reward")],
            _FLAG_BYTES[flags],
            [pack(info, "info", opaque=True)] if info else None,
            None,
            None,
            None,
            None,
            self._take_warnings() if self._warnings else [],
        )

    def detach(self) -> Any:
        """Return the environment and let go of it."""
        del self._step
        return super().detach()

    def close(self) -> None:
        """Close the environment and let go of it; the lane is of no use afterwards."""
        release([self])

    def _flag(self, value: Any, name: str, bit: int) -> int:
        """Return the flag bits of an end-of-episode value that is not a Python bool."""
        if isinstance(value, np.bool_):
            return (bit if value else 0) | bit << 2
        self._warn(f"{name} is a {type(value).__name__}, not a bool; it arrives as bool({name})")
        return bit if value else 0

    def _warn(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < 64:
            self._warned.add(text)
            self._warnings.append(text)

    def _take_warnings(self) -> list[str]:
        taken, self._warnings = self._warnings, []
        return taken


class TimedLane(Lane):
    """A lane that says in ``Transition.timing`` how long a step took."""

    def answer(self, request: Any) -> m.Reply:
        """Carry out ``request``."""
        if type(request) is not m.Step:
            return super().answer(request)
        step, started, worked = self._step, perf_counter_ns(), 0

        def timed(action: Any) -> Any:
            nonlocal worked
            began = perf_counter_ns()
            outcome = step(action)
            worked = perf_counter_ns() - began
            return outcome

        self._step = timed
        try:
            reply = self.step(request)
        finally:
            self._step = step
        reply.timing = [perf_counter_ns() - started - worked, 0, worked]
        return reply


_ANSWERS: dict[type, Callable[[Lane, Any], m.Reply]] = {
    m.Step: Lane.step,
    m.Reset: Lane.reset,
    m.Render: Lane.render,
    m.Get: Lane.get,
    m.Set: Lane.set,
    m.Call: Lane.call,
    m.State: Lane.state,
}


def facts_of(env: gym.Env[Any, Any], target: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return what ``welcome`` says of ``env``, packed."""
    return {
        "target": target,
        "observation_space": to_spec(env.observation_space, "observation_space"),
        "action_space": to_spec(env.action_space, "action_space"),
        "metadata": pack(dict(env.metadata or {}), "metadata", opaque=True),
        "render_mode": env.render_mode,
        "spec": pack(spec, "spec", opaque=True),
    }
