"""Where a server is: ``base_url`` read into its parts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import ConfigError

__all__ = ["Endpoint", "is_loopback", "parse_endpoint"]

_SCHEMES: dict[str, tuple[Literal["tcp", "tls"], int]] = {
    "ws": ("tcp", 80),
    "http": ("tcp", 80),
    "wss": ("tls", 443),
    "https": ("tls", 443),
}
_FORMS = "ws://host:port, wss://host, http(s)://host/prefix or unix:/path/to/socket"
# What sun_path of the operating systems holds.
_LONGEST_SOCKET_PATH = 103


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one server.

    Attributes:
        kind: How to reach it.
        url: Its ``base_url`` as it may be shown: without user, password and query.
        host: Host name or address, lower case, without brackets (``"localhost"`` for a Unix socket).
        port: TCP port.
        resource: What to ask for: path and query of the WebSocket.
        socket_path: Absolute path of the Unix socket, or ``""``.
        user: User and password out of the URL.
    """

    kind: Literal["tcp", "tls", "unix"]
    url: str
    host: str = field(repr=False)
    port: int = field(repr=False)
    resource: str = field(repr=False)
    socket_path: str = field(default="", repr=False)
    user: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def local(self) -> bool:
        """Whether the server runs on this machine, as far as the address alone tells."""
        return self.kind == "unix" or is_loopback(self.host) or self.host in ("0.0.0.0", "::")

    def __str__(self) -> str:
        return self.url


def parse_endpoint(base_url: str) -> Endpoint:
    """Return the endpoint that ``base_url`` names; the WebSocket is at ``<base_url>/ws``.

    Raises:
        ConfigError: It is none; the message says what to write.
    """
    if not isinstance(base_url, str):
        raise ConfigError(f"base_url is a {type(base_url).__name__}, not a str; write {_FORMS}")
    if not base_url or any(ord(char) <= 32 or ord(char) == 127 for char in base_url):
        raise ConfigError(f"base_url is empty or holds white space; write {_FORMS}")
    if base_url.startswith("unix:"):
        return _unix(base_url)
    try:
        parts = urlsplit(base_url)
        known = _SCHEMES.get(parts.scheme)
        if known is None:
            raise ConfigError(_bad_scheme(base_url, parts.scheme))
        return _network(parts, *known)
    except ConfigError:
        raise
    except ValueError as exc:
        raise ConfigError(f"base_url cannot be read ({exc}); write {_FORMS}") from None


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is ``localhost`` or a loopback address; nothing is resolved."""
    import ipaddress

    name = host.strip("[]").removesuffix(".").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _unix(base_url: str) -> Endpoint:
    path = base_url.removeprefix("unix:")
    if path.startswith("///"):
        path = path[2:]
    if not path or path.startswith("//") or "\0" in path:
        raise ConfigError("base_url names no socket; write unix:/path/to/socket or unix:relative/path")
    path = os.path.abspath(path)
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"the socket path {path!r} is longer than the {_LONGEST_SOCKET_PATH} bytes the operating"
            " system takes; use a shorter folder"
        )
    return Endpoint("unix", f"unix:{path}", "localhost", 80, "/ws", socket_path=path)


def _network(parts: SplitResult, kind: Literal["tcp", "tls"], default_port: int) -> Endpoint:
    host = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii").decode()
    if not host:
        raise ConfigError(f"base_url names no host; write {_FORMS}")
    if parts.fragment:
        raise ConfigError("base_url has a fragment (#...), which means nothing here; leave it out")
    path = parts.path.rstrip("/")
    resource = path if path.endswith("/ws") else f"{path}/ws"
    if parts.query:
        resource += f"?{parts.query}"
    if not resource.isascii():
        raise ConfigError("base_url has a path or query outside ASCII; percent-encode it")
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = f":{parts.port}" if parts.port is not None else ""
    user = None
    if parts.username is not None:
        user = (unquote(parts.username), unquote(parts.password or ""))
    return Endpoint(
        kind,
        f"{'ws' if kind == 'tcp' else 'wss'}://{shown_host}{shown_port}{parts.path}",
        host,
        parts.port if parts.port is not None else default_port,
        resource,
        user=user,
    )


def _bad_scheme(base_url: str, scheme: str) -> str:
    head = base_url.partition("/")[0]
    if "://" not in base_url and "@" not in base_url and (":" in head or "." in head):
        return f"base_url has no scheme; write ws://{base_url.partition('?')[0]} (or wss:// for TLS)"
    return f"base_url has the scheme {scheme!r}, which means nothing here; write {_FORMS}"
