"""Spaces as wire specs.

A spec is a map. ``type`` names the kind; the other fields are these:

================== ========================================================================================
``box``            ``dtype``, ``shape``, ``low``, ``high``; ``below``, ``above`` (bool items) where a finite
                   bound counts as none, or the other way round
``discrete``       ``n``, ``start`` (left out: 0), ``dtype`` (left out: ``<i8``)
``multi_binary``   ``n``: an int, or an array of lengths
``multi_discrete`` ``dtype``, ``shape``, ``nvec``, ``start``
``text``           ``min_length``, ``max_length``, ``charset``: its characters, in the order of sampling
``dict``           ``spaces``: array of [key, spec] in order; ``sort_keys`` (left out: true)
``tuple``          ``spaces``: array of specs
``one_of``         ``spaces``: array of specs
``sequence``       ``space``: spec of an element; ``stack``
``graph``          ``nodes``: spec of a node; ``edges``: spec of an edge, or nil
================== ========================================================================================

``low``, ``high``, ``below``, ``above``, ``nvec``, and ``start`` of arrays are bin: the items in C order, or
a single item when all have the same bytes. A dtype is called what :mod:`.arrays` calls it. Other kinds come
from :func:`register_space`. Limits stand in :mod:`.walks`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium import spaces

from .arrays import check_items, dtype_name, parse_dtype
from .values import pack, pack_text
from .walks import NODE_COST, SPEC_LIMIT, Walk, dump, from_spec, load, register_space, to_spec

__all__ = ["NODE_COST", "SPEC_LIMIT", "Walk", "from_spec", "register_space", "to_spec"]

_Space = gym.Space[Any]


class _Fields(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a spec."""


class _Box(_Fields):
    dtype: str
    shape: tuple[int, ...]
    low: bytes
    high: bytes
    below: bytes | None = None
    above: bytes | None = None


class _Discrete(_Fields):
    n: int
    start: int = 0
    dtype: str = "<i8"


class _MultiBinary(_Fields):
    n: int | list[int]


class _MultiDiscrete(_Fields):
    dtype: str
    shape: tuple[int, ...]
    nvec: bytes
    start: bytes


class _Text(_Fields):
    min_length: int
    max_length: int
    charset: str


class _Dict(_Fields):
    spaces: list[tuple[Any, Any]]
    sort_keys: bool = True


class _Spaces(_Fields):
    spaces: list[Any]


class _Sequence(_Fields):
    space: Any
    stack: bool


class _Graph(_Fields):
    nodes: Any
    edges: Any


def _size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the bytes of a value, checking a shape that may come from a peer."""
    if len(shape) > 32 or any(dim < 0 for dim in shape):
        raise ValueError(f"{shape[:33]} is no shape")
    return math.prod(shape) * dtype.itemsize


def _name(dtype: np.dtype[Any], kinds: str) -> str:
    name = dtype_name(dtype)
    if name is None or dtype.kind not in kinds:
        raise ValueError(f"dtype {dtype} has no form on the wire")
    return name


def _dtype(name: str, kinds: str) -> np.dtype[Any]:
    dtype = parse_dtype(name)
    if dtype.kind not in kinds:
        raise ValueError(f"a space of this kind has no dtype {name!r}")
    return dtype


def _raw(array: np.ndarray[Any, Any]) -> bytes:
    raw = array.tobytes()
    item = raw[: array.itemsize]
    return item if raw == item * array.size else raw


def _filled(raw: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    if len(raw) not in (count * dtype.itemsize, dtype.itemsize if count else 0):
        raise ValueError(f"{len(raw)} bytes are not {dtype} items of shape {shape}")
    items = np.frombuffer(raw, dtype)
    check_items(items)
    return np.full(shape, items[0], dtype) if len(items) != count else items.reshape(shape).copy()


def _dump_box(space: spaces.Box, walk: Walk) -> dict[str, Any]:
    walk.spend(_size(space.dtype, space.shape))
    fields = {"dtype": _name(space.dtype, "biuf"), "shape": list(space.shape)}
    fields |= {"low": _raw(space.low), "high": _raw(space.high)}
    if not np.array_equal(space.bounded_below, -np.inf < space.low):
        fields["below"] = _raw(space.bounded_below)
    if not np.array_equal(space.bounded_above, space.high < np.inf):
        fields["above"] = _raw(space.bounded_above)
    return fields


def _load_box(fields: _Box, walk: Walk) -> _Space:
    dtype, shape = _dtype(fields.dtype, "biuf"), fields.shape
    walk.spend(_size(dtype, shape))
    low, high = _filled(fields.low, dtype, shape), _filled(fields.high, dtype, shape)
    space: Any = spaces.Box(low, high, shape, dtype)
    flag = np.dtype(bool)
    if fields.below is not None:
        space.bounded_below = _filled(fields.below, flag, shape)
    if fields.above is not None:
        space.bounded_above = _filled(fields.above, flag, shape)
    return space  # type: ignore[no-any-return]


def _dump_discrete(space: spaces.Discrete, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    fields: dict[str, Any] = {"n": int(space.n)}
    if space.start:
        fields["start"] = int(space.start)
    if space.dtype.str != "<i8":
        fields["dtype"] = _name(space.dtype, "iu")
    return fields


def _load_discrete(fields: _Discrete, walk: Walk) -> _Space:
    walk.spend(0)
    dtype = _dtype(fields.dtype, "iu")
    info = np.iinfo(dtype)
    if not 0 < fields.n <= info.max or not info.min <= fields.start <= info.max:
        raise ValueError(f"{fields.n} from {fields.start} on does not fit {dtype}")
    if dtype.str == "<i8":
        return spaces.Discrete(fields.n, start=fields.start)
    return spaces.Discrete(fields.n, start=fields.start, dtype=dtype)


def _dump_multi_binary(space: spaces.MultiBinary, walk: Walk) -> dict[str, Any]:
    walk.spend(_size(np.dtype(np.int8), space.shape))
    return {"n": list(space.shape) if isinstance(space.n, tuple) else int(space.n)}


def _load_multi_binary(fields: _MultiBinary, walk: Walk) -> _Space:
    n = fields.n
    shape = (n,) if isinstance(n, int) else tuple(n)
    walk.spend(_size(np.dtype(np.int8), shape))
    return spaces.MultiBinary(n)


def _dump_multi_discrete(space: spaces.MultiDiscrete, walk: Walk) -> dict[str, Any]:
    walk.spend(_size(space.dtype, space.shape))
    fields = {"dtype": _name(space.dtype, "iu"), "shape": list(space.shape)}
    return fields | {"nvec": _raw(space.nvec), "start": _raw(space.start)}


def _load_multi_discrete(fields: _MultiDiscrete, walk: Walk) -> _Space:
    dtype, shape = _dtype(fields.dtype, "iu"), fields.shape
    walk.spend(_size(dtype, shape))
    nvec, start = _filled(fields.nvec, dtype, shape), _filled(fields.start, dtype, shape)
    return spaces.MultiDiscrete(nvec, dtype=dtype, start=start)


def _dump_text(space: spaces.Text, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    if any(len(char) != 1 for char in space.character_list):
        raise ValueError("its charset has elements that are not single characters")
    charset = pack_text("".join(space.character_list))
    return {"min_length": space.min_length, "max_length": space.max_length, "charset": charset}


def _load_text(fields: _Text, walk: Walk) -> _Space:
    walk.spend(len(fields.charset))
    return spaces.Text(fields.max_length, min_length=fields.min_length, charset=fields.charset)


def _dump_dict(space: spaces.Dict, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    pairs = []
    for key, sub in space.spaces.items():
        below = walk.below(f"[{key!r}]")
        pairs.append([pack(key, f"the key of {below.path}"), dump(sub, below)])
    fields: dict[str, Any] = {"spaces": pairs}
    if not getattr(space, "sort_keys", True):
        fields["sort_keys"] = False
    return fields


def _load_dict(fields: _Dict, walk: Walk) -> _Space:
    walk.spend(0)
    subs = OrderedDict((key, load(spec, walk.below(f"[{key!r}]"))) for key, spec in fields.spaces)
    if len(subs) < len(fields.spaces):
        raise ValueError("a key comes twice")
    space = spaces.Dict(subs)
    if not fields.sort_keys:
        space.sort_keys = False
    return space


def _dump_many(space: Any, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    return {"spaces": [dump(sub, walk.below(f"[{at}]")) for at, sub in enumerate(space.spaces)]}


def _load_many(fields: _Spaces, walk: Walk) -> list[_Space]:
    walk.spend(0)
    return [load(spec, walk.below(f"[{at}]")) for at, spec in enumerate(fields.spaces)]


def _dump_sequence(space: spaces.Sequence, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    below = walk.below("[...]", copied=space.stack)
    return {"space": dump(space.feature_space, below), "stack": bool(space.stack)}


def _load_sequence(fields: _Sequence, walk: Walk) -> _Space:
    walk.spend(0)
    feature = load(fields.space, walk.below("[...]", copied=fields.stack))
    return spaces.Sequence(feature, stack=fields.stack)


def _dump_graph(space: spaces.Graph, walk: Walk) -> dict[str, Any]:
    walk.spend(0)
    nodes = dump(space.node_space, walk.below(".nodes", copied=True))
    if space.edge_space is None:
        return {"nodes": nodes, "edges": None}
    return {"nodes": nodes, "edges": dump(space.edge_space, walk.below(".edges", copied=True))}


def _load_graph(fields: _Graph, walk: Walk) -> _Space:
    walk.spend(0)
    nodes = load(fields.nodes, walk.below(".nodes", copied=True))
    if fields.edges is None:
        return spaces.Graph(nodes, None)
    return spaces.Graph(nodes, load(fields.edges, walk.below(".edges", copied=True)))


register_space(spaces.Box, "box", _Box, _dump_box, _load_box)
register_space(spaces.Discrete, "discrete", _Discrete, _dump_discrete, _load_discrete)
register_space(spaces.MultiBinary, "multi_binary", _MultiBinary, _dump_multi_binary, _load_multi_binary)
register_space(
    spaces.MultiDiscrete, "multi_discrete", _MultiDiscrete, _dump_multi_discrete, _load_multi_discrete
)
register_space(spaces.Text, "text", _Text, _dump_text, _load_text)
register_space(spaces.Dict, "dict", _Dict, _dump_dict, _load_dict)
register_space(
    spaces.Tuple, "tuple", _Spaces, _dump_many, lambda fields, walk: spaces.Tuple(_load_many(fields, walk))
)
register_space(
    spaces.OneOf, "one_of", _Spaces, _dump_many, lambda fields, walk: spaces.OneOf(_load_many(fields, walk))
)
register_space(spaces.Sequence, "sequence", _Sequence, _dump_sequence, _load_sequence)
register_space(spaces.Graph, "graph", _Graph, _dump_graph, _load_graph)
