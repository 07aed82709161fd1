"""Rubrics: rewards as trees of scores.

The shape follows RFC 004 of OpenEnv: a rubric scores an action and the observation that came of it, and
rubrics assigned to its attributes are its children.
"""

from .base import Rubric, Score
from .chat import ChatModel
from .containers import Gate, RubricDict, RubricList, Sequential, WeightedSum
from .judge import LLMJudge
from .trajectory import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric

__all__ = [
    "ChatModel",
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "LLMJudge",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Score",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
]
