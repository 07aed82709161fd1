"""The walk over a space that makes its spec, and the way back; :mod:`.specs` has the kinds of spaces.

A space costs :data:`NODE_COST` plus the bytes of one value, and twice as much for each stacked sequence or
graph around it (Gymnasium keeps a batched copy there); all in all at most :data:`SPEC_LIMIT`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ..errors import RemoteProtocolError, ValueNotCarriedError
from .extensions import MAX_DEPTH

__all__ = ["NODE_COST", "SPEC_LIMIT", "Walk", "dump", "from_spec", "load", "register_space", "to_spec"]

#: Bytes that all spaces of a spec may take.
SPEC_LIMIT = 2**29
#: Bytes that a space takes beside its values.
NODE_COST = 2**14


class _BadSpaceError(Exception):
    """A space has no spec, or a spec makes no space."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


class Walk:
    """Where a walk over spaces stands, and what it may still spend.

    Attributes:
        path: What errors call the space.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._depth = 0
        self._weight = 1
        self._left = [SPEC_LIMIT]

    def below(self, step: str, *, copied: bool = False) -> Walk:
        """Return the walk one space deeper; ``copied``: Gymnasium keeps a second copy of that space."""
        walk = Walk(self.path + step)
        walk._depth = self._depth + 1
        walk._weight = self._weight * (2 if copied else 1)
        walk._left = self._left
        if walk._depth > MAX_DEPTH:
            raise _BadSpaceError(walk.path, f"spaces are nested more than {MAX_DEPTH} deep")
        return walk

    def spend(self, size: int) -> None:
        """Account for a space whose values take ``size`` bytes."""
        self._left[0] -= self._weight * (NODE_COST + size)
        if self._left[0] < 0:
            raise _BadSpaceError(self.path, f"the spaces take more than {SPEC_LIMIT} bytes")


Dump = Callable[[Any, Walk], dict[str, Any]]
Load = Callable[[Any, Walk], Any]


class _Kind(NamedTuple):
    name: str
    fields: type[msgspec.Struct]
    dump: Dump
    load: Load


_BY_CLASS: dict[type, _Kind] = {}
_BY_NAME: dict[str, _Kind] = {}
_WARNED: set[type] = set()


def register_space(cls: type, name: str, fields: type[msgspec.Struct], dump: Dump, load: Load) -> None:
    """Let spaces of class ``cls`` travel.

    Args:
        cls: The class.
        name: The ``type`` of its specs.
        fields: A Struct of the other fields; a spec from a peer is checked against it.
        dump: Returns the fields of a space, packed. A :class:`Walk` comes with it.
        load: Builds the space from an instance of ``fields``; may raise ``ValueError``. A :class:`Walk` comes
            with it.
    """
    _BY_CLASS[cls] = _BY_NAME[name] = _Kind(name, fields, dump, load)


def to_spec(space: Any, path: str = "space") -> Any:
    """Return the spec of ``space``, packed. The state of its random generator does not travel.

    A subclass of a space that travels does so as its base, with a warning.

    Raises:
        ValueNotCarriedError: A space in it has no spec. ``details["path"]`` names it.
    """
    try:
        return dump(space, Walk(path))
    except _BadSpaceError as exc:
        raise ValueNotCarriedError(f"{exc.path} has no form on the wire: {exc}", path=exc.path) from exc


def from_spec(spec: Any) -> Any:
    """Return the space that ``spec`` (unpacked) describes.

    Raises:
        RemoteProtocolError: It describes none, or one beyond the limits.
    """
    try:
        return load(spec, Walk("space"))
    except _BadSpaceError as exc:
        raise RemoteProtocolError(f"the peer's spec of {exc.path} makes no space: {exc}") from exc


def dump(space: Any, walk: Walk) -> dict[str, Any]:
    """Return the spec of a space within a walk."""
    kind = _kind_of(space, walk)
    try:
        return {"type": kind.name, **kind.dump(space, walk)}
    except (ValueError, TypeError, AttributeError) as exc:
        raise _BadSpaceError(walk.path, str(exc)) from exc


def _kind_of(space: Any, walk: Walk) -> _Kind:
    cls = type(space)
    for base in cls.__mro__:
        kind = _BY_CLASS.get(base)
        if kind is None:
            continue
        if base is not cls and cls not in _WARNED:
            _WARNED.add(cls)
            warnings.warn(
                f"{walk.path}: a {cls.__qualname__} travels as its base {base.__qualname__}", stacklevel=2
            )
        return kind
    raise _BadSpaceError(
        walk.path, f"{cls.__module__}.{cls.__qualname__} is none of Gymnasium's spaces, Unicode or Json"
    )


def load(spec: Any, walk: Walk) -> Any:
    """Return the space of a spec within a walk."""
    if type(spec) is not dict:
        raise _BadSpaceError(walk.path, f"a spec is a map, not a {type(spec).__name__}")
    name = spec.get("type")
    kind = _BY_NAME.get(name) if type(name) is str else None
    if kind is None:
        raise _BadSpaceError(walk.path, f"its type {str(name)[:40]!r} is unknown; the peer may be newer")
    try:
        rest = {key: value for key, value in spec.items() if key != "type"}
        return kind.load(msgspec.convert(rest, kind.fields, builtin_types=(bytes,)), walk)
    except (msgspec.ValidationError, ValueError, TypeError, OverflowError, AssertionError) as exc:
        raise _BadSpaceError(walk.path, str(exc)) from exc
