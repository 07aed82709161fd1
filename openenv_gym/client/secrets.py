"""Secrets in keyword arguments: out of what may be shown or stored, and back in when an env is made again.

``gym.make`` records all keyword arguments in ``env.spec``. There a secret is replaced by a reference to this
process's memory, so ``gym.make(env.spec)`` still works here, and the spec's JSON says nothing elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..errors import ConfigError

__all__ = ["redact", "restore"]

_PREFIX = "redacted:"
_URL_USER = "redacted-"
_kept: dict[str, Any] = {}
_references: dict[Any, str] = {}


def redact(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``kwargs`` with references instead of ``token``, values of ``headers`` and what a URL hides."""
    shown = dict(kwargs)
    token, headers, url = shown.get("token"), shown.get("headers"), shown.get("base_url")
    if isinstance(token, str) and not token.startswith(("env:", _PREFIX)):
        shown["token"] = _PREFIX + _keep(token)
    if isinstance(headers, Mapping):
        shown["headers"] = {
            name: value if not isinstance(value, str) or value.startswith(_PREFIX) else _PREFIX + _keep(value)
            for name, value in headers.items()
        }
    if isinstance(url, str):
        shown["base_url"] = _redact_url(url)
    elif isinstance(url, list | tuple):
        shown["base_url"] = [_redact_url(each) if isinstance(each, str) else each for each in url]
    return shown


def restore(name: str, value: Any) -> Any:
    """Return the argument ``name`` with its secrets, given a value that :func:`redact` may have returned.

    Raises:
        ConfigError: The reference is of another process.
    """
    if name == "token" and isinstance(value, str) and value.startswith(_PREFIX):
        return _recall(name, value.removeprefix(_PREFIX))
    if name == "headers" and isinstance(value, Mapping):
        return {
            key: _recall(f"headers[{key!r}]", text.removeprefix(_PREFIX))
            if isinstance(text, str) and text.startswith(_PREFIX)
            else text
            for key, text in value.items()
        }
    if name == "base_url" and isinstance(value, str) and f"//{_URL_USER}" in value:
        user = urlsplit(value).username or ""
        return _recall(name, user.removeprefix(_URL_USER))
    return value


def _keep(secret: Any) -> str:
    reference = _references.get(secret)
    if reference is None:
        reference = _references[secret] = os.urandom(8).hex()
        _kept[reference] = secret
    return reference


def _recall(name: str, reference: str) -> Any:
    if reference not in _kept:
        raise ConfigError(
            f"{name} was left out of this spec because it is secret, and it came from another process;"
            f" pass {name.partition('[')[0]}= again, or set the environment variable"
        )
    return _kept[reference]


def _redact_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if url.startswith("unix:") or ("@" not in parts.netloc and not parts.query):
        return url
    if parts.netloc.startswith(_URL_USER):
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, f"{_URL_USER}{_keep(url)}@{host}", parts.path, "", ""))
