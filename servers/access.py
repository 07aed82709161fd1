"""What clients may do with an environment besides stepping it: render it, read, set and call public names."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any

import gymnasium as gym

from openenv_gym.errors import (
    ForbiddenError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    UnsupportedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import pack
from openenv_gym.structs import to_map

__all__ = ["Access", "release"]


class Access:
    """One environment.

    Args:
        env: The environment; closed by :func:`release`.
        attributes: Whether clients may reach its attributes and methods.

    Every method is called on the environment's thread, and raises what the environment raises.
    """

    spent: Any = None

    def __init__(self, env: gym.Env[Any, Any], *, attributes: bool = True) -> None:
        self.env = env
        self._attributes = attributes

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
        _refuse_lanes(request)
        if len(request.values) != 1:
            raise RemoteProtocolError(f"'set' has {len(request.values)} values for one lane")
        if isinstance(self.env, gym.Wrapper):
            self.env.set_wrapper_attr(request.name, request.values[0])
        else:
            setattr(self.env, request.name, request.values[0])
        return m.Value(request.id, [None])

    def call(self, request: m.Call) -> m.Value:
        """Call a method."""
        _refuse_lanes(request)
        method = self._attribute(request.name)
        if not callable(method):
            raise RemoteEnvironmentError(f"{request.name!r} is not a method", type="TypeError", traceback="")
        return m.Value(request.id, [pack(method(*request.args, **request.kwargs), f"{request.name}()")])

    def state(self, request: m.State) -> m.Value:
        """Return the state of a typed environment."""
        from openenv_gym.typed_env import TypedEnv

        inner = self.env.unwrapped
        if not isinstance(inner, TypedEnv):
            raise UnsupportedError("a plain Gymnasium environment has no state; read its attributes")
        return m.Value(request.id, [pack(to_map(inner.player.state()), "state")])

    def detach(self) -> Any:
        """Return the environment and let go of it; this object is of no use afterwards."""
        env = self.env
        del self.env
        return env

    def _attribute(self, name: str) -> Any:
        self._check_name(name)
        return self.env.get_wrapper_attr(name)

    def _check_name(self, name: str) -> None:
        if not self._attributes:
            raise ForbiddenError("this server does not give access to attributes (--attributes off)")
        if name.startswith("_"):
            raise ForbiddenError(f"{name!r} is private; only public names are reached remotely")


def _refuse_lanes(request: m.Set | m.Call) -> None:
    if request.lanes is not None:
        name = type(request).__struct_config__.tag
        raise RemoteProtocolError(f"'{name}' names lanes; this session's are reached together")


def release(owners: Iterable[Access]) -> None:
    """Close the environments of one thread, on it, and let go of them; raises what the first one raises."""
    remains: list[weakref.ref[Any]] = []
    failure: BaseException | None = None
    for owner in owners:
        env = owner.detach()
        remains.append(weakref.ref(env.unwrapped))
        try:
            env.close()
        except BaseException as exc:
            failure = failure or exc
        del env
    # What they hold may belong to this thread, as the objects of an OpenGL context do: freed on another
    # one, they take those of another session with them.
    if any(remain() is not None for remain in remains):
        gc.collect()
    if failure is not None:
        raise failure
