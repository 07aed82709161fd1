"""A connected socket to an endpoint: addresses, proxies, TLS, each within one deadline."""

from __future__ import annotations

import base64
import errno
import socket
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError, ServerConnectionError
from .deadline import deadline_in, earliest, time_left
from .endpoint import Endpoint
from .flows import Unreachable

__all__ = ["dial", "proxy_for", "read_head", "receive_some", "send_all"]

_HEAD_LIMIT = 64 * 1024
_LEAST_PER_ADDRESS = 0.25


def dial(endpoint: Endpoint, deadline: float | None) -> socket.socket:
    """Return a socket connected to ``endpoint``, TLS included.

    Raises:
        Unreachable: Nobody answers there.
        ServerConnectionError: TLS or a proxy refuses.
        ConfigError: The proxy of the environment variables cannot be used.
    """
    if endpoint.kind == "unix":
        return _dial_unix(endpoint, deadline)
    proxy = None if endpoint.local else proxy_for(endpoint)
    if proxy is None:
        sock = _dial_tcp(endpoint, endpoint.host, endpoint.port, deadline)
    else:
        sock = _dial_proxy(endpoint, proxy, deadline)
    if endpoint.kind == "tls":
        return _wrap_tls(endpoint, sock, deadline)
    return sock


def proxy_for(endpoint: Endpoint) -> str | None:
    """Return the proxy that the environment variables name for ``endpoint``, or ``None``."""
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(endpoint.host):
        return None
    proxies = getproxies()
    names = ("wss", "https", "all") if endpoint.kind == "tls" else ("ws", "http", "all")
    return next((proxies[name] for name in names if proxies.get(name)), None)


def read_head(sock: Any, endpoint: Endpoint, deadline: float | None) -> tuple[bytes, bytes]:
    """Return the head of an HTTP response, blank line included, and the bytes that came after it.

    Raises:
        Unreachable: The connection ended, or ``deadline`` passed.
        ServerConnectionError: What comes is no HTTP.
    """
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += receive_some(sock, endpoint, deadline)
        if len(received) > _HEAD_LIMIT or not b"HTTP/".startswith(received[:5]):
            raise ServerConnectionError(
                f"{endpoint}: whoever answers there does not speak HTTP; is it the right port?",
                server=str(endpoint),
            )
    return bytes(received[: end + 4]), bytes(received[end + 4 :])


def receive_some(sock: Any, endpoint: Endpoint, deadline: float | None) -> bytes:
    """Return some bytes; see :func:`read_head` for the errors."""
    try:
        _limit(sock, deadline)
        data: bytes = sock.recv(4096)
    except OSError as exc:
        raise _unreachable(endpoint, exc) from exc
    if not data:
        raise Unreachable(
            f"{endpoint}: the connection ended during the handshake; is it the right port?",
            server=str(endpoint),
        )
    return data


def send_all(sock: Any, endpoint: Endpoint, data: bytes, deadline: float | None) -> None:
    """Send ``data``; see :func:`read_head` for the errors."""
    try:
        _limit(sock, deadline)
        sock.sendall(data)
    except OSError as exc:
        raise _unreachable(endpoint, exc) from exc


def _dial_unix(endpoint: Endpoint, deadline: float | None) -> socket.socket:
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise ConfigError("this system has no Unix sockets; let the server listen on TCP (--port)")
    return _connect(endpoint, family, endpoint.socket_path, deadline)


def _dial_tcp(endpoint: Endpoint, host: str, port: int, deadline: float | None) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise Unreachable(
            f"{endpoint}: the name {host!r} cannot be resolved: {exc}", server=str(endpoint)
        ) from exc
    failure: Unreachable | None = None
    for index, (family, _, _, _, address) in enumerate(found):
        left = time_left(deadline)
        share = None if left is None else max(left / (len(found) - index), _LEAST_PER_ADDRESS)
        try:
            return _connect(endpoint, family, address, earliest(deadline, deadline_in(share)))
        except Unreachable as exc:
            failure = exc
    raise failure or Unreachable(f"{endpoint}: {host!r} has no address", server=str(endpoint))


def _connect(endpoint: Endpoint, family: int, address: Any, deadline: float | None) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _limit(sock, deadline)
        sock.connect(address)
    except OSError as exc:
        sock.close()
        raise _unreachable(endpoint, exc) from exc
    except BaseException:
        sock.close()
        raise
    return sock


def _dial_proxy(endpoint: Endpoint, proxy: str, deadline: float | None) -> socket.socket:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(
            f"the environment variables name a proxy with the scheme {parts.scheme!r} for {endpoint};"
            " only http:// proxies are supported; set NO_PROXY to go without"
        )
    sock = _dial_tcp(endpoint, parts.hostname, parts.port or 80, deadline)
    try:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        request = f"CONNECT {host}:{endpoint.port} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\n"
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request += f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}\r\n"
        send_all(sock, endpoint, f"{request}\r\n".encode("latin-1"), deadline)
        _check_proxy_answer(endpoint, parts.hostname, *read_head(sock, endpoint, deadline))
    except BaseException:
        sock.close()
        raise
    return sock


def _check_proxy_answer(endpoint: Endpoint, proxy: str, head: bytes, rest: bytes) -> None:
    line = head.partition(b"\r\n")[0].decode("latin-1")
    status = line.split(" ", 2)[1:2]
    if not status or not status[0].startswith("2"):
        kind = Unreachable if status and status[0] in ("502", "503", "504") else ServerConnectionError
        raise kind(
            f"{endpoint}: the proxy {proxy} refuses the connection ({line!r}); set NO_PROXY to go without",
            server=str(endpoint),
        )
    if rest:
        raise ServerConnectionError(
            f"{endpoint}: the proxy {proxy} sent data before it was asked", server=str(endpoint)
        )


def _wrap_tls(endpoint: Endpoint, sock: socket.socket, deadline: float | None) -> socket.socket:
    import ssl

    try:
        _limit(sock, deadline)
        return ssl.create_default_context().wrap_socket(sock, server_hostname=endpoint.host)
    except ssl.SSLError as exc:
        sock.close()
        if isinstance(exc, ssl.SSLCertVerificationError):
            remedy = "SSL_CERT_FILE names further certificates to trust"
        else:
            remedy = "a server without TLS before it is reached by ws:// or http://"
        raise ServerConnectionError(f"{endpoint}: TLS failed: {exc}; {remedy}", server=str(endpoint)) from exc
    except OSError as exc:
        sock.close()
        raise _unreachable(endpoint, exc) from exc
    except BaseException:
        sock.close()
        raise


def _limit(sock: Any, deadline: float | None) -> None:
    """Bound the next call on ``sock``; a timeout of 0 would mean non-blocking."""
    left = time_left(deadline)
    if left is not None and left <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(left)


def _unreachable(endpoint: Endpoint, exc: OSError) -> ServerConnectionError:
    if isinstance(exc, PermissionError):
        return ServerConnectionError(
            f"{endpoint}: {exc.strerror}; the socket belongs to another user", server=str(endpoint)
        )
    if isinstance(exc, TimeoutError):
        text = "no answer in time (connect_timeout); is base_url the address of a server that runs?"
    elif isinstance(exc, ConnectionRefusedError | FileNotFoundError):
        how = "start one (python -m openenv_gym.serve), or correct base_url"
        text = f"no server listens there ({exc.strerror}); {how}"
    else:
        text = exc.strerror or errno.errorcode.get(exc.errno or 0, str(exc))
    return Unreachable(f"{endpoint}: {text}", server=str(endpoint))
