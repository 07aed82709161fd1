"""Gymnasium wrappers for remote environments."""

from .record import RecordTrajectory
from .replay import ReplayDifferenceError, Replayed, replay

__all__ = ["RecordTrajectory", "ReplayDifferenceError", "Replayed", "replay"]
