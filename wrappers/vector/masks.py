"""Seeds and masks as users pass them to ``reset``, and marks on lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["marks", "seeds_of", "take_mask"]

_KEY = "reset_mask"


def marks(n: int, marked: bool = False) -> tuple[bytearray, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return a bool for each of ``n`` lanes, twice over the same memory.

    ``1 in`` the bytes says without a call whether any is set, which every step wants to know.
    """
    memory = bytearray([marked]) * n
    return memory, np.frombuffer(memory, np.bool_)


def seeds_of(seed: Any, n: int) -> Sequence[Any] | None:
    """Return a seed for each of ``n`` lanes: a range from an int on, or what a sequence says.

    Raises:
        TypeError: It is neither an int nor a sequence of ints and ``None``.
        ValueError: The sequence has another length.
    """
    if seed is None:
        return None
    if isinstance(seed, int | np.integer):
        return range(int(seed), int(seed) + n)
    if not isinstance(seed, Sequence | np.ndarray) or isinstance(seed, str | bytes):
        raise _no_seed(seed, "seed")
    seeds = [int(each) if isinstance(each, np.integer) else each for each in seed]
    for lane, each in enumerate(seeds):
        if each is not None and not isinstance(each, int):
            raise _no_seed(each, f"seed[{lane}]")
    if len(seeds) != n:
        raise ValueError(
            f"a list of seeds needs one for each lane: num_envs={n}, and {len(seeds)} were given; write None"
            " for a lane without one"
        )
    return seeds


def take_mask(
    options: Mapping[str, Any] | None, n: int
) -> tuple[dict[str, Any] | None, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """Return options without the mask, as a dict of their own, and the mask; ``None``: all lanes.

    Raises:
        TypeError: The options are no dict, or the mask is no array of bools.
        ValueError: It has another shape, or no lane in it.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict or None, not {type(options).__name__}")
    if options is None or _KEY not in options:
        return (None if options is None else dict(options)), None
    rest = {name: value for name, value in options.items() if name != _KEY}
    mask = options[_KEY]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"options['reset_mask'] must be a numpy array, not {type(mask).__name__}")
    if mask.shape != (n,):
        raise ValueError(f"options['reset_mask'] must have the shape ({n},), not {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must have dtype=np.bool_, not {mask.dtype}")
    if not mask.any():
        raise ValueError("options['reset_mask'] must be true for at least one lane")
    return rest, mask


def _no_seed(value: Any, name: str) -> TypeError:
    return TypeError(
        f"{name} is of type {type(value).__name__}; pass an int (lane i gets seed + i), or a list with"
        " an int or None for each lane"
    )
