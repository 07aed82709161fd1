"""What an environment server can be told: one table, from which options and environment variables derive.

Each field of :class:`ServerSettings` is the option ``--field-name`` of ``python -m openenv_gym.serve`` and
the environment variable ``OPENENV_FIELD_NAME``; :mod:`.options` reads them.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from openenv_gym.client.endpoint import is_loopback
from openenv_gym.errors import ConfigError, ForbiddenError

from .kinds import (
    JSON_OBJECT,
    NAMES,
    ORIGINS,
    SIZE,
    SWITCH,
    TEXT,
    TOKEN,
    Kind,
    choice,
    integer,
    interval,
    optional,
    seconds,
)

__all__ = ["ServerSettings", "env_variable", "flag"]

_COUNT = integer(1, 1_000_000)
_FD = optional(integer(0, 1 << 20, "FD"), "none")
_SPAN = seconds()
_START = "fork" if hasattr(os, "fork") and sys.platform != "darwin" else "spawn"


def _option(
    group: str, kind: Kind, default: Any, text: str, *, shown: str | None = None, secret: bool = False
) -> Any:
    """Return a field of the table. ``shown`` replaces the default in ``--help``."""
    metadata = {"group": group, "kind": kind, "help": text, "shown": shown}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)


_AT = "where it listens"
_WORK = "workers and sessions"
_TIME = "time limits"
_SAFE = "who may do what"
_WIRE = "the wire"
_ENV = "the environment"
_LIFE = "the server process"


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of an environment server, checked when they are made.

    ``python -m openenv_gym.serve --help`` describes each field. Time spans are seconds, sizes bytes. Of a
    deadline or timeout ``None`` and infinity mean "no limit"; 0, negative and NaN are refused.

    Raises:
        ConfigError: A value is impossible; the message names the option and its environment variable.
    """

    host: str = _option(
        _AT,
        TEXT,
        "127.0.0.1",
        "Address to bind. Anything but loopback needs --token or --insecure. '::' is all of IPv6 and IPv4.",
    )
    port: int = _option(_AT, integer(0, 65535, "PORT"), 8000, "TCP port; 0 lets the system pick one.")
    uds: str | None = _option(
        _AT,
        optional(Kind("PATH", str, TEXT.check), "none"),
        None,
        "Listen on this Unix socket, with mode 0600, instead of TCP.",
    )
    workers: int | None = _option(
        _WORK,
        optional(integer(0, 1024), "auto"),
        None,
        "Worker processes; 0 runs sessions in threads of the server process.",
        shown="one a core",
    )
    sessions_per_worker: int = _option(
        _WORK,
        integer(0, 1_000_000),
        0,
        "Most sessions in one worker; 1 gives each session a process of its own.",
        shown="0, no limit",
    )
    start_method: str = _option(
        _WORK, choice("fork", "spawn"), _START, "How workers start: forked from a warm template, or anew."
    )
    max_sessions: int = _option(_WORK, _COUNT, 4096, "Most sessions at once; a newcomer waits for a slot.")
    slot_wait: float = _option(
        _WORK,
        seconds(zero=True, unlimited=False),
        60.0,
        "Longest that a client may wait for a slot, whatever it asks for; 0 refuses at once.",
    )
    max_lanes: int = _option(_WORK, _COUNT, 4096, "Most lanes (copies of the environment) in one session.")
    lane_threads: int | None = _option(
        _WORK,
        optional(integer(1, 256), "auto"),
        None,
        "Threads in a worker for the lanes of one session.",
        shown="auto: one while a step waits less than a millisecond, else one a lane",
    )
    idle_timeout: float | None = _option(
        _TIME, _SPAN, 3600.0, "End a session whose client was silent for so long."
    )
    http_session_ttl: float | None = _option(
        _TIME, _SPAN, 900.0, "End a session of HTTP or MCP that no request used for so long."
    )
    resume_grace: float = _option(
        _TIME,
        seconds(zero=True, unlimited=False),
        30.0,
        "Keep the session of a lost connection for so long; a newcomer who waits may get its slot earlier.",
    )
    step_deadline: float | None = _option(_TIME, _SPAN, None, "Longest step().")
    reset_deadline: float | None = _option(_TIME, _SPAN, None, "Longest reset().")
    construction_deadline: float | None = _option(_TIME, _SPAN, None, "Longest constructor.")
    token: str | None = _option(
        _SAFE,
        optional(TOKEN),
        None,
        "Clients must send this ('Authorization: Bearer TOKEN'). 'env:NAME' takes it from the variable NAME: "
        "that keeps it out of the process list.",
        shown="none asked for",
        secret=True,
    )
    insecure: bool = _option(
        _SAFE, SWITCH, False, "Listen on a reachable address without a token: whoever gets there may use it."
    )
    allowed_origins: tuple[str, ...] = _option(
        _SAFE,
        ORIGINS,
        (),
        "Web pages that may connect, such as https://example.org; '*' for all. Clients that are no browser "
        "send no Origin and pass.",
    )
    allow_env_kwargs: tuple[str, ...] | None = _option(
        _SAFE,
        optional(NAMES),
        None,
        "Constructor arguments that clients may set; 'all' or 'none'.",
        shown="all on loopback and Unix sockets, else none",
    )
    mode: str = _option(
        _SAFE,
        choice("simulation", "production"),
        "simulation",
        "In production nobody can reset or step: /reset, /step, /state and binary sessions are refused;"
        " agents reach tools over /mcp.",
    )
    attributes: bool = _option(
        _SAFE, SWITCH, True, "Access to the environment's public attributes and methods."
    )
    max_message_size: int = _option(_WIRE, SIZE, 256 << 20, "Largest message, such as 64MiB.")
    keepalive: float | None = _option(
        _WIRE,
        interval(),
        20.0,
        "Show clients a sign of life this often while a call runs, and probe silent connections as often.",
    )
    compression: str = _option(
        _WIRE, choice("none", "deflate"), "none", "Compress messages: for slow links only, it costs speed."
    )
    handover: bool = _option(
        _WIRE, SWITCH, True, "Give each connection to its worker. Off: all data passes the server process."
    )
    env_kwargs: dict[str, Any] = _option(  # noqa: RUF009 (the default is a factory)
        _ENV,
        JSON_OBJECT,
        {},
        "Constructor arguments of every environment; those of a client come on top.",
        secret=True,
    )
    drain_timeout: float = _option(
        _LIFE,
        seconds(zero=True, unlimited=False),
        8.0,
        "On SIGTERM or Ctrl-C, let running calls finish for so long; a second signal cuts them.",
    )
    exit_when_idle: float | None = _option(_LIFE, _SPAN, None, "Exit after so long without any session.")
    ready_fd: int | None = _option(
        _LIFE,
        _FD,
        None,
        'Once connections are accepted, write {"base_url": ...} and a newline here, and close it.',
    )
    owner_fd: int | None = _option(
        _LIFE,
        _FD,
        None,
        "Exit when this becomes readable: a pidfd of the owner, or a pipe that it holds open.",
    )
    log_level: str = _option(
        _LIFE, choice("debug", "info", "warning", "error"), "info", "What to log, on standard error."
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "token":
                value = _resolve_token(value)
            try:
                value = item.metadata["kind"].check(value)
            except (ValueError, TypeError) as exc:
                raise ConfigError(f"{_title(item.name)}: {exc}", option=item.name) from None
            object.__setattr__(self, item.name, value)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.uds is not None or is_loopback(self.host)

    def check_exposure(self) -> None:
        """Refuse to be reachable without protection.

        Raises:
            ConfigError: The address is not loopback, and neither a token nor ``insecure`` is set.
        """
        if not (self.is_local or self.token or self.insecure):
            raise ConfigError(
                f"--host {self.host} is reachable from other machines: set --token (OPENENV_TOKEN), or "
                "accept with --insecure (OPENENV_INSECURE=on) that anyone who gets there may use it",
                option="host",
            )

    @property
    def worker_count(self) -> int:
        """Number of worker processes; 0: threads of the server process.

        Raises:
            ConfigError: Processes were asked for where they cannot be had.
        """
        if not all((hasattr(os, "fork"), hasattr(os, "memfd_create"), hasattr(socket, "AF_UNIX"))):
            if self.workers:
                raise ConfigError(
                    f"{_title('workers')}: worker processes need Linux; here, use 0", option="workers"
                )
            return 0
        if self.workers is not None:
            return self.workers
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def places(self) -> int:
        """Most sessions that one worker can hold, and one more for a look at the environment."""
        return min(self.sessions_per_worker or self.max_sessions, self.max_sessions) + 1

    def check_env_kwargs(self, kwargs: Mapping[str, Any], *, local: bool) -> None:
        """Check that a client may set these constructor arguments.

        Args:
            kwargs: What the client asks for.
            local: Whether the client is on this machine. Only then, and only if the server is bound to
                loopback or a Unix socket, every argument is allowed unless ``allow_env_kwargs`` is set.

        Raises:
            ForbiddenError: It may not; the message names the arguments and the option.
        """
        allowed = self.allow_env_kwargs
        if allowed is None:
            allowed = ("*",) if local and self.is_local else ()
        refused = [] if "*" in allowed else sorted(set(kwargs) - set(allowed))
        if refused:
            names = ", ".join(map(repr, refused))
            raise ForbiddenError(
                f"clients of this server may not set the constructor argument {names};"
                f" --allow-env-kwargs (OPENENV_ALLOW_ENV_KWARGS) names {', '.join(allowed) or 'none'}",
                option="allow_env_kwargs",
                names=refused,
            )

    def to_wire(self) -> dict[str, Any]:
        """Return what a worker needs to know, in JSON values: all but the token and the descriptors."""
        left_out = ("token", "ready_fd", "owner_fd")
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in left_out}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_wire(cls, values: Mapping[str, Any]) -> ServerSettings:
        """Return the settings that :meth:`to_wire` wrote."""
        return cls(**values)


def flag(name: str) -> str:
    """Return the command-line option of the field ``name``."""
    return "--" + name.replace("_", "-")


def env_variable(name: str) -> str:
    """Return the environment variable of the field ``name``."""
    return "OPENENV_" + name.upper()


def _title(name: str) -> str:
    return f"{name} ({flag(name)}, {env_variable(name)})"


def _resolve_token(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("env:"):
        return value
    token = os.environ.get(value[4:])
    if not token:
        raise ConfigError(
            f"{_title('token')}: the environment variable {value[4:]!r} is not set or empty", option="token"
        )
    return token
