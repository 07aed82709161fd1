"""What holds a remote environment to the local one: :func:`check_remote`, and the comparison it rests on."""

from .compare import canonical, difference, digest, same
from .remote import Agreement, check_remote

__all__ = ["Agreement", "canonical", "check_remote", "difference", "digest", "same"]
