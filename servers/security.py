"""Who may talk to the server: bearer token, Origin, Host."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openenv_gym.client.endpoint import is_loopback
from openenv_gym.errors import AuthenticationError, ForbiddenError

from .kinds import ORIGINS

if TYPE_CHECKING:
    from .settings import ServerSettings

__all__ = ["check_host", "check_mode", "check_origin", "check_token"]


def check_token(settings: ServerSettings, authorization: str | None) -> None:
    """Check the ``Authorization`` header of a request.

    Raises:
        AuthenticationError: The server has a token, and the header does not carry it.
    """
    if settings.token is None:
        return
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        raise AuthenticationError(
            "this server wants a token: pass token= (OPENENV_TOKEN), sent as 'Authorization: Bearer TOKEN'"
        )
    if not hmac.compare_digest(given.strip().encode(), settings.token.encode()):
        raise AuthenticationError("the token is wrong; it must be the one the server was started with")


def check_origin(settings: ServerSettings, origin: str | None) -> None:
    """Check the ``Origin`` header, which browsers send for a page and other clients do not send.

    Raises:
        ForbiddenError: The page is not in ``allowed_origins``.
    """
    if origin is None or "*" in settings.allowed_origins:
        return
    try:
        (normal,) = ORIGINS.check((origin,))
    except ValueError:
        normal = None
    if normal not in settings.allowed_origins:
        raise ForbiddenError(
            f"pages of the origin {origin[:200]!r} may not use this server; name it in --allowed-origins "
            "(OPENENV_ALLOWED_ORIGINS) to let them",
            option="allowed_origins",
        )


def check_mode(settings: ServerSettings) -> None:
    """Check that clients may have binary sessions, in which everything may be asked.

    Raises:
        ForbiddenError: The server runs in production mode.
    """
    if settings.mode == "production":
        raise ForbiddenError(
            "this server runs in production mode, where nobody can reset or step: agents reach its tools over"
            " /mcp; --mode simulation (OPENENV_MODE) is for training",
            option="mode",
        )


def check_host(settings: ServerSettings, host: str | None) -> None:
    """Check the ``Host`` header of a request that changes state.

    A page whose name was pointed at 127.0.0.1 sends its own name here.

    Raises:
        ForbiddenError: The server is local, and the header names neither this machine nor an allowed origin.
    """
    if not settings.is_local or settings.uds is not None or "*" in settings.allowed_origins:
        return
    name = _host_name(host or "")
    allowed = {urlsplit(origin).hostname for origin in settings.allowed_origins}
    if not (is_loopback(name) or name in allowed):
        raise ForbiddenError(
            f"this server is for its own machine, not for requests to {name[:200]!r}; "
            "name the page in --allowed-origins (OPENENV_ALLOWED_ORIGINS)",
            option="allowed_origins",
        )


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
