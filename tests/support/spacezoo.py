"""One space of every kind, unusual ones included, by name."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from gymnasium import spaces

from openenv_gym.spaces import Json, Unicode

__all__ = ["SPACES", "space"]

_F32 = np.finfo(np.float32)


def _box(dtype: Any, low: Any, high: Any, shape: tuple[int, ...] = (3,)) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype=dtype)


def _int_box(dtype: Any, shape: tuple[int, ...] = (2, 3)) -> spaces.Box:
    limits = np.iinfo(dtype)
    return spaces.Box(limits.min, limits.max, shape, dtype=dtype)


def _per_element() -> spaces.Box:
    low = np.array([-np.inf, -4.8000002, 0.0, -np.inf], np.float32)
    high = np.array([np.inf, 4.8000002, np.inf, -1.0], np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def _graph(edges: bool = True) -> spaces.Graph:
    node = spaces.Box(-1.0, 1.0, (3,), np.float32)
    return spaces.Graph(node, spaces.Discrete(4) if edges else None)


def _nested() -> spaces.Dict:
    return spaces.Dict(
        {
            "camera": _int_box(np.uint8, (4, 5, 3)),
            "body": spaces.Tuple(
                (
                    _box(np.float64, -np.inf, np.inf, ()),
                    spaces.Dict({"gear": spaces.Discrete(5, start=-2), "flags": spaces.MultiBinary([2, 3])}),
                )
            ),
            "log": spaces.Sequence(spaces.Text(6, charset="ab-é")),
            "choice": spaces.OneOf((spaces.Discrete(3), spaces.Tuple((_graph(), spaces.MultiBinary(2))))),
        }
    )


#: ``{name: maker}``; every call makes a new space.
SPACES: dict[str, Callable[[], spaces.Space[Any]]] = {
    "box_float16": lambda: _box(np.float16, -1.0, 1.0),
    "box_float32": lambda: _box(np.float32, _F32.min, _F32.max),
    "box_float64": lambda: _box(np.float64, -1e300, 1e300),
    "box_int8": lambda: _int_box(np.int8),
    "box_int64": lambda: spaces.Box(-(2**62), 2**62, (2,), np.int64),
    "box_uint16": lambda: _int_box(np.uint16),
    "box_uint64": lambda: spaces.Box(0, np.iinfo(np.uint64).max, (2,), np.uint64),
    "box_bool": lambda: spaces.Box(0, 1, (3,), np.bool_),
    "box_scalar": lambda: _box(np.float32, -1.0, 1.0, ()),
    "box_empty": lambda: _box(np.float32, -1.0, 1.0, (0, 3)),
    "box_infinite": lambda: _box(np.float64, -np.inf, np.inf),
    "box_per_element": _per_element,
    "discrete": lambda: spaces.Discrete(7),
    "discrete_start": lambda: spaces.Discrete(5, start=-3),
    "multi_binary": lambda: spaces.MultiBinary(5),
    "multi_binary_2d": lambda: spaces.MultiBinary([2, 3]),
    "multi_discrete": lambda: spaces.MultiDiscrete([3, 4, 5]),
    "multi_discrete_2d": lambda: spaces.MultiDiscrete(np.array([[3, 4], [5, 6]])),
    "multi_discrete_start": lambda: spaces.MultiDiscrete([3, 4], dtype=np.int32, start=[-1, 7]),
    "text": lambda: spaces.Text(12, min_length=0, charset="abcXYZ 0é漢😀"),
    "dict": lambda: spaces.Dict({"b": spaces.Discrete(2), "a": _box(np.float32, 0.0, 1.0)}),
    "dict_empty": lambda: spaces.Dict({}),
    "tuple": lambda: spaces.Tuple((spaces.Discrete(2), _box(np.float64, 0.0, 1.0), spaces.MultiBinary(3))),
    "tuple_empty": lambda: spaces.Tuple(()),
    "sequence": lambda: spaces.Sequence(_box(np.float32, 0.0, 1.0, (2,))),
    "sequence_stacked": lambda: spaces.Sequence(_box(np.int16, -9, 9, (2,)), stack=True),
    "sequence_nested": lambda: spaces.Sequence(spaces.Sequence(spaces.Discrete(9))),
    "graph": _graph,
    "graph_no_edges": lambda: _graph(edges=False),
    "one_of": lambda: spaces.OneOf((spaces.Discrete(3), _box(np.float32, -1.0, 1.0))),
    "unicode": lambda: Unicode(40),
    "json": Json,
    "nested": _nested,
}
if "dtype" in signature(spaces.Discrete).parameters:  # from Gymnasium 1.3 on
    SPACES["discrete_uint8"] = lambda: spaces.Discrete(200, dtype=np.uint8)


def space(kind: str) -> spaces.Space[Any]:
    """Return a new space of ``kind``, a key of :data:`SPACES`."""
    return SPACES[kind]()
