"""Equality that tests can trust: type, dtype, shape and bits all count."""

from openenv_gym.testing.compare import canonical, digest, same

__all__ = ["canonical", "digest", "same"]
