"""What the openenv package's clients and server said; ``record.py`` wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["CLIENTS", "SERVERS"]


def _read(name: str) -> list[dict[str, Any]]:
    recorded = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))["recorded"]
    assert isinstance(recorded, list)
    return recorded


CLIENTS = _read("clients.json")
"""What its clients and its server said: ``name``, ``kind``, ``steps`` of ``to``, ``send``, ``receive``."""

SERVERS = _read("servers.json")
"""The exchanges of ``exchanges.py`` with its server, likewise."""
