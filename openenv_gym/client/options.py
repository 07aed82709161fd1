"""Arguments of typed clients, which have the names that OpenEnv's clients gave them, as our settings."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

from ..errors import ConfigError
from .settings import ClientSettings, take_settings

__all__ = ["client_mode", "client_settings", "with_scheme"]

_MODES = ("simulation", "production")


def client_mode(mode: str | None) -> str:
    """Return ``mode``, else the variable ``OPENENV_CLIENT_MODE``, else ``"simulation"``.

    Raises:
        ConfigError: It is neither ``"simulation"`` nor ``"production"``.
    """
    chosen = os.environ.get("OPENENV_CLIENT_MODE") or "simulation" if mode is None else mode
    if not isinstance(chosen, str) or chosen.lower() not in _MODES:
        raise ConfigError(
            f"mode (OPENENV_CLIENT_MODE) is {chosen!r}; write 'simulation' for reset and step, or"
            " 'production' for tools only"
        )
    return chosen.lower()


def with_scheme(base_url: str) -> str:
    """Return ``base_url``; one that is ``host:port`` alone gets ``ws://``."""
    if isinstance(base_url, str) and base_url and "://" not in base_url and not base_url.startswith("unix:"):
        return f"ws://{base_url}"
    return base_url


def client_settings(
    *,
    base_url: str | None,
    connect_timeout_s: float | None,
    message_timeout_s: float | None,
    max_message_size_mb: float,
    websocket_ping_interval_s: float | None,
    websocket_ping_timeout_s: float | None,
    provider: str | None,
    headers: dict[str, str] | None,
    token: str | None,
    env_kwargs: dict[str, Any] | None,
    provider_kwargs: dict[str, Any] | None,
    hosted: bool,
) -> ClientSettings:
    """Return the settings that a typed client's arguments and the environment variables ask for.

    They are those of :class:`~openenv_gym.client.typed.EnvClient`; ``hosted`` says that a provider object
    will tell where the server is.

    Raises:
        ConfigError: A value is impossible.
    """
    if not isinstance(max_message_size_mb, int | float) or not 0 < max_message_size_mb < math.inf:
        raise ConfigError(f"max_message_size_mb is {max_message_size_mb!r}; write a positive number of MiB")
    if hosted and provider_kwargs:
        raise ConfigError("provider_kwargs are options of a named provider; give them to the object itself")
    pings = (
        _seconds("websocket_ping_interval_s", websocket_ping_interval_s),
        _seconds("websocket_ping_timeout_s", websocket_ping_timeout_s),
    )
    settings = take_settings(
        {
            "base_url": base_url,
            "provider": provider,
            "provider_kwargs": provider_kwargs,
            "connect_timeout": _seconds("connect_timeout_s", connect_timeout_s),
            "step_timeout": _seconds("message_timeout_s", message_timeout_s),
            "keepalive": None if None in pings else pings,
            "headers": headers,
            "token": token,
            "env_kwargs": env_kwargs,
        },
        {name: text for name, text in os.environ.items() if not hosted or name != "OPENENV_BASE_URL"},
    )
    return dataclasses.replace(settings, max_message=int(max_message_size_mb * (1 << 20)))


def _seconds(name: str, value: Any) -> float | None:
    """Return ``value`` of the argument ``name``; ``None`` and infinity are no limit."""
    if value is None or value == math.inf:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(
            f"{name} is {value!r}; write a positive number of seconds, or None for no limit", argument=name
        )
    return float(value)
