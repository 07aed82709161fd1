"""Echo: says what it was told, as a text, an action, or a tool.

``EchoEnv`` is the client, ``EchoEnvironment`` what a server runs. Each is imported when it is first named: a
client needs nothing of the server's, nor the server of the client's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openenv_gym.models import CallToolAction, ListToolsAction

from .models import EchoAction, EchoObservation

if TYPE_CHECKING:
    from .client import EchoEnv as EchoEnv
    from .server.environment import EchoEnvironment as EchoEnvironment

__all__ = [
    "CallToolAction",
    "EchoAction",
    "EchoEnv",
    "EchoEnvironment",
    "EchoObservation",
    "ListToolsAction",
]

_WHERE = {"EchoEnv": ".client", "EchoEnvironment": ".server.environment"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name], __name__), name)
