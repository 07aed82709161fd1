"""The Echo environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from openenv_gym.environment import Environment, EnvironmentMetadata
from openenv_gym.errors import ValidationError
from openenv_gym.models import CallToolAction, CallToolObservation, State
from openenv_gym.spaces import Unicode
from openenv_gym.tools import tool

from ..models import EchoAction, EchoObservation, PlainEchoObservation

__all__ = ["EchoEnvironment"]

_GREETING = "Echo environment ready!"
_REWARD = 0.1
"""For each character."""
_TOOLS = ("echo_message", "echo_with_length")


class EchoEnvironment(Environment[EchoAction, EchoObservation, State]):
    """Says what it was told: the smallest environment with text in and text out.

    * Action: an :class:`.EchoAction`, or a call of one of the tools ``echo_message`` and
      ``echo_with_length``; for Gymnasium a text (``Unicode``) of at most ``max_length`` characters.
    * Observation: the message; after ``reset`` the text ``"Echo environment ready!"``.
    * Reward: 0.1 for each character of the message, in whatever form it came; none for a list of the tools.
    * Episode: never terminates, never truncates.
    * Metadata of a step (Gymnasium's ``info``): ``{"message_length": int}``; of a reset: empty.

    Args:
        max_length: Longest message, in characters; at least 1.
        render_mode: ``"ansi"`` (``render()`` returns the last message as text) or ``None``.

    Raises:
        ValueError: ``max_length`` or ``render_mode`` is impossible.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, max_length: int = 1_000_000, render_mode: str | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; it must be at least 1")
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is {render_mode!r}; Echo renders as 'ansi' only")
        self.max_length = max_length
        self.render_mode = render_mode
        self.action_space = Unicode(max_length)
        self.observation_space = Unicode(max(max_length, len(_GREETING)))
        self._last = ""

    def reset(self, *, seed: int | None = None, episode_id: str | None = None) -> PlainEchoObservation:
        """Start an episode; returns the greeting."""
        self._last = _GREETING
        return PlainEchoObservation(_GREETING)

    def step(self, action: Any) -> Any:
        """Say the message, or list or call the tools."""
        if isinstance(action, EchoAction):
            self._last = self._checked(action.message)
            return PlainEchoObservation(action.message, **_said(action.message))
        observation = super().step(action)
        if isinstance(action, CallToolAction) and action.tool_name in _TOOLS:
            return self._answer(action, observation)
        return observation

    @tool
    def echo_message(self, message: str) -> str:
        """Return the message."""
        return self._checked(message)

    @tool
    def echo_with_length(self, message: str) -> dict[str, Any]:
        """Return the message and its length in characters."""
        return {"message": self._checked(message), "length": len(message)}

    def render(self) -> str | None:
        """Return the last message when the render mode is ``"ansi"``."""
        return self._last if self.render_mode == "ansi" else None

    def describe(self) -> EnvironmentMetadata:
        """Return what there is to know of Echo."""
        readme = Path(__file__).parents[1] / "README.md"
        return EnvironmentMetadata(
            name="echo_env",
            description="Says what it was told: the smallest environment with text in and text out.",
            version="0.1.0",
            readme_content=readme.read_text(encoding="utf-8") if readme.is_file() else None,
        )

    def from_gym(self, value: str) -> EchoAction:
        """Return the action that a text stands for."""
        return EchoAction(value)

    def to_gym(self, observation: EchoObservation | PlainEchoObservation) -> str:
        """Return an observation as a text."""
        return observation.echoed_message

    def _checked(self, message: Any) -> str:
        if not isinstance(message, str):  # where it is played without a server
            wanted, got = "expected str", f"{type(message).__name__}: {message!r:.80}"
        elif len(message) > self.max_length:
            wanted = f"expected str of length <= {self.max_length} (max_length)"
            got = f"{len(message)} characters"
        else:
            return message
        raise ValidationError(f"$.message: {wanted}, got {got}", path="$.message")

    def _answer(self, action: CallToolAction, observation: CallToolObservation) -> EchoObservation:
        """Return the observation of a call with the message in it; of a call that failed, with none."""
        message = ""
        if observation.error is None:
            self._last = message = action.arguments["message"]
        call = observation.tool_name, observation.result, observation.error
        return EchoObservation(*call, message, **_said(message))


def _said(message: str) -> dict[str, Any]:
    """Return what an observation says about a message."""
    length = len(message)
    return {"message_length": length, "reward": _REWARD * length, "metadata": {"message_length": length}}
