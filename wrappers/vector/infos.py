"""Infos of lanes as one info of the vector, laid out as Gymnasium does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

__all__ = ["batch_infos", "merge_infos"]

_Pairs = list[tuple[int, Any]]


def batch_infos(infos: Iterable[tuple[int, dict[Any, Any]]], n: int) -> dict[Any, Any]:
    """Return the infos of lanes as one, with an array of ``n`` items for each key and a mask ``_key``.

    The layout is that of ``gymnasium.vector.VectorEnv``: numbers and arrays fill typed arrays of zeros, dicts
    become dicts of arrays, all else fills arrays of objects, and so does ``final_obs``. The first lane that
    has a key chooses the type of the column; values of others are cast to it, a float in a column of ints to
    an int. Where Gymnasium fails since that is impossible (a text among numbers, arrays of several shapes),
    the column is an array of objects.

    Args:
        infos: Lanes and their infos, in the order of the lanes. A lane may come more than once.
        n: Number of lanes.
    """
    infos = list(infos)
    columns: dict[Any, _Pairs] = {}
    for lane, info in infos:
        for key, value in info.items():
            columns.setdefault(key, []).append((lane, value))
    if any(f"_{key}" in columns for key in columns):
        return _one_by_one(infos, n)
    batch: dict[Any, Any] = {}
    for key, pairs in columns.items():
        mask = np.zeros(n, np.bool_)
        mask[[lane for lane, _ in pairs]] = True
        batch[key], batch[f"_{key}"] = _column(key, pairs, n), mask
    return batch


def merge_infos(infos: Sequence[tuple[int, int, dict[Any, Any]]], n: int) -> dict[Any, Any]:
    """Return infos that vectors of their own made, as one of ``n`` lanes.

    Args:
        infos: First lane, number of lanes and info of each vector.
        n: Number of lanes in all.
    """
    if len(infos) == 1 and infos[0][1] == n:
        return infos[0][2]
    merged: dict[Any, Any] = {}
    for first, count, info in infos:
        _merge_into(merged, info, first, count, n)
    return merged


def _merge_into(merged: dict[Any, Any], info: dict[Any, Any], first: int, count: int, n: int) -> None:
    for key, value in info.items():
        if isinstance(value, dict):
            _merge_into(merged.setdefault(key, {}), value, first, count, n)
            continue
        array = value
        if not isinstance(value, np.ndarray) or value.shape[:1] != (count,):
            array = _listed([value] * count)
        known = merged.get(key)
        if known is None:
            known = _blank((n, *array.shape[1:]), array.dtype)
        elif known.shape[1:] != array.shape[1:]:
            known, array = _listed(known), _listed(array)
        elif known.dtype != array.dtype:
            known = known.astype(np.result_type(known.dtype, array.dtype))
        known[first : first + count] = array
        merged[key] = known


def _listed(values: Any) -> np.ndarray[Any, Any]:
    """Return values of any kind as an array of objects with one axis."""
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array


def _blank(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.full(shape, None, object) if dtype.kind == "O" else np.zeros(shape, dtype)


def _one_by_one(infos: list[tuple[int, dict[Any, Any]]], n: int) -> dict[Any, Any]:
    """Return what Gymnasium itself makes of infos, where the order counts: a key is another one's mask."""
    vector: gym.vector.VectorEnv[Any, Any, Any] = gym.vector.VectorEnv()
    vector.num_envs = n
    batch: dict[Any, Any] = {}
    for lane, info in infos:
        batch = vector._add_info(batch, info, lane)
    return batch


def _column(key: Any, pairs: _Pairs, n: int) -> Any:
    """Return the values of one key."""
    first = pairs[0][1]
    if key == "final_obs":
        return _objects(pairs, n)
    if isinstance(first, dict):
        if all(isinstance(value, dict) for _, value in pairs):
            return batch_infos(pairs, n)
        return _objects(pairs, n)
    if type(first) in (int, float, bool) or isinstance(first, np.number):
        return _typed(pairs, n, (), type(first))
    if isinstance(first, np.ndarray):
        return _typed(pairs, n, first.shape, first.dtype)
    return _objects(pairs, n)


def _typed(pairs: _Pairs, n: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return values in an array of the first one's type, or as objects where that cannot take them."""
    array = np.zeros((n, *shape), dtype)
    try:
        for lane, value in pairs:
            array[lane] = value
    except (ValueError, TypeError, OverflowError):
        return _objects(pairs, n)
    return array


def _objects(pairs: _Pairs, n: int) -> np.ndarray[Any, Any]:
    array = np.full(n, None, object)
    for lane, value in pairs:
        array[lane] = value
    return array
