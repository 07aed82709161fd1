"""What holds environments to their contracts.

:func:`check_remote` compares a remote environment with the local one, :func:`check_vector_env` checks any
vector environment; the others are the comparison that both rest on.
"""

from .compare import canonical, difference, digest, same
from .remote import Agreement, check_remote
from .vector import Finding, VectorEnvCheckError, VectorReport, check_vector_env

__all__ = [
    "Agreement",
    "Finding",
    "VectorEnvCheckError",
    "VectorReport",
    "canonical",
    "check_remote",
    "check_vector_env",
    "difference",
    "digest",
    "same",
]
