"""One lane: an environment, and the requests that act on it."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from openenv_gym.errors import ForbiddenError, RemoteEnvironmentError, RemoteProtocolError, ResetNeededError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.columns import column_codec
from openenv_gym.protocol.specs import to_spec
from openenv_gym.protocol.values import pack

__all__ = ["Lane", "facts_of"]

_DOUBLE = struct.Struct("<d").pack
_EMPTY: dict[str, Any] = {}
_FLAG_BYTES = [bytes([flags]) for flags in range(32)]


class Lane:
    """An environment that answers the requests of one session.

    Args:
        env: The environment; closed by :meth:`close`.
        attributes: Whether clients may reach its attributes and methods.

    Every method is called on the session's thread.
    """

    def __init__(self, env: gym.Env[Any, Any], *, attributes: bool = True) -> None:
        self.env = env
        self._step = env.step
        self._attributes = attributes
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

    def render(self, request: m.Render) -> m.Frames:
        """Render the episode."""
        return m.Frames(request.id, [pack(self.env.render(), "frame")])

    def get(self, request: m.Get) -> m.Value:
        """Read an attribute; of a method only that it is one."""
        value = self._attribute(request.name)
        if callable(value):
            return m.Value(request.id, [None], True)
        return m.Value(request.id, [pack(value, request.name)])

    def set(self, request: m.Set) -> m.Value:
        """Set an attribute."""
        self._check_name(request.name)
        if len(request.values) != 1:
            raise RemoteProtocolError(f"'set' has {len(request.values)} values for one lane")
        if isinstance(self.env, gym.Wrapper):
            self.env.set_wrapper_attr(request.name, request.values[0])
        else:
            setattr(self.env, request.name, request.values[0])
        return m.Value(request.id, [None])

    def call(self, request: m.Call) -> m.Value:
        """Call a method."""
        method = self._attribute(request.name)
        if not callable(method):
            raise RemoteEnvironmentError(f"{request.name!r} is not a method", type="TypeError", traceback="")
        return m.Value(request.id, [pack(method(*request.args, **request.kwargs), f"{request.name}()")])

    def close(self) -> None:
        """Close the environment and let go of it; the lane is of no use afterwards."""
        env = self.env
        del self.env, self._step
        env.close()
        # What it holds may belong to this thread, as the objects of an OpenGL context do: freed on another
        # one, they take those of another session with them.
        remains = weakref.ref(env.unwrapped)
        del env
        if remains() is not None:
            gc.collect()

    def _attribute(self, name: str) -> Any:
        self._check_name(name)
        return self.env.get_wrapper_attr(name)

    def _check_name(self, name: str) -> None:
        if not self._attributes:
            raise ForbiddenError("this server does not give access to attributes (--attributes off)")
        if name.startswith("_"):
            raise ForbiddenError(f"{name!r} is private; only public names are reached remotely")

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


_ANSWERS: dict[type, Callable[[Lane, Any], m.Reply]] = {
    m.Step: Lane.step,
    m.Reset: Lane.reset,
    m.Render: Lane.render,
    m.Get: Lane.get,
    m.Set: Lane.set,
    m.Call: Lane.call,
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
