"""An environment that says what it was told."""

from .env import EchoEnv

__all__ = ["EchoEnv"]
