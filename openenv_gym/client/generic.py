"""A client without types: actions, observations and states are dicts."""

from __future__ import annotations

from typing import Any

from .typed import EnvClient

__all__ = ["GenericAction", "GenericEnvClient"]


class GenericAction(dict[str, Any]):
    """An action as a dict, made from keyword arguments: ``GenericAction(code="1 + 1")``."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class GenericEnvClient(EnvClient[dict[str, Any], dict[str, Any], dict[str, Any]]):
    """A client of any environment, whose package need not be there.

    Observations and states are dicts; results of tools are what the tools returned. Actions are dicts of
    their fields, and whatever :class:`~openenv_gym.client.typed.EnvClient` takes. Methods and errors are its.
    """
