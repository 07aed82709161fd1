"""The episodes of one lane among others: what a turn of it does in each autoreset mode.

The three modes are those of ``gymnasium.vector.AutoresetMode``, and do what ``SyncVectorEnv`` does.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym

from openenv_gym.protocol.values import pack

from .access import Access
from .shortcut import step_of

__all__ = ["MODES", "Episodes", "NextStep", "SameStep"]


class Episodes(Access):
    """A lane that is reset by its client (mode ``disabled``). Every method is called on the lane's thread.

    Attributes:
        final: Of a turn that ended an episode and began the next one: the last observation and info, packed.
    """

    final: tuple[Any, Any] = (None, None)

    def __init__(self, env: gym.Env[Any, Any], *, attributes: bool = True) -> None:
        super().__init__(env, attributes=attributes)
        self._step = step_of(env)

    def reset(self, start: tuple[Any, Any]) -> tuple[Any, Any]:
        """Begin an episode with ``(seed, options)``; return observation and info."""
        observation, info = self.env.reset(seed=start[0], options=start[1])
        return observation, info

    def turn(self, action: Any) -> Any:
        """Return observation, reward, terminated, truncated, info."""
        outcome = self._step(action)
        _, _, terminated, truncated, _ = outcome
        bool(terminated or truncated)  # raises where they are no truth values
        return outcome

    def detach(self) -> Any:
        """Return the environment and let go of it."""
        del self._step
        self.final = (None, None)
        return super().detach()


class NextStep(Episodes):
    """A lane whose turn after the end of an episode ignores its action and begins the next one.

    Attributes:
        ended: Whether the next turn begins an episode.
    """

    ended = False

    def reset(self, start: tuple[Any, Any]) -> tuple[Any, Any]:
        """Begin an episode with ``(seed, options)``; return observation and info."""
        self.ended = False
        return super().reset(start)

    def turn(self, action: Any) -> Any:
        """Return observation, reward, terminated, truncated, info."""
        if self.ended:
            return self.begin(action)
        outcome = self._step(action)
        _, _, terminated, truncated, _ = outcome
        if terminated or truncated:
            self.ended = True
        return outcome

    def begin(self, action: Any) -> Any:
        """Be the turn that begins an episode."""
        self.ended = False
        observation, info = self.env.reset()
        return observation, 0.0, False, False, info


class SameStep(Episodes):
    """A lane whose turn that ends an episode begins the next one too."""

    def turn(self, action: Any) -> Any:
        """Return observation and info of the new episode if the old one ended, the rest of the old one."""
        outcome = self._step(action)
        observation, reward, terminated, truncated, info = outcome
        if terminated or truncated:
            # Packed and copied now, because the environment may use the same objects again.
            self.final = copy.deepcopy(observation), pack(info, "info", opaque=True) if info else {}
            observation, info = self.env.reset()
            return observation, reward, terminated, truncated, info
        return outcome


MODES: dict[str, type[Episodes]] = {"disabled": Episodes, "next_step": NextStep, "same_step": SameStep}
