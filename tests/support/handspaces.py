"""Spaces and columns of openenv.msgpack.v1, written from docs/protocol.md alone; see :mod:`.handwritten`.

Columns are written and read by the wire spec, as a client without Gymnasium would have to do it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

from .handwritten import from_tree, to_tree

__all__ = ["read_column", "spec_of", "write_column"]

_Spec = dict[str, Any]


# -- specs


def spec_of(space: Any) -> _Spec:
    """Return the spec of one of Gymnasium's spaces, or ours, as a tree."""
    name = type(space).__name__
    return {"type": _KINDS[name], **_FIELDS[name](space)}


def _once(array: Any) -> bytes:
    data: bytes = array.tobytes()
    item = data[: array.itemsize]
    return item if item * array.size == data else data


def _box(space: Any) -> _Spec:
    fields = {"dtype": space.dtype.str, "shape": list(space.shape)}
    fields |= {"low": _once(space.low), "high": _once(space.high)}
    if (space.bounded_below != (space.low > -np.inf)).any():
        fields["below"] = _once(space.bounded_below)
    if (space.bounded_above != (space.high < np.inf)).any():
        fields["above"] = _once(space.bounded_above)
    return fields


def _discrete(space: Any) -> _Spec:
    fields: _Spec = {"n": int(space.n)}
    if space.start != 0:
        fields["start"] = int(space.start)
    if space.dtype.str != "<i8":
        fields["dtype"] = space.dtype.str
    return fields


def _multi_discrete(space: Any) -> _Spec:
    fields = {"dtype": space.dtype.str, "shape": list(space.shape)}
    return fields | {"nvec": _once(space.nvec), "start": _once(space.start)}


def _dict(space: Any) -> _Spec:
    fields: _Spec = {"spaces": [[to_tree(key), spec_of(sub)] for key, sub in space.spaces.items()]}
    return fields if getattr(space, "sort_keys", True) else {**fields, "sort_keys": False}


def _many(space: Any) -> _Spec:
    return {"spaces": list(map(spec_of, space.spaces))}


_KINDS = {
    "Box": "box",
    "Discrete": "discrete",
    "MultiBinary": "multi_binary",
    "MultiDiscrete": "multi_discrete",
    "Text": "text",
    "Dict": "dict",
    "Tuple": "tuple",
    "OneOf": "one_of",
    "Sequence": "sequence",
    "Graph": "graph",
    "Unicode": "unicode",
    "Json": "json",
}
_FIELDS: dict[str, Any] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiBinary": lambda space: {"n": list(space.shape) if isinstance(space.n, tuple) else int(space.n)},
    "MultiDiscrete": _multi_discrete,
    "Text": lambda space: {
        "min_length": space.min_length,
        "max_length": space.max_length,
        "charset": to_tree("".join(space.character_list)),
    },
    "Dict": _dict,
    "Tuple": _many,
    "OneOf": _many,
    "Sequence": lambda space: {"space": spec_of(space.feature_space), "stack": space.stack},
    "Graph": lambda space: {
        "nodes": spec_of(space.node_space),
        "edges": None if space.edge_space is None else spec_of(space.edge_space),
    },
    "Unicode": lambda space: {"max_length": space.max_length, "min_length": space.min_length},
    "Json": lambda space: {"schema": to_tree(space.schema)},
}


def _item(spec: _Spec) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of the values of a space of numbers."""
    match spec["type"]:
        case "discrete":
            return np.dtype(spec.get("dtype", "<i8")).newbyteorder("<"), ()
        case "multi_binary":
            n = spec["n"]
            return np.dtype("|i1"), tuple(n) if isinstance(n, list) else (n,)
    return np.dtype(spec["dtype"]), tuple(spec["shape"])


_NUMBERS = ("box", "discrete", "multi_binary", "multi_discrete")


# -- writing columns


def write_column(spec: _Spec, values: list[Any]) -> Any:
    """Return the column of values that an observation or an action may have, as a tree."""
    column = _exact(spec, values)
    return {"values": list(map(to_tree, values))} if column is None else column


def _exact(spec: _Spec, values: list[Any]) -> Any:
    """Return the raw column, or ``None`` when a value has not exactly the space's form."""
    kind = spec["type"]
    if kind in _NUMBERS:
        return _numbers(spec, values)
    if kind in ("text", "unicode"):
        return list(map(to_tree, values)) if all(type(value) is str for value in values) else None
    if kind == "json":
        return list(map(to_tree, values))
    if kind in ("dict", "tuple"):
        return _parts(spec, values)
    lane = {"sequence": _sequence, "graph": _graph, "one_of": _one_of}[kind]
    lanes = [lane(spec, value) for value in values]
    return None if None in lanes else lanes


def _numbers(spec: _Spec, values: list[Any]) -> Any:
    dtype, shape = _item(spec)
    scalar = spec["type"] == "discrete"
    if scalar and values and all(type(value) is int for value in values):
        return [np.array(values, dtype).tobytes()]
    if shape == () and values and all(type(value) is dtype.type for value in values):
        data = np.array(values, dtype).tobytes()
        return data if scalar else [data]
    if not values:
        return b""
    exact = not scalar and all(
        type(value) is np.ndarray and value.dtype == dtype and value.shape == shape for value in values
    )
    if not exact:
        return None
    return b"".join(value.tobytes() for value in values) or bytes(len(values))


def _parts(spec: _Spec, values: list[Any]) -> Any:
    """Return the columns of the parts of a Dict or a Tuple."""
    named = spec["type"] == "dict"
    keys = [from_tree(key) for key, _ in spec["spaces"]] if named else list(range(len(spec["spaces"])))
    subs = [sub for _, sub in spec["spaces"]] if named else spec["spaces"]
    order = list(values[0]) if named and values and type(values[0]) is dict else keys
    for value in values:
        if type(value) is not (dict if named else tuple) or len(value) != len(keys):
            return None
        if named and (list(value) != order or set(order) != set(keys)):
            return None
    if not keys:
        return bytes(len(values))
    columns = [
        write_column(sub, [value[key] for value in values]) for key, sub in zip(keys, subs, strict=True)
    ]
    return columns if order == keys else {"order": list(map(keys.index, order)), "columns": columns}


def _sequence(spec: _Spec, value: Any) -> Any:
    element = spec["space"]
    if not spec["stack"]:
        return [len(value), write_column(element, list(value))] if type(value) is tuple else None
    batch = _batch(element, value)
    return None if batch is None else list(batch)


def _graph(spec: _Spec, value: Any) -> Any:
    if type(value) is not GraphInstance:
        return None
    nodes = _batch(spec["nodes"], value.nodes)
    if nodes is None or (value.edges is None and value.edge_links is None):
        return None if nodes is None else list(nodes)
    edges = _batch(spec["edges"], value.edges)
    return None if edges is None else [*nodes, *edges, to_tree(value.edge_links)]


def _one_of(spec: _Spec, value: Any) -> Any:
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not np.int64:
        return None
    index = int(value[0])
    return [index, write_column(spec["spaces"][index], [value[1]])]


def _batch(spec: _Spec, batch: Any) -> tuple[int, Any] | None:
    """Return size and column of a batch as Gymnasium stacks values; ``None``: it is in no exact form."""
    kind = spec["type"]
    if kind in _NUMBERS:
        dtype, shape = _item(spec)
        if type(batch) is not np.ndarray or batch.dtype != dtype or batch.shape[1:] != shape:
            return None
        return len(batch), batch.tobytes() or bytes(len(batch))
    if kind in ("dict", "tuple"):
        return _batched_parts(spec, batch)
    return (len(batch), write_column(spec, list(batch))) if type(batch) is tuple else None


def _batched_parts(spec: _Spec, batch: Any) -> tuple[int, Any] | None:
    named = spec["type"] == "dict"
    keys = [from_tree(key) for key, _ in spec["spaces"]] if named else range(len(spec["spaces"]))
    subs = [sub for _, sub in spec["spaces"]] if named else spec["spaces"]
    if named and (type(batch) is not dict or list(batch) != keys):
        return None
    parts = [_batch(sub, batch[key]) for key, sub in zip(keys, subs, strict=True)]
    sizes = {None if part is None else part[0] for part in parts}
    if len(sizes) != 1 or None in sizes:
        return None
    return sizes.pop() or 0, [part[1] for part in parts if part is not None]


# -- reading columns


def read_column(spec: _Spec, column: Any, n: int) -> list[Any]:
    """Return the ``n`` values in a column, which is a tree."""
    if isinstance(column, dict) and "values" in column:
        return list(map(from_tree, column["values"]))
    kind = spec["type"]
    if kind in _NUMBERS:
        return _read_numbers(spec, column, n)
    if kind in ("text", "unicode", "json"):
        return list(map(from_tree, column))
    if kind in ("dict", "tuple"):
        return _read_parts(spec, column, n)
    return [_READERS[kind](spec, *lane) for lane in column]


def _read_numbers(spec: _Spec, column: Any, n: int) -> list[Any]:
    wrapped = isinstance(column, list)
    rows = _rows(spec, column[0] if wrapped else column, n)
    if spec["type"] == "discrete":
        return list(rows.tolist()) if wrapped else list(rows)
    return list(rows) if wrapped else [rows[at, ...].copy() for at in range(n)]


def _rows(spec: _Spec, data: bytes, n: int) -> np.ndarray[Any, Any]:
    dtype, shape = _item(spec)
    size = math.prod(shape) * dtype.itemsize
    if len(data) != n * (size or 1):
        raise ValueError(f"{len(data)} bytes for {n} values of {size}")
    return np.frombuffer(data, dtype).reshape((n, *shape)) if size else np.empty((n, *shape), dtype)


def _read_parts(spec: _Spec, column: Any, n: int) -> list[Any]:
    if spec["type"] == "tuple":
        columns = [read_column(sub, part, n) for sub, part in zip(spec["spaces"], column, strict=False)]
        return [tuple(part[at] for part in columns) for at in range(n)]
    keys = [from_tree(key) for key, _ in spec["spaces"]]
    order = range(len(keys))
    if isinstance(column, dict):
        order, column = column["order"], column["columns"]
    names = [keys[at] for at in order]
    by_key = {
        key: read_column(sub, part, n)
        for key, (_, sub), part in zip(keys, spec["spaces"], column, strict=False)
    }
    return [{key: by_key[key][at] for key in names} for at in range(n)]


def _read_sequence(spec: _Spec, size: int, column: Any) -> Any:
    if spec["stack"]:
        return _read_batch(spec["space"], column, size)
    return tuple(read_column(spec["space"], column, size))


def _read_graph(spec: _Spec, size: int, nodes: Any, *edges: Any) -> GraphInstance:
    read = _read_batch(spec["nodes"], nodes, size)
    if not edges:
        return GraphInstance(read, None, None)
    count, column, links = edges
    return GraphInstance(read, _read_batch(spec["edges"], column, count), from_tree(links))


def _read_one_of(spec: _Spec, index: int, column: Any) -> tuple[Any, Any]:
    return np.int64(index), read_column(spec["spaces"][index], column, 1)[0]


def _read_batch(spec: _Spec, column: Any, n: int) -> Any:
    kind = spec["type"]
    if kind in _NUMBERS:
        return _rows(spec, column, n)
    if kind == "tuple":
        return tuple(_read_batch(sub, part, n) for sub, part in zip(spec["spaces"], column, strict=True))
    if kind == "dict":
        pairs = zip(spec["spaces"], column, strict=True)
        return {from_tree(key): _read_batch(sub, part, n) for (key, sub), part in pairs}
    return tuple(read_column(spec, column, n))


_READERS = {"sequence": _read_sequence, "graph": _read_graph, "one_of": _read_one_of}
