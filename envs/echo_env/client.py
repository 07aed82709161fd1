"""The client of Echo."""

from __future__ import annotations

from openenv_gym.client import MCPToolClient
from openenv_gym.models import CallToolAction, State

from .models import EchoAction, EchoObservation

__all__ = ["EchoEnv"]


class EchoEnv(MCPToolClient[EchoAction | CallToolAction, EchoObservation, State]):
    """Plays Echo, with :class:`.EchoAction` or by its tools.

    What ``reset`` and ``step`` answer is an :class:`.EchoObservation`. Arguments and other methods are those
    of :class:`~openenv_gym.client.MCPToolClient`.
    """

    action_type = EchoAction
