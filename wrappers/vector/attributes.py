"""Frames, attributes and methods of all lanes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from openenv_gym.errors import RemoteEnvironmentError, VectorEnvError
from openenv_gym.protocol.messages import Call, Get, Render, Set
from openenv_gym.protocol.values import pack

from .fleet import Part

__all__ = ["LaneAttributes"]

_Arguments = Callable[[Part], Sequence[Any]]
_Take = Callable[[list[Any]], Any]


class LaneAttributes:
    """What every lane is asked, answered by a tuple with one item a lane.

    Attributes:
        num_envs: Number of lanes.
        native: Whether each session holds a vector environment, whose own methods then answer.
    """

    num_envs: int
    native: bool = False

    @abstractmethod
    def _ask(self, kind: type, arguments: _Arguments, take: _Take) -> Any:
        """Send a request to every session and return what ``take`` makes of the replies."""

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each lane."""
        take = _native_frames if self.native else _frames
        frames: tuple[Any, ...] | None = self._ask(Render, lambda part: (), take)
        return frames

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each lane, at most once; of an attribute that is no method return the value.

        Args:
            name: Its name.
            args: Arguments, the same for each lane.
            kwargs: Keyword arguments, the same for each lane.

        Raises:
            AttributeError: The lanes have no such name.
            VectorEnvError: A lane raised, or sessions are lost.
            ValueNotCarriedError: An argument or a result has no form on the wire.
        """
        if name == "render" and not args and not kwargs:
            return self.render() or ()
        if self.native:
            return self._call_native("call", name, *args, **kwargs)
        if not args and not kwargs:
            replies = self._read(name)
            if not any(reply.callable for reply in replies):
                return _joined(replies)
        given = [pack(value, f"{name}() argument {index}") for index, value in enumerate(args)]
        named = {key: pack(value, f"{name}({key})") for key, value in kwargs.items()}
        values: tuple[Any, ...] = self._called(name, lambda part: (name, given, named), _joined)
        return values

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each lane; of a method what it returns. Errors as for :meth:`call`."""
        if self.native:
            return self._call_native("get_attr", name)
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each lane.

        Args:
            name: Its name.
            values: A list or tuple with a value for each lane, or one value for all.

        Raises:
            ValueError: There are more or fewer values than lanes.
            VectorEnvError: A lane raised, or sessions are lost.
        """
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                f"{len(values)} values were given for {self.num_envs} lanes; pass one for each, or for all"
                " of them one that is no list or tuple"
            )
        packed = [pack(value, f"{name} of lane {lane}") for lane, value in enumerate(values)]
        if self.native:
            self._called(
                "set_attr", lambda part: ("set_attr", [name, packed[part.first : part.stop]], {}), list
            )
        else:
            self._ask(Set, lambda part: (name, packed[part.first : part.stop]), list)

    def _call_native(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = [pack(value, f"{method}() argument {index}") for index, value in enumerate(args)]
        named = {key: pack(value, f"{method}({key})") for key, value in kwargs.items()}
        values: tuple[Any, ...] = self._called(method, lambda part: (method, given, named), _native_values)
        return values

    def _called(self, name: str, arguments: _Arguments, take: _Take) -> Any:
        """Return what ``take`` makes of the results of a method."""
        try:
            return self._ask(Call, arguments, take)
        except VectorEnvError as exc:
            if _lack_attributes(exc):
                self._read(name)  # raises where it is the method itself that they lack
            raise

    def _read(self, name: str) -> list[Any]:
        """Return the replies to the question for an attribute.

        Raises:
            AttributeError: There is none of this name.
        """
        try:
            replies: list[Any] = self._ask(Get, lambda part: (name,), list)
            return replies
        except VectorEnvError as exc:
            if not _lack_attributes(exc):
                raise
            owner = "the environment's own vector class has" if self.native else "the lanes have"
            raise AttributeError(f"{owner} no attribute {name!r}") from exc


def _lack_attributes(exc: VectorEnvError) -> bool:
    return all(
        isinstance(error, RemoteEnvironmentError) and error.details.get("type") == "AttributeError"
        for error in exc.errors.values()
    )


def _joined(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(value for reply in replies for value in reply.values)


def _native_values(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(value for reply in replies for value in reply.values[0])


def _frames(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(frame for reply in replies for frame in reply.frames)


def _native_frames(replies: list[Any]) -> tuple[Any, ...] | None:
    frames = [reply.frames[0] for reply in replies]
    return None if all(frame is None for frame in frames) else tuple(f for each in frames for f in each)
