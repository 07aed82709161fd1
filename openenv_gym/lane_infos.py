"""The info of one lane, taken out of a vector environment's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["lane_info", "mask_of"]


def lane_info(infos: Mapping[str, Any], lane: int) -> dict[str, Any]:
    """Return what a vector environment's info says of one lane.

    Args:
        infos: Laid out as Gymnasium does it: for each key an array with one item a lane, or a dict laid out
            the same way, and beside it the mask ``_key``. Where there is no mask, every lane has the key.
        lane: Index of the lane.

    Returns:
        A dict of the lane's values. Items of arrays are copies; a key that the lane lacks is left out.
    """
    found: dict[str, Any] = {}
    for key, column in infos.items():
        if _is_mask(infos, key):
            continue
        mask = mask_of(infos, key)
        if mask is not None and not mask[lane]:
            continue
        if isinstance(column, Mapping):
            found[key] = lane_info(column, lane)
        else:
            value = column[lane]
            found[key] = value.copy() if isinstance(value, np.ndarray) else value
    return found


def mask_of(infos: Mapping[str, Any], key: str) -> np.ndarray[Any, Any] | None:
    """Return the mask that belongs to ``key``; ``None``: there is none."""
    mask = infos.get(f"_{key}")
    return mask if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.ndim == 1 else None


def _is_mask(infos: Mapping[str, Any], key: str) -> bool:
    if not isinstance(key, str) or not key.startswith("_"):
        return False
    return key[1:] in infos and mask_of(infos, key[1:]) is not None
