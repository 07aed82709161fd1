"""Many lanes of a remote environment as one ``gymnasium.vector.VectorEnv``."""

from .halves import Halves
from .ready import Batch
from .record import RecordTrajectory
from .remote_vector_env import RemoteVectorEnv
from .sb3 import to_sb3
from .tianshou import to_tianshou
from .timing import StepTiming

__all__ = ["Batch", "Halves", "RecordTrajectory", "RemoteVectorEnv", "StepTiming", "to_sb3", "to_tianshou"]
