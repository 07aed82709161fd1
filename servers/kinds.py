"""Kinds of option values: how each is read from text, checked, and shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

__all__ = [
    "JSON_OBJECT",
    "NAMES",
    "ORIGINS",
    "SIZE",
    "SWITCH",
    "TEXT",
    "TOKEN",
    "Kind",
    "choice",
    "integer",
    "interval",
    "optional",
    "seconds",
]

_NONE = ("none", "inf", "infinity", "off", "never")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?")


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes:
        metavar: How ``--help`` shows the value.
        read: Text to value; raises ValueError that says what is expected.
        check: Value (of a caller in Python, or of ``read``) to the value that is stored; raises ValueError.
        show: Value to the text that ``--help`` shows as default.
    """

    metavar: str
    read: Callable[[str], Any]
    check: Callable[[Any], Any]
    show: Callable[[Any], str] = str


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{value!r} is not a text of at least one character")
    return value


def _token(value: Any) -> str:
    # The value itself must not get into a message.
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        raise ValueError("the token must consist of visible ASCII characters, without spaces")
    return value


TEXT = Kind("TEXT", str, _text)
TOKEN = Kind("TOKEN", str, _token)


def integer(low: int, high: int, metavar: str = "N") -> Kind:
    """Return the kind of whole numbers from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
            raise ValueError(f"{text!r} is not a whole number")
        return int(text)

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value!r} is not a whole number")
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        return value

    return Kind(metavar, read, check)


def optional(kind: Kind, *words: str) -> Kind:
    """Return ``kind`` with ``None`` allowed, which is written as one of ``words``."""

    def read(text: str) -> Any:
        return None if text.strip().lower() in words else kind.read(text)

    def check(value: Any) -> Any:
        return None if value is None else kind.check(value)

    def show(value: Any) -> str:
        return words[0] if value is None else kind.show(value)

    return Kind(kind.metavar, read, check, show)


def seconds(*, zero: bool = False, unlimited: bool = True) -> Kind:
    """Return the kind of time spans.

    ``None`` and infinity mean the same, "no limit" (refused unless ``unlimited``). Negative spans and NaN
    are never allowed, 0 only where ``zero`` says so.
    """

    def read(text: str) -> float | None:
        word = text.strip().lower()
        if word in _NONE:
            return None
        try:
            return float(word)
        except ValueError:
            more = " or 'none'" if unlimited else ""
            raise ValueError(f"{text!r} is not a number of seconds{more}") from None

    def check(value: Any) -> float | None:
        if value is None or value == math.inf:
            if not unlimited:
                raise ValueError("must be a finite number of seconds")
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise ValueError(f"{value!r} is not a number of seconds")
        if value < 0 or (value == 0 and not zero):
            more = "; write 'none' (None) for no limit" if unlimited else ""
            raise ValueError(
                f"{value:g} is not {'zero or ' if zero else ''}a positive number of seconds{more}"
            )
        return float(value)

    return Kind("SECONDS", read, check, lambda value: "none" if value is None else f"{value:g}")


def interval() -> Kind:
    """Return the kind of the keepalive interval.

    Its variable is the client's too, which may say ``INTERVAL,TIMEOUT``; a server has no use for the second.
    """
    kind = seconds()
    return Kind(kind.metavar, lambda text: kind.read(text.partition(",")[0]), kind.check, kind.show)


def choice(*names: str) -> Kind:
    """Return the kind of one word out of ``names``."""

    def check(value: Any) -> str:
        if value not in names:
            raise ValueError(f"{value!r} is none of {', '.join(names)}")
        return str(value)

    return Kind("{" + ",".join(names) + "}", lambda text: text.strip().lower(), check)


def _read_switch(text: str) -> bool:
    word = text.strip().lower()
    if word in ("on", "true", "yes", "1"):
        return True
    if word in ("off", "false", "no", "0"):
        return False
    raise ValueError(f"{text!r} is neither 'on' nor 'off'")


def _check_switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither True nor False")
    return value


SWITCH = Kind("{on,off}", _read_switch, _check_switch, lambda value: "on" if value else "off")


def _read_size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a number of bytes such as 1048576, 64MiB or 1GiB")
    return int(match[1]) * _UNITS[match[2]]


def _check_size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a number of bytes")
    if not 1024 <= value <= 1 << 40:
        raise ValueError(f"{value} is not between 1 KiB and 1 TiB")
    return value


SIZE = Kind("BYTES", _read_size, _check_size, lambda value: f"{value >> 20}MiB")


def _check_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r} is not a sequence of names")
    for name in value:
        if name != "*" and not name.isidentifier():
            raise ValueError(f"{name!r} is not a name of an argument")
    return tuple(value)


def _read_names(text: str) -> tuple[str, ...]:
    word = text.strip().lower()
    if word in ("all", "none"):
        return ("*",) if word == "all" else ()
    return tuple(part.strip() for part in text.split(",") if part.strip())


#: Names of arguments; ``("*",)`` for all, ``()`` for none.
NAMES = Kind("NAME,...", _read_names, _check_names, ",".join)


def _origin(value: Any) -> str:
    if value in ("*", "null"):
        return str(value)
    try:
        parts = urlsplit(value)
        port = parts.port
    except (ValueError, TypeError, AttributeError):
        parts, port = None, None
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path not in ("", "/")
        or parts.query
        or parts.username is not None
    ):
        raise ValueError(f"{value!r} is not an origin such as https://example.org or http://localhost:3000")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + ("" if port in (None, default) else f":{port}")


def _check_origins(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is not a sequence of origins")
    return tuple(_origin(item) for item in value)


#: Origins in their normal form (lower case, no default port), or ``"*"``.
ORIGINS = Kind(
    "ORIGIN,...",
    lambda text: tuple(part.strip() for part in text.split(",") if part.strip()),
    _check_origins,
    lambda value: ",".join(value) or "none",
)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise ValueError(f"this is not JSON: {exc}") from None


def _check_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError("expected an object with named values, such as '{\"size\": 8}'")
    try:
        json.dumps(dict(value))
    except (TypeError, ValueError) as exc:
        raise ValueError(f"worker processes get it as JSON, but {exc}") from None
    return dict(value)


JSON_OBJECT = Kind("JSON", _read_json, _check_object, json.dumps)
