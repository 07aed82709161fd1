"""Columns of spaces with a varying number of parts: ``Sequence``, ``Graph``, ``OneOf``."""
# ruff: noqa: D102 - Column says what the methods do

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidActionError, ValueNotCarriedError
from .lanes import Batch, Column, Path, Warn
from .parts import like
from .values import pack

__all__ = ["GraphColumn", "OneOfColumn", "SequenceColumn"]

_REFUSALS = (ValueNotCarriedError, InvalidActionError)


class SequenceColumn(Column):
    """Raw: for each lane [number of elements, their column]; stacked elements are a batch."""

    def __init__(self, space: Any, actions: bool, element: Column) -> None:
        super().__init__(space, actions)
        self._element = element
        self._stack: bool = space.stack

    def exact(self, values: Sequence[Any]) -> Any:
        return None  # write() asks the elements

    def write(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        lanes = []
        for value in values:
            lane = self._stacked(value) if self._stack else self._unstacked(value, path, warn)
            if lane is None or lane[0] is None:
                return self.general(values, path, warn)
            lanes.append(list(lane))
        return lanes

    def _stacked(self, value: Any) -> Batch | None:
        try:
            return self._element.write_batch(value, "", None)
        except _REFUSALS:
            return None  # general() says what is wrong, or casts

    def _unstacked(self, value: Any, path: Path, warn: Warn | None) -> Batch | None:
        if type(value) is not tuple:
            return None
        try:
            return len(value), self._element.write(value, (path, ...), warn)
        except _REFUSALS:
            for at, part in enumerate(value):
                self._element.write([part], (path, at), warn)
            raise

    def read_exact(self, column: Any, n: int) -> list[Any]:
        return [self._read_lane(*lane) for lane in _lanes(column, n)]

    def _read_lane(self, size: int, column: Any) -> Any:
        _check_size(size)
        if self._stack:
            return self._element.read_batch(column, size)
        return tuple(self._element.read(column, size))

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if self._stack:
            return self._element.admit_batch(value, path, warn)[1]
        if not isinstance(value, tuple) and not (self.actions and isinstance(value, list)):
            raise self._refusal(path, f"is a {type(value).__name__}; a tuple of elements was due")
        return like(value, [self._element.admit(part, (path, at), warn) for at, part in enumerate(value)])


class GraphColumn(Column):
    """Raw: for each lane [number of nodes, nodes] and, with edges, [..., number of edges, edges, edge_links].

    Nodes and edges are columns of batches, ``edge_links`` a self-described array.
    """

    def __init__(self, space: Any, actions: bool, cls: Any, nodes: Column, edges: Column | None) -> None:
        super().__init__(space, actions)
        self._class = cls
        self._nodes = nodes
        self._edges = edges

    def exact(self, values: Sequence[Any]) -> Any:
        lanes = [self._lane(value) for value in values]
        return None if None in lanes else lanes

    def _lane(self, value: Any) -> list[Any] | None:
        if type(value) is not self._class:
            return None
        try:
            nodes = self._nodes.write_batch(value.nodes, "", None)
            if nodes is None or nodes[0] is None:
                return None
            if value.edges is None and value.edge_links is None:
                return list(nodes)
            edges = self._edges.write_batch(value.edges, "", None) if self._edges else None
        except _REFUSALS:
            return None  # general() says what is wrong, or casts
        if edges is None or type(value.edge_links) is not np.ndarray:
            return None
        if not _are_links(value.edge_links, edges[0]):
            return None
        return [*nodes, *edges, pack(value.edge_links)]

    def read_exact(self, column: Any, n: int) -> list[Any]:
        return [self._read_lane(*lane) for lane in _lanes(column, n)]

    def _read_lane(
        self, size: int, nodes: Any, edge_count: Any = None, edges: Any = None, links: Any = None
    ) -> Any:
        _check_size(size)
        read = self._nodes.read_batch(nodes, size)
        if edge_count is None and edges is None and links is None:
            return self._class(read, None, None)
        _check_size(edge_count)
        if self._edges is None or not _are_links(links, edge_count):
            raise ValueError("edges and their links were due, or none")
        return self._class(read, self._edges.read_batch(edges, edge_count), links)

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if not isinstance(value, self._class):
            raise self._refusal(path, f"is a {type(value).__name__}; a GraphInstance was due")
        _, nodes = self._nodes.admit_batch(value.nodes, (path, "nodes"), warn)
        if value.edges is None and value.edge_links is None:
            return self._class(nodes, None, None)
        if self._edges is None or value.edges is None or value.edge_links is None:
            raise self._refusal(
                path, "has edges without links, links without edges, or edges where there are none"
            )
        size, edges = self._edges.admit_batch(value.edges, (path, "edges"), warn)
        if not _are_links(value.edge_links, size):
            raise self._refusal((path, "edge_links"), f"is no array of integers of shape ({size}, 2)")
        return self._class(nodes, edges, value.edge_links)


class OneOfColumn(Column):
    """Raw: for each lane [index, column of one lane of that space]; the index is a ``numpy.int64``."""

    def __init__(self, space: Any, actions: bool, choices: Sequence[Column]) -> None:
        super().__init__(space, actions)
        self._choices = choices

    def exact(self, values: Sequence[Any]) -> Any:
        return None  # write() asks the chosen space

    def write(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        lanes = []
        for value in values:
            if type(value) is not tuple or len(value) != 2 or type(value[0]) is not np.int64:
                return self.general(values, path, warn)
            index = int(value[0])
            if not 0 <= index < len(self._choices):
                return self.general(values, path, warn)
            lanes.append([index, self._choices[index].encode_one(value[1], (path, 1), warn)])
        return lanes

    def read_exact(self, column: Any, n: int) -> list[Any]:
        return [self._read_lane(*lane) for lane in _lanes(column, n)]

    def _read_lane(self, index: Any, column: Any) -> tuple[Any, Any]:
        if type(index) is not int or not 0 <= index < len(self._choices):
            raise ValueError(f"there is no space {index!r}")
        return np.int64(index), self._choices[index].read(column, 1)[0]

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise self._refusal(path, f"is a {type(value).__name__}; a tuple of index and value was due")
        index, part = value
        if not isinstance(index, int | np.integer) or not 0 <= int(index) < len(self._choices):
            raise self._refusal((path, 0), f"is no index below {len(self._choices)}")
        return like(value, [index, self._choices[int(index)].admit(part, (path, 1), warn)])


def _lanes(column: Any, n: int) -> list[Any]:
    if type(column) is not list or len(column) != n or not all(type(lane) is list for lane in column):
        raise ValueError(f"an array of {n} arrays was due")
    return column


def _check_size(size: Any) -> None:
    if type(size) is not int or size < 0:
        raise ValueError(f"{size!r} is no number of elements")


def _are_links(links: Any, size: int | None) -> bool:
    if not isinstance(links, np.ndarray) or links.dtype.kind not in "iu":
        return False
    return links.ndim == 2 and links.shape[1] == 2 and size in (None, len(links))
