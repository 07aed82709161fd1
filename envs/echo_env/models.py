"""What Echo is told, and what it says."""

from __future__ import annotations

from openenv_gym.models import Action, CallToolObservation, Observation

__all__ = ["EchoAction", "EchoObservation", "PlainEchoObservation"]


class EchoAction(Action):
    """Say something.

    Attributes:
        message: What to say.
    """

    message: str


class EchoObservation(CallToolObservation):
    """What Echo says. The fields of a tool's call are empty where no tool was called.

    Attributes:
        echoed_message: The message; after ``reset`` the greeting; empty if there is an ``error``.
        message_length: Its length in characters; 0 after ``reset``.
    """

    tool_name: str = ""
    echoed_message: str = ""
    message_length: int = 0


class PlainEchoObservation(Observation):
    """An :class:`EchoObservation` of no tool, as a server sends it: OpenEnv's clients refuse more fields.

    Attributes:
        echoed_message: See :class:`EchoObservation`.
        message_length: See :class:`EchoObservation`.
    """

    echoed_message: str = ""
    message_length: int = 0
