"""The program of a worker that is started afresh instead of forked (``start_method=spawn``)."""

from __future__ import annotations

from typing import Any

from .settings import ServerSettings
from .targets import resolve
from .template import prepare
from .worker import run_worker

__all__ = ["main"]


def main(arguments: dict[str, Any]) -> None:
    """Run the worker; the body of its process."""
    prepare(arguments["parent"], arguments["log"])
    settings = ServerSettings.from_wire(arguments["settings"])
    run_worker(settings, resolve(arguments["target"]), arguments["control"], arguments["board"])
