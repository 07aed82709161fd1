"""Columns of spaces with a fixed number of parts: ``Dict`` and ``Tuple``.

Where a part is not in its space's exact form, the column of that part alone holds self-described values;
where the container is not (an ``OrderedDict``, a list for a tuple), its own column does.
"""
# ruff: noqa: D102 - Column says what the methods do

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .lanes import Batch, Column, Path, Warn

__all__ = ["DictColumn", "TupleColumn", "like"]


class _Parts(Column):
    """A fixed number of parts; raw: an array of their columns, or without parts n zero bytes."""

    def __init__(self, space: Any, actions: bool, parts: Sequence[tuple[Any, Column]]) -> None:
        super().__init__(space, actions)
        self.direct = all(column.direct for _, column in parts)
        self._keys = [key for key, _ in parts]
        self._columns = [column for _, column in parts]
        self._encoders = [(key, column.encode_one) for key, column in parts]
        self._decoders = [(key, column.decode_one) for key, column in parts]

    def exact(self, values: Sequence[Any]) -> Any:
        return None  # write() asks the parts

    def write_parts(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        """Return the array of columns of values that have exactly these parts."""
        if not self._keys:
            return bytes(len(values))
        pairs = zip(self._keys, self._columns, strict=True)
        return [column.write([value[key] for value in values], (path, key), warn) for key, column in pairs]

    def read_parts(self, column: Any, n: int) -> list[list[Any]]:
        """Return the values of each part."""
        return [part.read(values, n) for part, values in self.paired(column, n)]

    def paired(self, column: Any, n: int) -> list[tuple[Column, Any]]:
        """Return the parts and their columns."""
        if not self._keys:
            if type(column) is not bytes or len(column) != n:
                raise ValueError(f"{n} zero bytes were due")
            return []
        if type(column) is not list or len(column) != len(self._keys):
            raise ValueError(f"an array of {len(self._keys)} columns was due")
        return list(zip(self._columns, column, strict=True))

    def write_part_batches(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        """Return size and column of a batch that has exactly these parts."""
        sizes, columns = set(), []
        for key, column in zip(self._keys, self._columns, strict=True):
            written = column.write_batch(batch[key], (path, key), warn)
            if written is None:
                return None
            sizes.add(written[0])
            columns.append(written[1])
        # Without parts a batch does not tell its size.
        return (sizes.pop(), columns) if len(sizes) == 1 else None

    def admit_part_batches(self, batch: Any, path: Path, warn: Warn | None) -> tuple[int | None, list[Any]]:
        """Return size and parts of a batch."""
        admitted = [
            column.admit_batch(batch[key], (path, key), warn)
            for key, column in zip(self._keys, self._columns, strict=True)
        ]
        sizes = {size for size, _ in admitted if size is not None}
        if len(sizes) > 1:
            raise self._refusal(path, f"has parts of {sorted(sizes)} values")
        return (sizes.pop() if sizes else None), [part for _, part in admitted]

    def split_parts(self, batch: Any, n: int) -> list[tuple[Any, ...]]:
        """Return the parts of each of ``n`` values."""
        if not self._keys:
            return [()] * n
        pairs = zip(self._keys, self._columns, strict=True)
        return list(zip(*(column.split(batch[key], n) for key, column in pairs), strict=True))


class DictColumn(_Parts):
    """Raw: an array of columns in the space's order of keys.

    Where every lane has the same other order: a map of ``order``, the keys' places in the space, and
    ``columns``.

    Args:
        space: The space.
        actions: See :class:`Column`.
        parts: Keys and their columns, in the space's order.
        split_keys: The keys in the order that values have when Gymnasium splits a batch.
    """

    def __init__(
        self, space: Any, actions: bool, parts: Sequence[tuple[Any, Column]], split_keys: Sequence[Any]
    ) -> None:
        super().__init__(space, actions, parts)
        self._split_keys = split_keys
        self.direct = self.direct and list(split_keys) == self._keys

    def encode_one(self, value: Any, path: Path = "value", warn: Warn | None = None) -> Any:
        if type(value) is dict and list(value) == self._keys and value:
            return [encode(value[key], (path, key), warn) for key, encode in self._encoders]
        return self.write([value], path, warn)

    def decode_one(self, column: Any) -> Any:
        if type(column) is list and len(column) == len(self._decoders) and column:
            return {key: decode(part) for (key, decode), part in zip(self._decoders, column, strict=True)}
        return self.decode(column, 1)[0]

    def write(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        keys = list(values[0]) if values and type(values[0]) is dict else self._keys
        if not all(type(value) is dict and list(value) == keys for value in values):
            return self.general(values, path, warn)
        if keys == self._keys:
            return self.write_parts(values, path, warn)
        if len(keys) != len(self._keys) or set(keys) != set(self._keys):
            return self.general(values, path, warn)
        order = [self._keys.index(key) for key in keys]
        return {"order": order, "columns": self.write_parts(values, path, warn)}

    def read(self, column: Any, n: int) -> list[Any]:
        if type(column) is dict and "order" in column:
            keys = self._ordered(column)
            lanes = self.read_exact(column["columns"], n)
            return [{key: lane[key] for key in keys} for lane in lanes]
        return super().read(column, n)

    def _ordered(self, column: dict[Any, Any]) -> list[Any]:
        order = column["order"]
        if len(column) != 2 or sorted(order) != list(range(len(self._keys))):
            raise ValueError("a map of 'order' and 'columns' was due")
        return [self._keys[at] for at in order]

    def read_exact(self, column: Any, n: int) -> list[Any]:
        parts = self.read_parts(column, n)
        return (
            [dict(zip(self._keys, lane, strict=True)) for lane in zip(*parts, strict=True)]
            if parts
            else [{} for _ in range(n)]
        )

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        self._check_keys(value, path)
        parts = dict(zip(self._keys, self._columns, strict=True))
        return {key: parts[key].admit(part, (path, key), warn) for key, part in value.items()}

    def _check_keys(self, value: Any, path: Path) -> None:
        if not isinstance(value, dict):
            raise self._refusal(path, f"is a {type(value).__name__}; a dict was due")
        missing = [key for key in self._keys if key not in value]
        extra = [key for key in value if key not in self._keys]
        if missing or extra:
            raise self._refusal(path, f"lacks the keys {missing} and has the keys {extra} beyond them")

    def write_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        exact = type(batch) is dict and list(batch) == self._keys
        return self.write_part_batches(batch, path, warn) if exact else None

    def read_batch(self, column: Any, n: int) -> Any:
        pairs = self.paired(column, n)
        return {
            key: part.read_batch(values, n) for key, (part, values) in zip(self._keys, pairs, strict=True)
        }

    def admit_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch:
        self._check_keys(batch, path)
        size, parts = self.admit_part_batches(batch, path, warn)
        admitted = dict(zip(self._keys, parts, strict=True))
        return size, {key: admitted[key] for key in batch}

    def split(self, batch: Any, n: int) -> list[Any]:
        lanes = [dict(zip(self._keys, lane, strict=True)) for lane in self.split_parts(batch, n)]
        return [{key: lane[key] for key in self._split_keys} for lane in lanes]

    def put(self, column: Any, n: int, out: Any, start: int) -> Any:
        if type(column) is dict and "order" in column:
            self._ordered(column)
            column = column["columns"]
        if type(column) is dict:
            return self.place(self.read_general(column, n), out, start)
        pairs = zip(self._keys, self.paired(column, n), strict=False)
        return {key: part.put(values, n, out[key], start) for key, (part, values) in pairs}

    def place(self, values: Sequence[Any], out: Any, start: int) -> Any:
        pairs = zip(self._keys, self._columns, strict=True)
        return {key: part.place([value[key] for value in values], out[key], start) for key, part in pairs}


class TupleColumn(_Parts):
    """Raw: an array of columns."""

    def encode_one(self, value: Any, path: Path = "value", warn: Warn | None = None) -> Any:
        if type(value) is tuple and len(value) == len(self._encoders) and value:
            return [
                encode(part, (path, key), warn)
                for part, (key, encode) in zip(value, self._encoders, strict=True)
            ]
        return self.write([value], path, warn)

    def decode_one(self, column: Any) -> Any:
        if type(column) is list and len(column) == len(self._decoders) and column:
            return tuple([decode(part) for (_, decode), part in zip(self._decoders, column, strict=True)])
        return self.decode(column, 1)[0]

    def write(self, values: Sequence[Any], path: Path, warn: Warn | None) -> Any:
        size = len(self._keys)
        if all(type(value) is tuple and len(value) == size for value in values):
            return self.write_parts(values, path, warn)
        return self.general(values, path, warn)

    def read_exact(self, column: Any, n: int) -> list[Any]:
        parts = self.read_parts(column, n)
        return list(zip(*parts, strict=True)) if parts else [()] * n

    def admit(self, value: Any, path: Path, warn: Warn | None) -> Any:
        if not isinstance(value, tuple | list | np.ndarray) or len(value) != len(self._keys):
            raise self._refusal(
                path, f"is a {type(value).__name__}; a tuple of {len(self._keys)} values was due"
            )
        given = list(value)
        parts = zip(self._keys, self._columns, given, strict=True)
        admitted = [column.admit(part, (path, key), warn) for key, column, part in parts]
        if isinstance(value, np.ndarray) and all(map(operator.is_, given, admitted)):
            return value
        return like(value, admitted)

    def write_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch | None:
        exact = type(batch) is tuple and len(batch) == len(self._keys)
        return self.write_part_batches(batch, path, warn) if exact else None

    def read_batch(self, column: Any, n: int) -> Any:
        return tuple([part.read_batch(values, n) for part, values in self.paired(column, n)])

    def admit_batch(self, batch: Any, path: Path, warn: Warn | None) -> Batch:
        if not isinstance(batch, tuple) or len(batch) != len(self._keys):
            raise self._refusal(path, f"is no tuple of {len(self._keys)} batches")
        size, parts = self.admit_part_batches(batch, path, warn)
        return size, tuple(parts)

    def split(self, batch: Any, n: int) -> list[Any]:
        return list(self.split_parts(batch, n))

    def put(self, column: Any, n: int, out: Any, start: int) -> Any:
        if type(column) is dict:
            return self.place(self.read_general(column, n), out, start)
        return tuple(
            [part.put(values, n, out[at], start) for at, (part, values) in enumerate(self.paired(column, n))]
        )

    def place(self, values: Sequence[Any], out: Any, start: int) -> Any:
        return tuple(
            [
                part.place([value[at] for value in values], out[at], start)
                for at, part in enumerate(self._columns)
            ]
        )


def like(value: Any, parts: list[Any]) -> Any:
    """Return ``parts`` in a list or tuple, like ``value``."""
    return parts if isinstance(value, list) else tuple(parts)
