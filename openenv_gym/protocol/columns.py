"""Values of a space for n lanes, as raw buffers.

======================== =================================================================================
space                    column of n values that have exactly the space's form
======================== =================================================================================
Box, MultiBinary,        bin: n items, each in C order, in the space's dtype and byte order
MultiDiscrete
Discrete                 bin: n little-endian items of the space's dtype; [bin] when the values were
                         Python's own ints rather than numpy's scalars
Box of shape ()          bin, as above; [bin] when the values were numpy's scalars rather than arrays
Text, Unicode            array of n texts
Dict, Tuple              array of the columns of the parts, in the space's order
Dict, keys in another    map {order: array of the keys' places in the space, columns: as above}
order
Sequence                 array of n lanes [length, column of that many elements]
Graph                    array of n lanes [nodes, column] or [nodes, column, edges, column, edge_links]
OneOf                    array of n lanes [index, column of one value of that space]
Json                     array of n self-described values
any                      map {values: array of n self-described values}, when one has another form
======================== =================================================================================

A value that takes no bytes (an empty Box, a Dict or Tuple without parts) takes one zero byte, so that no
claim of a peer about a number of values is free. Texts and ``edge_links`` are self-described
(:mod:`.values`).

Exact form means the very type, dtype and shape; so what an environment returns is what the client gets. An
``OrderedDict`` arrives as a dict.

Observations: an array of another dtype that casts safely travels as it is, and so do scalars and Python
numbers where the shape is ``()``. An array of the same kind that would lose something (float64 for float32),
and a list, are cast with a warning. All else is refused. Values outside the bounds travel.

Actions: nothing is cast. Refused are a wrong shape, what the dtype of the space cannot hold (300 in uint8),
and what Gymnasium 1.4's ``Discrete`` does not contain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import spaces

from ..errors import ValueNotCarriedError
from .containers import GraphColumn, OneOfColumn, SequenceColumn
from .extensions import Code
from .lanes import Column
from .leaves import ArrayColumn, IntColumn, TextColumn
from .parts import DictColumn, TupleColumn
from .values import register

__all__ = ["Column", "column_codec", "register_column"]

_Maker = Callable[[Any, bool], Column]


def column_codec(space: Any, *, actions: bool = False) -> Column:
    """Return what writes and reads the values of ``space``.

    Args:
        space: One of Gymnasium's spaces, ours, or a subclass of one; do not change it afterwards.
        actions: Whether the values are actions rather than observations; see above for what differs.

    Raises:
        ValueNotCarriedError: A space in it does not travel.
    """
    for base in type(space).__mro__:
        maker = _MAKERS.get(base)
        if maker is not None:
            return _made(maker, space, actions)
    raise ValueNotCarriedError(
        f"values of {space} have no form on the wire; use Gymnasium's spaces, Unicode or Json", path="space"
    )


def register_column(cls: type, maker: _Maker) -> None:
    """Let values of spaces of class ``cls`` travel in the columns that ``maker(space, actions)`` returns."""
    _MAKERS[cls] = maker


def _made(maker: _Maker, space: Any, actions: bool) -> Column:
    try:
        return maker(space, actions)
    except ValueNotCarriedError:
        raise
    except ValueError as exc:
        raise ValueNotCarriedError(
            f"values of {space} have no form on the wire: {exc}", path="space"
        ) from exc


def _of_dict(space: Any, actions: bool) -> Column:
    parts = [(key, column_codec(sub, actions=actions)) for key, sub in space.spaces.items()]
    keys = list(space.spaces)
    if getattr(space, "sort_keys", True):  # as batch_space does, through the constructor of Dict
        try:
            keys = sorted(keys)
        except TypeError:
            keys = list(space.spaces)
    return DictColumn(space, actions, parts, keys)


def _of_tuple(space: Any, actions: bool) -> Column:
    parts = [(at, column_codec(sub, actions=actions)) for at, sub in enumerate(space.spaces)]
    return TupleColumn(space, actions, parts)


def _of_sequence(space: Any, actions: bool) -> Column:
    return SequenceColumn(space, actions, column_codec(space.feature_space, actions=actions))


def _of_graph(space: Any, actions: bool) -> Column:
    nodes = column_codec(space.node_space, actions=actions)
    edges = None if space.edge_space is None else column_codec(space.edge_space, actions=actions)
    return GraphColumn(space, actions, spaces.GraphInstance, nodes, edges)


def _of_one_of(space: Any, actions: bool) -> Column:
    return OneOfColumn(space, actions, [column_codec(sub, actions=actions) for sub in space.spaces])


def _graph_of(parts: list[Any]) -> spaces.GraphInstance:
    nodes, edges, links = parts
    return spaces.GraphInstance(nodes, edges, links)


_MAKERS: dict[type, _Maker] = {
    spaces.Box: ArrayColumn,
    spaces.MultiDiscrete: ArrayColumn,
    spaces.MultiBinary: lambda space, actions: ArrayColumn(space, actions, any_dtype=True),
    spaces.Discrete: IntColumn,
    spaces.Text: TextColumn,
    spaces.Dict: _of_dict,
    spaces.Tuple: _of_tuple,
    spaces.Sequence: _of_sequence,
    spaces.Graph: _of_graph,
    spaces.OneOf: _of_one_of,
}

register(spaces.GraphInstance, Code.GRAPH, tuple, _graph_of)
