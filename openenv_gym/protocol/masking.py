"""Masking of the frames a WebSocket client sends (RFC 6455, section 5.3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

__all__ = ["apply_mask", "masking_key"]

_KEYS: list[bytes] = []
_BLOCK = 1024


def masking_key() -> bytes:
    """Return four random bytes that were never used before.

    They come from the system's cryptographic source, 256 keys a call.
    """
    try:
        return _KEYS.pop()
    except IndexError:
        block = os.urandom(_BLOCK)
        keys = [block[at : at + 4] for at in range(0, _BLOCK, 4)]
        key = keys.pop()
        _KEYS.extend(keys)
        return key


def _apply_mask(data: bytes | bytearray | memoryview, key: bytes | bytearray) -> bytes:
    size = len(data)
    pattern = (bytes(key) * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


def _load() -> Callable[[bytes | bytearray | memoryview, bytes | bytearray], bytes]:
    # The extension module is loaded by itself: the package around it takes 20 ms to import, and this
    # runs in every training process.
    package = find_spec("websockets")
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("websockets.speedups", places) if places else None
    if spec is None or spec.loader is None:
        return _apply_mask
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        return _apply_mask
    loaded: Callable[[bytes | bytearray | memoryview, bytes | bytearray], bytes] = module.apply_mask
    return loaded


#: ``apply_mask(data, key) -> bytes``: ``data`` xor the four bytes of ``key``, repeated; its own inverse.
apply_mask = _load()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_KEYS.clear)  # else parent and child would use the same keys
