"""What a client may do next with its environment, whatever was interrupted."""

from __future__ import annotations

from ..errors import InterruptedStepError, OpenEnvError, ResetNeededError
from ..protocol.messages import Call, Reset, Set, Step

__all__ = ["INTERRUPTED", "Episode", "Obstacle"]

Obstacle = tuple[type[OpenEnvError], str]

#: Why nothing but ``reset`` goes on after an interrupted request that may have changed the environment.
INTERRUPTED: dict[type, Obstacle] = {
    kind: (InterruptedStepError, f"the last {name} was interrupted, so its result is unknown; call reset()")
    for kind, name in {Step: "step", Reset: "reset", Set: "assignment", Call: "method call"}.items()
}


class Episode:
    """Whether an episode can be stepped, and why not.

    While a request that changes the environment is under way, ``live`` is false and ``obstacle`` one of
    :data:`INTERRUPTED`. It becomes true again when the result is with the caller: so an interrupt at whatever
    place, or several of them, never passes for a step that was not taken. This is an object of its own
    because an assignment to its slots is one step of the interpreter, which nothing interrupts.

    Attributes:
        live: Whether there is an episode to step.
        obstacle: What to raise while there is none.
    """

    __slots__ = ("live", "obstacle")

    def __init__(self) -> None:
        self.live = False
        self.obstacle: Obstacle = ResetNeededError, "there is no episode yet; call reset() first"

    @property
    def interrupted(self) -> bool:
        """Whether the last request that changes the environment was interrupted."""
        return not self.live and self.obstacle[0] is InterruptedStepError
