"""Values of spaces, read from JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium import spaces as gs
from gymnasium.vector.utils import concatenate, create_empty_array

from ..errors import ConfigError, ValidationError
from ..models import Array
from ..spaces import Json, Unicode
from ..structs.arrays import numpy_array
from ..structs.kinds import Numpy
from .containers import chosen
from .parts import number_of, wrong

__all__ = ["value_from_json"]


def value_from_json(space: Space[Any], data: Any, *, where: str = "$") -> Any:
    """Return the value of ``space`` that ``data`` spells, as :func:`.space_schema` describes it.

    Arrays may be arrays already. NaN is accepted where there are no bounds.

    Args:
        space: One of Gymnasium's, ``Unicode`` or ``Json``.
        data: A JSON value.
        where: What errors call ``data``.

    Raises:
        ValidationError: It spells none. ``details["path"]`` names the part that is wrong.
        ConfigError: ``space`` is of another class.
    """
    for kind, read in _READERS.items():
        if isinstance(space, kind):
            return read(space, data, where)
    raise ConfigError(f"{where}: values of {type(space).__name__} are not read from JSON")


def _array(data: Any, dtype: Any, shape: tuple[int, ...], path: str) -> Any:
    array = numpy_array(Numpy(Array(np.dtype(dtype).str, shape)), data, path)
    if not isinstance(array, np.ndarray):
        raise wrong(path, f"an array of {dtype}, shape {shape}", data)
    return array


def _box(space: gs.Box, data: Any, path: str) -> Any:
    array = _array(data, space.dtype, space.shape, path)
    fine = (array >= space.low) & (array <= space.high)
    if array.dtype.kind == "f":
        fine |= np.isnan(array) & ~space.bounded_below & ~space.bounded_above
    if not fine.all():
        raise wrong(path, f"numbers in the bounds of {space}", data)
    return array


def _discrete(space: gs.Discrete, data: Any, path: str) -> Any:
    number, last = number_of(data), int(space.start) + int(space.n) - 1
    if type(number) is not int or not int(space.start) <= number <= last:
        raise wrong(path, f"an int from {int(space.start)} to {last}", data)
    return space.dtype.type(number)


def _multi_binary(space: gs.MultiBinary, data: Any, path: str) -> Any:
    array = _array(data, space.dtype, space.shape, path)
    if not np.isin(array, (0, 1)).all():
        raise wrong(path, "zeros and ones", data)
    return array


def _multi_discrete(space: gs.MultiDiscrete, data: Any, path: str) -> Any:
    array = _array(data, space.dtype, space.shape, path)
    if not ((array >= space.start) & (array - space.start < space.nvec)).all():
        raise wrong(path, f"ints of {space}", data)
    return array


def _contained(space: Space[Any], data: Any, path: str) -> Any:
    if not space.contains(data):
        raise wrong(path, f"a value of {str(space)[:200]}", data)
    return data


def _dict(space: gs.Dict, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise wrong(path, "an object", data)
    names = {str(key) for key in space.spaces}
    for name in data:
        if str(name) not in names:
            place = f"{path}.{name}"
            known = ", ".join(sorted(names))
            raise ValidationError(f"{place}: there is no such field; the fields are {known}", path=place)
    return {key: _member(item, data, key, path) for key, item in space.spaces.items()}


def _member(space: Space[Any], data: dict[Any, Any], key: Any, path: str) -> Any:
    place = f"{path}.{key}"
    found = [data[name] for name in (key, str(key)) if name in data]
    if not found:
        raise ValidationError(f"{place}: missing; it is required", path=place)
    return value_from_json(space, found[0], where=place)


def _tuple(space: Any, data: Any, path: str) -> Any:
    if not isinstance(data, list | tuple) or len(data) != len(space.spaces):
        raise wrong(path, f"an array of {len(space.spaces)} items", data)
    pairs = enumerate(zip(space.spaces, data, strict=True))
    return tuple(value_from_json(item, one, where=f"{path}[{at}]") for at, (item, one) in pairs)


def _one_of(space: Any, data: Any, path: str) -> Any:
    index, inner = chosen(data, len(space.spaces), path)
    return np.int64(index), value_from_json(space.spaces[index], inner, where=f"{path}[1]")


def _sequence(space: gs.Sequence, data: Any, path: str) -> Any:
    if not isinstance(data, list | tuple | np.ndarray):
        raise wrong(path, "an array", data)
    feature = space.feature_space
    items = tuple(value_from_json(feature, one, where=f"{path}[{at}]") for at, one in enumerate(data))
    if not space.stack:
        return items
    out: Any = create_empty_array(feature, len(items))
    return concatenate(feature, items, out) if items else out


def _graph(space: gs.Graph, data: Any, path: str) -> Any:
    if isinstance(data, gs.GraphInstance):
        data = data._asdict()
    if not isinstance(data, dict) or set(data) != {"nodes", "edges", "edge_links"}:
        raise wrong(path, "an object with nodes, edges and edge_links", data)
    nodes = _graph_items(space.node_space, data["nodes"], f"{path}.nodes")
    if data["edges"] is None and data["edge_links"] is None:
        return gs.GraphInstance(nodes, None, None)
    if space.edge_space is None:
        raise wrong(f"{path}.edges", "null: there is no space of edges", data["edges"])
    edges = _graph_items(space.edge_space, data["edges"], f"{path}.edges")
    links = _array(data["edge_links"], _links_dtype(data["edge_links"]), (-1, 2), f"{path}.edge_links")
    if len(links) != len(edges) or (links.size and not 0 <= links.min() <= links.max() < len(nodes)):
        raise wrong(
            f"{path}.edge_links", f"{len(edges)} pairs of nodes below {len(nodes)}", data["edge_links"]
        )
    return gs.GraphInstance(nodes, edges, links)


def _links_dtype(links: Any) -> Any:
    """Return the dtype that links have, or that of Gymnasium's samples."""
    known = isinstance(links, np.ndarray) and links.dtype.kind in "iu"
    return links.dtype if known else np.int32


def _graph_items(space: Any, data: Any, path: str) -> Any:
    if not isinstance(data, list | tuple | np.ndarray):
        raise wrong(path, "an array", data)
    items = [value_from_json(space, one, where=f"{path}[{at}]") for at, one in enumerate(data)]
    return np.array(items, space.dtype).reshape(len(items), *space.shape)


_READERS: dict[type, Callable[[Any, Any, str], Any]] = {
    gs.Box: _box,
    gs.Discrete: _discrete,
    gs.MultiBinary: _multi_binary,
    gs.MultiDiscrete: _multi_discrete,
    gs.Text: _contained,
    Unicode: _contained,
    Json: _contained,
    gs.Dict: _dict,
    gs.Tuple: _tuple,
    gs.OneOf: _one_of,
    gs.Sequence: _sequence,
    gs.Graph: _graph,
}
