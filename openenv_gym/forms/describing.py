"""Spaces as JSON, for people and tools in any language.

The form of a space is an object whose ``type`` names it:

=============== ==========================================================================================
type            further members
=============== ==========================================================================================
Box             ``dtype``, ``shape``, ``low``, ``high`` (one number, or nested lists when they differ)
Discrete        ``n``, ``start``, ``dtype``
MultiBinary     ``shape``
MultiDiscrete   ``nvec``, ``start`` (nested lists), ``dtype``
Text            ``min_length``, ``max_length``, ``charset`` (one string)
Unicode         ``min_length``, ``max_length``
Json            ``schema`` (or null)
Dict            ``spaces`` (object, in order)
Tuple, OneOf    ``spaces`` (list)
Sequence        ``space``, ``stack``
Graph           ``node_space``, ``edge_space`` (or null)
=============== ==========================================================================================

The JSON Schema of a space describes its values in this spelling: arrays as nested lists, numbers as numbers
with ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` where JSON has none, tuples as lists; a OneOf value as
``[index, value]``; a Graph as ``{"nodes", "edges", "edge_links"}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces as gs

from ..spaces import Json, Unicode
from ..structs.kinds import NOT_FINITE
from ..structs.maps import jsonable
from ..structs.schemas import fixed

__all__ = ["space_form", "space_schema"]


# -- forms


def space_form(space: gs.Space[Any]) -> dict[str, Any]:
    """Return ``space`` as a JSON object."""
    for kind, members in _FORMS.items():
        if isinstance(space, kind):
            return {"type": kind.__name__, **members(space)}
    return {"type": type(space).__name__, "repr": repr(space)}


def _box(space: gs.Box) -> dict[str, Any]:
    def bound(array: Any) -> Any:
        same = array.size > 0 and bool((array == array.flat[0]).all())
        return jsonable(array.flat[0] if same else array, "bounds")

    return {
        "dtype": str(space.dtype),
        "shape": list(space.shape),
        "low": bound(space.low),
        "high": bound(space.high),
    }


_FORMS: dict[type, Callable[[Any], dict[str, Any]]] = {
    gs.Box: _box,
    gs.Discrete: lambda s: {"n": int(s.n), "start": int(s.start), "dtype": str(s.dtype)},
    gs.MultiBinary: lambda s: {"shape": list(s.shape)},
    gs.MultiDiscrete: lambda s: {
        "nvec": s.nvec.tolist(),
        "start": s.start.tolist(),
        "dtype": str(s.dtype),
    },
    gs.Text: lambda s: {
        "min_length": s.min_length,
        "max_length": s.max_length,
        "charset": "".join(s.character_list),
    },
    Unicode: lambda s: {"min_length": s.min_length, "max_length": s.max_length},
    Json: lambda s: {"schema": s.schema},
    gs.Dict: lambda s: {"spaces": {str(key): space_form(item) for key, item in s.spaces.items()}},
    gs.Tuple: lambda s: {"spaces": [space_form(item) for item in s.spaces]},
    gs.OneOf: lambda s: {"spaces": [space_form(item) for item in s.spaces]},
    gs.Sequence: lambda s: {"space": space_form(s.feature_space), "stack": bool(s.stack)},
    gs.Graph: lambda s: {
        "node_space": space_form(s.node_space),
        "edge_space": None if s.edge_space is None else space_form(s.edge_space),
    },
}


# -- JSON Schemas of values


def space_schema(space: gs.Space[Any]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the values of ``space``."""
    for kind, schema in _SCHEMAS.items():
        if isinstance(space, kind):
            return schema(space)
    return {}


def _nested(shape: tuple[int, ...], item: dict[str, Any]) -> dict[str, Any]:
    for size in reversed(shape):
        item = {"type": "array", "items": item, "minItems": size, "maxItems": size}
    return item


def _box_schema(space: gs.Box) -> dict[str, Any]:
    if np.dtype(space.dtype).kind == "b":
        return _nested(space.shape, {"type": "boolean"})
    whole = np.dtype(space.dtype).kind in "iu"
    item: dict[str, Any] = {"type": "integer" if whole else "number"}
    if space.low.size:
        low, high = jsonable(space.low.min(), "low"), jsonable(space.high.max(), "high")
        if not isinstance(low, str):
            item["minimum"] = low
        if not isinstance(high, str):
            item["maximum"] = high
        if isinstance(low, str) or isinstance(high, str):
            item = {"anyOf": [item, {"enum": list(NOT_FINITE)}]}
    return _nested(space.shape, item)


def _multi_discrete_schema(space: gs.MultiDiscrete) -> dict[str, Any]:
    low, high = int(space.start.min()), int((space.start + space.nvec).max()) - 1
    return _nested(space.nvec.shape, {"type": "integer", "minimum": low, "maximum": high})


def _dict_schema(space: gs.Dict) -> dict[str, Any]:
    members = {str(key): space_schema(item) for key, item in space.spaces.items()}
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _graph_schema(space: gs.Graph) -> dict[str, Any]:
    edges: dict[str, Any] = {"type": "null"}
    if space.edge_space is not None:
        edges = {"anyOf": [{"type": "array", "items": space_schema(space.edge_space)}, edges]}
    links = {"type": "array", "items": _nested((2,), {"type": "integer", "minimum": 0})}
    members = {
        "nodes": {"type": "array", "items": space_schema(space.node_space)},
        "edges": edges,
        "edge_links": {"anyOf": [links, {"type": "null"}]},
    }
    return {"type": "object", "properties": members, "required": list(members)}


def _text_schema(space: Any) -> dict[str, Any]:
    return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length}


_SCHEMAS: dict[type, Callable[[Any], dict[str, Any]]] = {
    gs.Box: _box_schema,
    gs.Discrete: lambda s: {
        "type": "integer",
        "minimum": int(s.start),
        "maximum": int(s.start) + int(s.n) - 1,
    },
    gs.MultiBinary: lambda s: _nested(s.shape, {"enum": [0, 1]}),
    gs.MultiDiscrete: _multi_discrete_schema,
    gs.Text: _text_schema,
    Unicode: _text_schema,
    Json: lambda s: dict(s.schema or {}),
    gs.Dict: _dict_schema,
    gs.Tuple: lambda s: fixed([space_schema(item) for item in s.spaces]),
    gs.OneOf: lambda s: {
        "oneOf": [fixed([{"const": index}, space_schema(item)]) for index, item in enumerate(s.spaces)]
    },
    gs.Sequence: lambda s: {"type": "array", "items": space_schema(s.feature_space)},
    gs.Graph: _graph_schema,
}
