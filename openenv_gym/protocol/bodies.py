"""Memory for large messages, used again as soon as nobody has it any more.

An allocator gives a block of this size back to the system when it is freed, and the next one costs a page
fault for every 4 KiB, which takes longer than to receive what is written there.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Bodies"]

_KEPT = 2
_NARROW = 4096


class Bodies:
    """The bodies of one connection.

    Two are kept: while the newest message is read, the one before is usually still in use.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Return ``size`` bytes of any content that nobody else has."""
        kept = self._kept
        for at in range(len(kept)):
            if _holders(kept, at) == _ALONE and _fit(kept[at], size):
                return kept[at]
        body = bytearray(size)
        if len(kept) >= _KEPT:
            del kept[0]
        kept.append(body)
        return body


def _fit(body: bytearray, size: int) -> bool:
    """Give a body another size, if it is so near that its memory can stay where it is."""
    have = len(body)
    if not size - _NARROW <= have <= size + _NARROW:
        return False
    if have > size:
        del body[size:]
    elif have < size:
        body += bytes(size - have)
    return True


def _holders(kept: list[Any], at: int) -> int:
    """Return how many references there are to an item: views of it, and slices of these, count as well."""
    return sys.getrefcount(kept[at])


#: What that is for an item that only its list has. Which temporary ones are counted differs between versions.
_ALONE = _holders([bytearray(1)], 0)
