"""Gymnasium wrappers for remote environments."""

from .record import RecordTrajectory
from .replay import ReplayDifferenceError, Replayed, replay
from .timing import StepTiming

__all__ = ["RecordTrajectory", "ReplayDifferenceError", "Replayed", "StepTiming", "replay"]
