"""The Echo environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from openenv_gym.spaces import Unicode

__all__ = ["EchoEnv"]

_GREETING = "Echo environment ready!"


class EchoEnv(gym.Env[str, str]):
    """Says what it was told: the smallest environment with text in and text out.

    * Action: a text (``Unicode``) of at most ``max_length`` characters.
    * Observation: the action; after ``reset`` the text ``"Echo environment ready!"``.
    * Reward: 0.1 for each character.
    * Episode: never terminates, never truncates.
    * ``info`` of a step: ``{"message_length": int}``; of a reset: empty.

    Args:
        max_length: Longest text, in characters; at least 1.
        render_mode: ``"ansi"`` (``render()`` returns the observation as text) or ``None``.

    Raises:
        ValueError: ``max_length`` or ``render_mode`` is impossible.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (as gymnasium.Env has it)

    def __init__(self, max_length: int = 1_000_000, render_mode: str | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; it must be at least 1")
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is {render_mode!r}; Echo renders as 'ansi' only")
        self.render_mode = render_mode
        self.action_space = Unicode(max_length)
        self.observation_space = Unicode(max(max_length, len(_GREETING)))
        self._last = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; returns the greeting."""
        super().reset(seed=seed)
        self._last = _GREETING
        return _GREETING, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say ``action``."""
        self._last = action
        return action, 0.1 * len(action), False, False, {"message_length": len(action)}

    def render(self) -> str | None:
        """Return the observation as text when the render mode is ``"ansi"``."""
        return self._last if self.render_mode == "ansi" else None
