"""Bundled environments, one folder each."""

from __future__ import annotations

__all__ = ["BUNDLED"]

#: Name of each bundled environment, and where its class is.
BUNDLED: dict[str, str] = {"echo": "openenv_gym.envs.echo_env:EchoEnvironment"}
