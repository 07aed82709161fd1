"""What a client needs; typed clients are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .blocking import SyncEnvClient as SyncEnvClient
    from .blocking import SyncToolClient as SyncToolClient
    from .generic import GenericAction as GenericAction
    from .generic import GenericEnvClient as GenericEnvClient
    from .toolclient import MCPToolClient as MCPToolClient
    from .typed import EnvClient as EnvClient

__all__ = [
    "EnvClient",
    "GenericAction",
    "GenericEnvClient",
    "MCPToolClient",
    "SyncEnvClient",
    "SyncToolClient",
]

_WHERE = {
    "EnvClient": "typed",
    "GenericAction": "generic",
    "GenericEnvClient": "generic",
    "MCPToolClient": "toolclient",
    "SyncEnvClient": "blocking",
    "SyncToolClient": "blocking",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
