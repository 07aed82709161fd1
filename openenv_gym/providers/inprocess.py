"""A server in threads of this process: breakpoints and coverage reach the environment."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError
from .base import Provider

__all__ = ["InProcessProvider"]

_LOG = logging.getLogger("openenv_gym.client")
_OWN = ("uds", "host", "port", "token", "workers", "ready_fd", "owner_fd")


class InProcessProvider(Provider):
    """Runs the server, its sessions included, in threads of this process, on loopback TCP with a token.

    ``options`` are the settings of the server (``max_sessions=4``). What environments print is printed.
    """

    name = "inprocess"

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        for option in options:
            if option in _OWN:
                raise ConfigError(f"provider_kwargs: {option!r} is set by the provider; leave it out")
        self._server: Any = None

    def start(self) -> str:
        """Start the server; it takes connections when this returns. See :meth:`Provider.start`."""
        self.token = secrets.token_urlsafe(24)
        settings = importlib.import_module("openenv_gym.servers.settings").ServerSettings
        _check_names(self.options, settings.__dataclass_fields__)
        run = importlib.import_module("openenv_gym.servers.run")
        options = {"idle_timeout": None, "drain_timeout": 3.0, **self.options}
        self.owner = os.getpid()
        self._server = run.serve_in_thread(
            settings(host="127.0.0.1", port=0, workers=0, token=self.token, **options), self.target
        )
        return str(self._server.base_url)

    def wait_ready(self, timeout: float | None) -> None:
        """Return: the server is ready."""

    def alive(self) -> bool:
        """Return whether the server runs; threads do not survive a fork."""
        return self._server is not None and self.owner == os.getpid() and bool(self._server.alive)

    def stop(self) -> None:
        """Stop the server, if this process started it."""
        server, self._server = self._server, None
        if server is not None and self.owner == os.getpid():
            try:
                server.stop()
            except Exception as exc:  # what ended it by itself; there is nothing left to stop
                _LOG.warning("the server for %r had failed: %r", self.target, exc)


def _check_names(options: Iterable[str], known: Iterable[str]) -> None:
    import difflib

    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"provider_kwargs: the server has no option {option!r}{hint}", option=option)
