"""Echo as an ASGI application, and as a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from openenv_gym import create_app

from .environment import EchoEnvironment

__all__ = ["app", "main"]

app = create_app(EchoEnvironment, env_name="echo")
"""For ``uvicorn``, and for mounting in another application."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve Echo until a signal comes, with the options of ``python -m openenv_gym.serve``.

    Args:
        arguments: The command line without the program; ``None``: that of this process.

    Returns:
        The exit code.
    """
    package = (__package__ or "").removesuffix(".server")
    given = sys.argv[1:] if arguments is None else arguments
    code: int = import_module("openenv_gym.serve").main([f"{package}:EchoEnvironment", *given])
    return code


if __name__ == "__main__":
    sys.exit(main())
