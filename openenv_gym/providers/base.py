"""What a provider does, which ones there are, and the servers that the envs of a process share."""

from __future__ import annotations

import atexit
import importlib
import json
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ..client.deadline import deadline_in, time_left
from ..errors import ConfigError

__all__ = ["Provider", "provider_class", "shared_provider", "sweep"]

_LOG = logging.getLogger("openenv_gym.client")
_BUILTIN = {
    "process": "openenv_gym.providers.process:ProcessProvider",
    "inprocess": "openenv_gym.providers.inprocess:InProcessProvider",
}


class Provider(ABC):
    """Runs one server for one target.

    A subclass is named by import string, ``provider="package.module:Class"``; it implements the abstract
    methods, and ``__init__`` with the options it takes.

    Args:
        target: What the server hosts, as ``python -m openenv_gym.serve`` takes it.
        options: Options of the provider (``provider_kwargs``).

    Attributes:
        token: Bearer token that the server asks for, or ``None``.
        owner: Process id of the process that made the provider. Forked children use its server and never
            stop it.

    Raises:
        ConfigError: An option is wrong.
    """

    name: ClassVar[str] = ""

    def __init__(self, target: str, **options: Any) -> None:
        self.target = target
        self.options = options
        self.token: str | None = None
        self.owner = os.getpid()
        self._base_url: str | None = None
        self._launched: str | None = None
        #: What the user allows for the start, of which ``wait_ready`` gets what is left.
        self._allowed: float | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def start(self) -> str:
        """Start the server and return its ``base_url``; it need not take connections yet.

        Raises:
            StartupError: It cannot be started.
        """

    @abstractmethod
    def wait_ready(self, timeout: float | None) -> None:
        """Return once the server takes connections.

        Args:
            timeout: Seconds to wait; ``None``: unlimited.

        Raises:
            StartupError: It ended instead.
            StartupTimeoutError: It is not ready in time.
        """

    def located(self, base_url: str) -> str:
        """Return where the server takes connections, now that it is ready: as a rule what ``start`` said."""
        return base_url

    @abstractmethod
    def alive(self) -> bool:
        """Return whether the server that was started still runs and can be used by this process."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server and remove what belongs to it. May be called again, and after it died."""

    def logs(self, lines: int = 50) -> str:
        """Return the last lines that the server and its environments printed."""
        return ""

    def forward(self) -> None:  # noqa: B027 - there may be nothing to do
        """Hand what was printed since the last call to the logger ``openenv_gym.server``."""

    def ending(self) -> str:
        """Return how the server ended, such as ``"exit code 1"``; empty when that is unknown."""
        return ""

    @classmethod  # noqa: B027 - there may be nothing to do
    def sweep(cls) -> None:
        """Remove what servers left behind whose owner died."""

    def ensure(self, timeout: float | None) -> tuple[str, bool]:
        """Return the ``base_url`` of a running server, started now if there is none, and whether it was.

        Args:
            timeout: Seconds that a server may take to start; ``None``: unlimited.

        Raises:
            StartupError: It does not start; nothing is left of it.
        """
        with self._lock:
            if self._base_url is not None:
                if self.alive():
                    return self._base_url, False
                self._base_url = None
                self.stop()
            self._allowed, deadline = timeout, deadline_in(timeout)
            base_url, self._launched = self._launched, None
            try:
                base_url = base_url or self.start()
                self.wait_ready(time_left(deadline))
                base_url = self.located(base_url)
            except BaseException:
                self.stop()
                raise
            self._base_url = base_url
            return base_url, True

    def launch(self) -> None:
        """Start the server if there is none, and do not wait for it: :meth:`ensure` does.

        Raises:
            StartupError: It cannot be started.
        """
        with self._lock:
            if self._launched is not None or (self._base_url is not None and self.alive()):
                return
            if self._base_url is not None:
                self._base_url = None
                self.stop()
            try:
                self._launched = self.start()
            except BaseException:
                self.stop()
                raise

    def after_fork(self) -> None:
        """In a forked child: forget a lock that another thread of the parent may hold."""
        self._lock = threading.Lock()


def provider_class(name: str) -> type[Provider]:
    """Return the provider called ``name``, imported now.

    Raises:
        ConfigError: There is none.
    """
    where = _BUILTIN.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        known = ", ".join(map(repr, _BUILTIN))
        raise ConfigError(f"there is no provider {name!r}; write {known}, or 'package.module:ProviderClass'")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"the provider {name!r} cannot be imported: {exc}") from exc
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise ConfigError(f"{name!r} is no provider; derive it from openenv_gym.providers.base.Provider")
    return found


_shared: dict[tuple[str, str, str, int], Provider] = {}
_lock = threading.Lock()


def shared_provider(name: str, target: str, options: Mapping[str, Any], number: int = 0) -> Provider:
    """Return the provider that all envs of this process with this target and these options share.

    Args:
        name: The provider.
        target: What its server hosts.
        options: Its options.
        number: Which one, of several servers for the same.

    Raises:
        ConfigError: There is no such provider, or an option is wrong.
    """
    try:
        key = name, target, json.dumps(options, sort_keys=True), number
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"provider_kwargs must be what JSON can hold: {exc}") from None
    with _lock:
        provider = _shared.get(key)
        if provider is None:
            kind = provider_class(name)
            kind.sweep()
            try:
                provider = kind(target, **options)
            except TypeError as exc:
                raise ConfigError(f"provider_kwargs: {exc}") from exc
            _shared[key] = provider
        return provider


def sweep() -> None:
    """Remove what local servers left behind whose owner died without a chance to."""
    provider_class("process").sweep()


def _stop_all() -> None:
    for provider in list(_shared.values()):
        if provider.owner == os.getpid():
            try:
                provider.stop()
            except Exception as exc:
                _LOG.warning("the server for %r was not stopped in order: %s", provider.target, exc)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for provider in _shared.values():
        provider.after_fork()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
