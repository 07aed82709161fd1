"""What happens after a session was lost: whether its lanes go on, and how often."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode

from openenv_gym.errors import OpenEnvError, ServerConnectionError, SessionLostError

from .fleet import Part

__all__ = ["Recovery"]


class Recovery:
    """Decides about losses.

    Args:
        truncates: See below.
        mode: The autoreset mode in force.
        most: How often in a row a session may be started again; ``None``: without limit.

    Attributes:
        truncates: Whether a loss ends episodes as truncated, rather than being raised.
        at_once: Whether lanes that lost their session begin their next episode in the same step.
        later: Whether they do in the next one.
    """

    def __init__(self, *, truncates: bool, mode: AutoresetMode | None, most: int | None) -> None:
        self.at_once = mode is AutoresetMode.SAME_STEP
        self.later = mode is AutoresetMode.NEXT_STEP
        self.truncates = truncates
        self._most = most

    def makes_good(self, exc: OpenEnvError) -> bool:
        """Return whether ``exc`` ends episodes as truncated: it is a loss, not what an environment raised."""
        return self.truncates and isinstance(exc, SessionLostError | ServerConnectionError)

    def cause_of(self, part: Part) -> OpenEnvError:
        """Return how the session of ``part`` was lost the last time."""
        if isinstance(part.cause, OpenEnvError):
            return part.cause
        return SessionLostError("the session was lost", server=part.server)

    def refusal(self, part: Part) -> OpenEnvError | None:
        """Return why a part is not started again, ``None`` if it may be."""
        if self._most is None or part.losses <= self._most:
            return None
        cause = self.cause_of(part)
        error = SessionLostError(
            f"the session was lost {part.losses} times in a row, and max_restarts={self._most}; the last"
            f" time: {cause.message}",
            server=part.server,
            **cause.details,
        )
        error.__cause__ = cause
        return error
