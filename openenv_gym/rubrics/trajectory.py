"""Rubrics that score an episode when it is over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar, Self, TypeAlias

from ..errors import ConfigError, RubricError
from .base import Rubric, Score, finite, finite_setting
from .flow import Flow, settle

__all__ = ["ExponentialDiscountingTrajectoryRubric", "TrajectoryRubric"]

Trajectory: TypeAlias = list[tuple[Any, Any]]
"""Actions, each with the observation that came of it."""

_ENDS = ("done", "terminated", "truncated")


class TrajectoryRubric(Rubric):
    """Collects the steps of an episode and scores them at its end.

    Until then the score is ``intermediate_reward``. Subclasses write :meth:`score_trajectory` and
    :meth:`compute_step_rewards`. Observations are kept as they are: an environment that changes one after it
    returned it changes the trajectory, too.

    Args:
        intermediate_reward: Score of every step but the last, a finite number.
    """

    settings: ClassVar[tuple[str, ...]] = ("intermediate_reward",)

    _steps: Trajectory
    _final_score: float | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        self._steps = []
        self._intermediate_reward = 0.0
        return self

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        self.intermediate_reward = intermediate_reward

    @property
    def intermediate_reward(self) -> float:
        """Score of every step but the last."""
        return self._intermediate_reward

    @intermediate_reward.setter
    def intermediate_reward(self, value: float) -> None:
        self._intermediate_reward = finite_setting("intermediate_reward", value)

    @property
    def trajectory(self) -> Trajectory:
        """The steps of the episode so far; a copy."""
        return list(self._steps)

    @property
    def final_score(self) -> float | None:
        """What :meth:`score_trajectory` gave; ``None`` until the episode is over."""
        return self._final_score

    @abstractmethod
    def score_trajectory(self, trajectory: Trajectory) -> float | Awaitable[float]:
        """Return the score of a whole episode; may be a coroutine function. Called once, at its end.

        Args:
            trajectory: All actions, each with the observation that came of it.
        """

    @abstractmethod
    def compute_step_rewards(self) -> list[float]:
        """Return what each step of the episode has earned, in their order; see :attr:`final_score`."""

    def forward(self, action: Any, observation: Any) -> Score:
        """Collect the step, and return its score.

        Raises:
            RubricError: The observation does not say whether the episode is over, or that was said before.
        """
        return settle(self._collected(action, observation))

    def credit(self) -> list[float]:
        """Return :meth:`compute_step_rewards`, checked.

        Raises:
            RubricError: The episode is not over, or the rewards are not one finite number for each step.
        """
        if self._final_score is None:
            raise RubricError(f"{self._label} gives credit when the episode is over", rubric=self._label)
        rewards = [finite(self, reward, "reward of a step") for reward in self.compute_step_rewards()]
        if len(rewards) != len(self._steps):
            raise RubricError(
                f"{self._label} gave {len(rewards)} rewards for {len(self._steps)} steps", rubric=self._label
            )
        return rewards

    def reset(self) -> None:
        """Begin an episode: forget the steps of the last one."""
        super().reset()
        self._steps = []
        self._final_score = None

    def _collected(self, action: Any, observation: Any) -> Flow[float]:
        if self._steps and _is_over(self._steps[-1][1]):
            raise RubricError(
                f"{self._label} was called after the end of its episode; begin the next with reset()",
                rubric=self._label,
            )
        if not any(hasattr(observation, end) for end in _ENDS):
            kind = type(observation).__name__
            raise RubricError(
                f"{self._label} needs observations with a `done`, which {kind} has not", rubric=self._label
            )
        self._steps.append((action, observation))
        if not _is_over(observation):
            return self.intermediate_reward
        self._final_score = finite(self, (yield self.score_trajectory(self.trajectory)))
        return self._final_score


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Gives the step ``t`` of ``T`` (from 0) the share ``gamma ** (T - 1 - t)`` of the final score.

    Args:
        gamma: From 0 (the last step gets all) to 1 (each gets as much).
        intermediate_reward: Score of every step but the last, a finite number.

    Raises:
        ConfigError: ``gamma`` is not between 0 and 1.
    """

    settings: ClassVar[tuple[str, ...]] = ("gamma", "intermediate_reward")

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward)
        self.gamma = gamma

    @property
    def gamma(self) -> float:
        """Share of the final score that each step gets of what the one after it gets."""
        return self._gamma

    @gamma.setter
    def gamma(self, value: float) -> None:
        gamma = finite_setting("gamma", value)
        if not 0.0 <= gamma <= 1.0:
            raise ConfigError(f"gamma has to be between 0 and 1, not {value!r}", argument="gamma")
        self._gamma = gamma

    def compute_step_rewards(self) -> list[float]:
        """Return what each step has earned; nothing before the episode is over.

        Returns:
            One reward for each step, in their order.
        """
        if self.final_score is None:
            return []
        last = len(self._steps) - 1
        return [self.final_score * self.gamma ** (last - step) for step in range(last + 1)]


def _is_over(observation: Any) -> bool:
    return any(bool(getattr(observation, end, False)) for end in _ENDS)
