"""Structs as maps of their fields, and back: what typed environments and clients put on the wire.

A *map* is a dict of self-described values (:mod:`openenv_gym.protocol.values`) or, with ``json=True``, of
JSON's own types. JSON has no NaN, arrays or bytes; the spelling is the one of the server's other JSON:
``"NaN"``, ``"Infinity"``, ``"-Infinity"``, arrays as nested lists, bytes as base64 (RFC 4648, section 4).
"""

from __future__ import annotations

from .checks import check_readable
from .maps import BESIDE, from_map, to_map
from .schemas import schema_of

__all__ = ["BESIDE", "check_readable", "from_map", "schema_of", "to_map"]
