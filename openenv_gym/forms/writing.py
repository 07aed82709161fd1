"""Values of spaces as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import Space
from gymnasium import spaces as gs
from gymnasium.vector.utils import iterate

from ..errors import ValueNotCarriedError
from ..structs.maps import jsonable

__all__ = ["value_to_json"]


def value_to_json(space: Space[Any], value: Any, *, where: str = "$") -> Any:
    """Return ``value`` in the spelling that :func:`.space_schema` describes.

    Args:
        space: Its space: one of Gymnasium's, ``Unicode`` or ``Json``.
        value: A value of it.
        where: What errors call ``value``.

    Raises:
        ValueNotCarriedError: It has no form in JSON, or not the form of a value of ``space``.
    """
    for kind, write in _WRITERS.items():
        if isinstance(space, kind):
            try:
                return write(space, value, where)
            except (TypeError, KeyError, AttributeError, IndexError) as exc:
                raise ValueNotCarriedError(f"{where} is no value of {space}: {exc}", path=where) from exc
    return jsonable(value, where)


def _dict(space: gs.Dict, value: Any, where: str) -> Any:
    return {
        str(key): value_to_json(item, value[key], where=f"{where}.{key}")
        for key, item in space.spaces.items()
    }


def _tuple(space: Any, value: Any, where: str) -> Any:
    if len(value) != len(space.spaces):
        raise IndexError(f"it has {len(value)} items, not {len(space.spaces)}")
    return [value_to_json(item, value[at], where=f"{where}[{at}]") for at, item in enumerate(space.spaces)]


def _one_of(space: Any, value: Any, where: str) -> Any:
    index, inner = value
    return [int(index), value_to_json(space.spaces[index], inner, where=f"{where}[1]")]


def _sequence(space: gs.Sequence, value: Any, where: str) -> Any:
    items = iterate(space.stacked_feature_space, value) if space.stack else value
    return [value_to_json(space.feature_space, item, where=f"{where}[{at}]") for at, item in enumerate(items)]


def _graph(space: gs.Graph, value: Any, where: str) -> Any:
    parts = ("nodes", "edges", "edge_links")
    return {name: jsonable(getattr(value, name), f"{where}.{name}") for name in parts}


_WRITERS: dict[type, Callable[[Any, Any, str], Any]] = {
    gs.Dict: _dict,
    gs.Tuple: _tuple,
    gs.OneOf: _one_of,
    gs.Sequence: _sequence,
    gs.Graph: _graph,
}
