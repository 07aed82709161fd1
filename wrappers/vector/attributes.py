"""Frames, attributes and methods of all lanes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openenv_gym.errors import ConfigError, RemoteEnvironmentError, VectorEnvError
from openenv_gym.protocol.lanes import lane_bytes
from openenv_gym.protocol.messages import Call, Get, Render, Set
from openenv_gym.protocol.values import pack

from .fleet import Part

__all__ = ["LaneAttributes"]

_Arguments = Callable[[Part], Sequence[Any] | None]
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
        fields = _called_with(name, args, kwargs)
        values: tuple[Any, ...] = self._called(name, lambda part: fields, _joined)
        return values

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each lane; of a method what it returns. Errors as for :meth:`call`."""
        if self.native:
            return self._call_native("get_attr", name)
        return self.call(name)

    def call_lanes(self, lanes: Sequence[int], name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some lanes; return what it gave, in the order of ``lanes``.

        Args:
            lanes: Which, each once.
            name: Its name.
            args: Arguments, the same for each lane.
            kwargs: Keyword arguments, the same for each lane.

        Raises:
            ConfigError: The lanes are one native vector environment.
            ValueError: There are no such lanes, or one comes twice.
            VectorEnvError: As for :meth:`call`, which says what else is raised.
        """
        order = self._chosen(lanes)
        fields = _called_with(name, args, kwargs)

        def arguments(part: Part) -> Sequence[Any] | None:
            own = _within(part, order)
            return (*fields, lane_bytes(own)) if own else None

        values: tuple[Any, ...] = self._called(name, arguments, _joined)
        found = dict(zip(sorted(order), values, strict=True))
        return tuple(found[lane] for lane in order)

    def set_attr_lanes(self, lanes: Sequence[int], name: str, values: Any) -> None:
        """Set an attribute of some lanes; arguments as for :meth:`call_lanes` and :meth:`set_attr`."""
        order = self._chosen(lanes)
        chosen = dict(zip(order, self._packed(name, values, order), strict=True))

        def arguments(part: Part) -> Sequence[Any] | None:
            own = _within(part, order)
            return (name, [chosen[part.first + lane] for lane in own], lane_bytes(own)) if own else None

        self._ask(Set, arguments, list)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each lane.

        Args:
            name: Its name.
            values: A list or tuple with a value for each lane, or one value for all.

        Raises:
            ValueError: There are more or fewer values than lanes.
            VectorEnvError: A lane raised, or sessions are lost.
        """
        packed = self._packed(name, values, range(self.num_envs))
        if self.native:
            self._called(
                "set_attr", lambda part: ("set_attr", [name, packed[part.first : part.stop]], {}), list
            )
        else:
            self._ask(Set, lambda part: (name, packed[part.first : part.stop]), list)

    def _packed(self, name: str, values: Any, lanes: Sequence[int]) -> list[Any]:
        """Return a value for each of ``lanes``, packed."""
        if not isinstance(values, list | tuple):
            values = [values] * len(lanes)
        if len(values) != len(lanes):
            raise ValueError(
                f"{len(values)} values were given for {len(lanes)} lanes; pass one for each, or for all"
                " of them one that is no list or tuple"
            )
        return [pack(value, f"{name} of lane {lane}") for lane, value in zip(lanes, values, strict=True)]

    def _chosen(self, lanes: Sequence[int]) -> list[int]:
        """Return lanes as ints."""
        if self.native:
            raise ConfigError("native lanes are one vector environment, whose methods reach all of them")
        chosen = [int(lane) for lane in lanes]
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(self.num_envs)):
            raise ValueError(f"lanes must be different ones from 0 to {self.num_envs - 1}, not {chosen}")
        return chosen

    def _call_native(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        fields = _called_with(method, args, kwargs)
        values: tuple[Any, ...] = self._called(method, lambda part: fields, _native_values)
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


def _called_with(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the fields of a call, packed."""
    given = [pack(value, f"{name}() argument {index}") for index, value in enumerate(args)]
    return name, given, {key: pack(value, f"{name}({key})") for key, value in kwargs.items()}


def _within(part: Part, lanes: Sequence[int]) -> list[int]:
    """Return those of ``lanes`` that are in a part, counted from its first."""
    return [lane - part.first for lane in sorted(lanes) if part.first <= lane < part.stop]


def _joined(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(value for reply in replies for value in reply.values)


def _native_values(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(value for reply in replies for value in reply.values[0])


def _frames(replies: list[Any]) -> tuple[Any, ...]:
    return tuple(frame for reply in replies for frame in reply.frames)


def _native_frames(replies: list[Any]) -> tuple[Any, ...] | None:
    frames = [reply.frames[0] for reply in replies]
    return None if all(frame is None for frame in frames) else tuple(f for each in frames for f in each)
