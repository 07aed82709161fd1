"""The program of a worker that is started afresh instead of forked (``start_method=spawn``)."""

from __future__ import annotations

import json

from openenv_gym.providers.inherit import apply_filters

from .settings import ServerSettings
from .targets import resolve
from .template import prepare
from .worker import run_worker

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Run the worker; the body of its process."""
    given = json.loads(arguments[0])
    prepare(given["parent"], given["log"])
    with open(given["setup"], encoding="utf-8") as file:
        file.seek(0)
        setup = json.load(file)
    settings, target = ServerSettings.from_wire(setup["settings"]), resolve(setup["target"])
    target.preload()
    apply_filters()
    run_worker(settings, target, given["control"], given["board"])
