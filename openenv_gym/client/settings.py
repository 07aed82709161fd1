"""What a client can be told: keyword arguments of our own, environment variables, defaults.

Of an env's keyword arguments those that :class:`ClientSettings` lists are ours, all others go to the
environment's constructor; ``env_kwargs`` always does. An argument that was not given comes from its
environment variable ``OPENENV_<NAME>``, else it has its default.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..errors import ConfigError
from . import secrets
from .endpoint import parse_endpoint

__all__ = ["VECTOR_OPTIONS", "ClientSettings", "take_settings"]

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NONE = ("none", "off", "never")
_FORBIDDEN_HEADERS = ("host", "upgrade", "connection", "content-length", "transfer-encoding")
_SIMILAR = 0.85
#: Arguments that only a vector environment takes.
VECTOR_OPTIONS = (
    "autoreset_mode",
    "lane_threads",
    "lanes",
    "lanes_per_worker",
    "max_restarts",
    "num_envs",
    "servers",
    "vectorization_mode",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of one env, checked when they are made.

    Times are seconds. ``None`` and infinity mean "no limit"; 0, negative and NaN are refused.

    Attributes:
        base_url: The server: ``ws(s)://``, ``http(s)://`` (a path is kept as prefix) or ``unix:``; ``None``:
            ``provider`` runs one.
        provider: Who runs the server: ``"process"`` (default), ``"inprocess"`` or an import string
            ``"package.module:ProviderClass"``.
        provider_kwargs: Options of the provider, of ``"process"`` those of ``python -m openenv_gym.serve``.
        token: Bearer token; ``"env:NAME"`` reads the environment variable ``NAME``.
        headers: More headers for the handshake.
        step_timeout: Longest step or reset. The server stops what takes longer.
        connect_timeout: Longest time to reach a server, for each connection.
        startup_timeout: Longest time that a server we start may take until its first session is open.
        slot_timeout: How long to wait for a free slot; 0: not at all.
        on_error: ``"raise"``, or ``"truncate"``: a lost connection or session ends the episode as truncated.
        keepalive: ``(interval, timeout)``, or one number for both: after ``interval`` of silence the server
            is asked for a sign of life, and has ``timeout`` to give one. ``None``: never asked.
        timing: Whether the server says how long the parts of each step took, for
            :class:`openenv_gym.wrappers.StepTiming`.
        env_kwargs: Keyword arguments of the environment.
        max_message: Largest message accepted, in bytes (``OPENENV_MAX_MESSAGE_SIZE`` only).
        compression: Whether to offer compression (``OPENENV_COMPRESSION`` only).
    """

    base_url: str | None = None
    provider: str | None = None
    provider_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    step_timeout: float | None = None
    connect_timeout: float | None = 10.0
    startup_timeout: float | None = 120.0
    slot_timeout: float = 0.0
    on_error: str = "raise"
    keepalive: tuple[float, float] | None = (20.0, 20.0)
    timing: bool = False
    env_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_message: int = 256 << 20
    compression: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _CHECKS[item.name](item.name, getattr(self, item.name)))
        if self.base_url is not None and self.provider is not None:
            raise ConfigError("base_url and provider exclude each other: the provider starts its own server")
        names = {name.lower() for name in self.headers}
        if "authorization" in names and self.token is not None:
            raise ConfigError("token and an Authorization header exclude each other; leave one out")

    def __repr__(self) -> str:
        shown = parse_endpoint(self.base_url).url if self.base_url else None
        return f"ClientSettings(base_url={shown!r}, provider={self.provider!r}, on_error={self.on_error!r})"


def take_settings(kwargs: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> ClientSettings:
    """Return the settings that an env's keyword arguments and the environment variables ask for.

    Args:
        kwargs: All keyword arguments of the env; those that are not ours end up in ``env_kwargs``.
        environ: Environment variables; ``None``: those of this process.

    Raises:
        ConfigError: A value is impossible, or the name of an argument looks like a misspelt one of ours.
    """
    environ = os.environ if environ is None else environ
    ours = {name: value for name, value in kwargs.items() if name in _KEYWORDS}
    given = {name for name, value in ours.items() if value is not None or name not in _OPTIONAL}
    if "base_url" in given and ours.get("provider_kwargs"):
        raise ConfigError("provider_kwargs are for a server that a provider starts; base_url names another")
    values = {name: secrets.restore(name, ours[name]) for name in given}
    for name, (variable, _) in _VARIABLES.items():
        text = environ.get(variable, "")
        if name not in given and text and not _decided(name, given):
            values[name] = _read(name, text)
    values["env_kwargs"] = _environment_kwargs(kwargs, values.get("env_kwargs"))
    return ClientSettings(**values)


def _decided(name: str, given: set[str]) -> bool:
    """Return whether an argument rules out what a variable says about the same question."""
    return name in ("base_url", "provider", "provider_kwargs") and not given.isdisjoint(
        ("base_url", "provider")
    )


def _environment_kwargs(kwargs: Mapping[str, Any], explicit: Any) -> dict[str, Any]:
    others = {name: value for name, value in kwargs.items() if name not in _KEYWORDS}
    chosen = _check_mapping("env_kwargs", explicit if explicit is not None else {})
    for name in others:
        if name in VECTOR_OPTIONS:
            raise ConfigError(
                f"{name!r} is an option of vector environments, which gym.make_vec makes when it is given no"
                " vectorization_mode (or 'vector_entry_point'); if the environment itself takes it, pass"
                f" env_kwargs={{{name!r}: ...}}",
                argument=name,
            )
        if name in chosen:
            raise ConfigError(f"{name!r} is given twice, by itself and in env_kwargs; leave one out")
        _check_spelling(name)
    return {**others, **chosen}


def _check_spelling(name: str) -> None:
    import difflib

    close = difflib.get_close_matches(name, _KEYWORDS, n=1, cutoff=_SIMILAR)
    if close:
        raise ConfigError(
            f"unknown argument {name!r}; did you mean {close[0]!r}? If the environment itself takes it,"
            f" pass env_kwargs={{{name!r}: ...}}",
            argument=name,
        )


# -- checks: value to the value that is stored


def _check_url(name: str, value: Any) -> str | None:
    if isinstance(value, list | tuple):
        raise ConfigError(
            "base_url is a list, which vector environments take: gym.make_vec without vectorization_mode"
            " makes one; pass one address here"
        )
    if value is not None:
        parse_endpoint(value)
    return value  # type: ignore[no-any-return]


def _check_provider(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"provider is {value!r}; write a name such as 'process', or 'module:Class'")
    return value


def _check_token(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError("token is not a text; pass the server's token, or 'env:NAME'")
    if value.startswith("env:"):
        variable = value[4:]
        value = os.environ.get(variable, "")
        if not value:
            raise ConfigError(f"token='env:{variable}': the environment variable {variable!r} is not set")
    if any(not 33 <= ord(char) <= 126 for char in value):
        raise ConfigError("token holds spaces or characters outside ASCII, which no header can carry")
    return str(value)


def _check_headers(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"headers is a {type(value).__name__}; pass a dict of texts")
    for key, text in value.items():
        if not isinstance(key, str) or not key or any(not 33 <= ord(c) <= 126 or c == ":" for c in key):
            raise ConfigError(f"headers: {key!r} is not the name of a header")
        if key.lower() in _FORBIDDEN_HEADERS or key.lower().startswith("sec-websocket-"):
            raise ConfigError(f"headers: {key!r} is set by the handshake itself; leave it out")
        if not isinstance(text, str) or any((ord(c) < 32 and c != "\t") or ord(c) > 126 for c in text):
            raise ConfigError(f"headers[{key!r}] is not a text of visible ASCII characters")
    return dict(value)


def _check_timeout(name: str, value: Any) -> float | None:
    if value is None or value == math.inf:
        return None
    if not _is_number(value) or not value > 0:
        raise ConfigError(f"{name} is {value!r}; write a positive number of seconds, or None for no limit")
    return float(value)


def _check_slot_timeout(name: str, value: Any) -> float:
    if value is None:
        return math.inf
    if not _is_number(value) or not value >= 0:
        raise ConfigError(
            f"{name} is {value!r}; write a number of seconds, 0 not to wait, or None to wait without limit"
        )
    return float(value)


def _check_on_error(name: str, value: Any) -> str:
    if value not in ("raise", "truncate"):
        raise ConfigError(f"on_error is {value!r}; write 'raise' or 'truncate'")
    return str(value)


def _check_keepalive(name: str, value: Any) -> tuple[float, float] | None:
    if value is None or value == math.inf:
        return None
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2 or not all(_is_number(span) and 0 < span < math.inf for span in pair):
        raise ConfigError(
            f"keepalive is {value!r}; write (interval, timeout) in seconds, one number for both, or None"
        )
    return float(pair[0]), float(pair[1])


def _check_mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{name} is a {type(value).__name__}; pass a dict with names as keys")
    return dict(value)


def _check_size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1024:
        raise ConfigError(f"{name} is {value!r}; write a number of bytes, at least 1024")
    return value


def _check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; write True or False")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "base_url": _check_url,
    "provider": _check_provider,
    "provider_kwargs": _check_mapping,
    "token": _check_token,
    "headers": _check_headers,
    "step_timeout": _check_timeout,
    "connect_timeout": _check_timeout,
    "startup_timeout": _check_timeout,
    "slot_timeout": _check_slot_timeout,
    "on_error": _check_on_error,
    "keepalive": _check_keepalive,
    "timing": _check_flag,
    "env_kwargs": _check_mapping,
    "max_message": _check_size,
    "compression": _check_flag,
}

_KEYWORDS = tuple(name for name in _CHECKS if name not in ("max_message", "compression"))
#: Arguments of which ``None`` says nothing.
_OPTIONAL = ("base_url", "provider", "provider_kwargs", "token", "headers", "env_kwargs", "on_error")


# -- reading of environment variables: text to value


def _read(name: str, text: str) -> Any:
    variable, read = _VARIABLES[name]
    try:
        value = read(text)
        _CHECKS[name](name, value)  # now, while it is known where the value came from
    except ConfigError as exc:
        raise ConfigError(f"the environment variable {variable}: {exc.message}", **exc.details) from None
    except ValueError as exc:
        raise ConfigError(f"the environment variable {variable} cannot be read: {exc}") from None
    return value


def _read_seconds(text: str) -> float | None:
    if text.strip().lower() in _NONE:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds, or 'none' for no limit") from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise ValueError(f'it is not JSON, such as \'{{"name": "value"}}\' ({exc})') from None


def _read_keepalive(text: str) -> Any:
    spans = [_read_seconds(part) for part in text.split(",")]
    return spans[0] if len(spans) == 1 else spans


def _read_size(text: str) -> int:
    word = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = word[-1:] if word[-1:] in "kmg" else ""
    try:
        return int(word.removesuffix(unit)) * _SIZES[unit]
    except ValueError:
        raise ValueError(f"{text!r} is not a number of bytes, such as 67108864, 64MiB or 1GiB") from None


def _read_compression(text: str) -> bool:
    if text.strip().lower() not in ("none", "deflate"):
        raise ValueError(f"{text!r} is neither 'none' nor 'deflate'")
    return text.strip().lower() == "deflate"


_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "base_url": ("OPENENV_BASE_URL", str),
    "provider": ("OPENENV_PROVIDER", str),
    "provider_kwargs": ("OPENENV_PROVIDER_KWARGS", _read_json),
    "token": ("OPENENV_TOKEN", str),
    "headers": ("OPENENV_HEADERS", _read_json),
    "step_timeout": ("OPENENV_STEP_TIMEOUT", _read_seconds),
    "connect_timeout": ("OPENENV_CONNECT_TIMEOUT", _read_seconds),
    "startup_timeout": ("OPENENV_STARTUP_TIMEOUT", _read_seconds),
    "slot_timeout": ("OPENENV_SLOT_TIMEOUT", _read_seconds),
    "on_error": ("OPENENV_ON_ERROR", str),
    "keepalive": ("OPENENV_KEEPALIVE", _read_keepalive),
    "max_message": ("OPENENV_MAX_MESSAGE_SIZE", _read_size),
    "compression": ("OPENENV_COMPRESSION", _read_compression),
}
