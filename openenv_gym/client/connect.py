"""A channel to an endpoint: dial, WebSocket handshake, and what a refusal means."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import (
    AuthenticationError,
    ForbiddenError,
    OpenEnvError,
    ServerConnectionError,
    VersionMismatchError,
    from_wire,
)
from ..protocol.messages import SUBPROTOCOL
from ..transport.channel import Channel
from ..transport.sockets import tune
from ..transport.texts import TextChannel
from .dialing import dial, read_head, receive_some, send_all
from .endpoint import Endpoint, parse_endpoint
from .flows import Unreachable

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.http11 import Response

__all__ = ["connect", "request_headers"]

_BODY_LIMIT = 64 * 1024
# The library logs all headers at DEBUG, the token among them.
_QUIET = logging.getLogger("openenv_gym.client.handshake")
_QUIET.setLevel(logging.WARNING)


class _Refusal(msgspec.Struct):
    """The JSON body of a refused handshake."""

    code: str
    message: str
    details: dict[str, Any] = {}


def connect(
    endpoint: Endpoint,
    deadline: float | None,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    max_message: int = 0,
    compression: bool = False,
    keepalive: float | None = None,
    answered: Callable[[Mapping[str, str]], None] | None = None,
    json: bool = False,
) -> Channel:
    """Return an open channel to the server at ``endpoint``.

    Args:
        endpoint: Where it is.
        deadline: When to give up (``time.monotonic()``); ``None``: never.
        token: Bearer token.
        headers: More headers.
        max_message: Largest message accepted, in bytes; 0: no limit.
        compression: Whether to offer compression.
        keepalive: Seconds after which the operating system probes a silent connection.
        answered: Told the headers of the server's answer.
        json: Whether a server that chooses no subprotocol will do, since the caller speaks OpenEnv's JSON;
            the channel is a :class:`TextChannel` then.

    Raises:
        Unreachable: Nobody answers there; a later attempt may succeed.
        OpenEnvError: The server refuses; the class says why.
    """
    sock = dial(endpoint, deadline)
    try:
        protocol = _handshake_protocol(endpoint, compression)
        request = protocol.connect()
        for name, value in request_headers(endpoint, token, headers).items():
            request.headers[name] = value
        protocol.send_request(request)
        send_all(sock, endpoint, b"".join(protocol.data_to_send()), deadline)
        head, rest = read_head(sock, endpoint, deadline)
        protocol.receive_data(head)
        if not head.startswith(b"HTTP/1.1 101 "):
            raise _refusal(endpoint, _read_refusal(protocol, sock, endpoint, rest, deadline), head)
        text = _check_handshake(endpoint, protocol, json)
        if answered is not None:
            answered(_answer_headers(protocol))
        sock.settimeout(None)
        if endpoint.kind != "unix":
            tune(sock, keepalive)
        return (TextChannel if text else Channel)(
            sock,
            client=True,
            max_message=max_message,
            initial=rest,
            compression=bool(protocol.extensions),
        )
    except BaseException:
        sock.close()
        raise


def _handshake_protocol(endpoint: Endpoint, compression: bool) -> ClientProtocol:
    from websockets.client import ClientProtocol
    from websockets.typing import Subprotocol
    from websockets.uri import WebSocketURI

    extensions = None
    if compression:
        from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

        # Without client_max_window_bits: a server that may choose a smaller window does (uvicorn: 4 KiB).
        extensions = [
            ClientPerMessageDeflateFactory(
                server_no_context_takeover=True, client_no_context_takeover=True, client_max_window_bits=None
            )
        ]
    path, _, query = endpoint.resource.partition("?")
    uri = WebSocketURI(endpoint.kind == "tls", endpoint.host, endpoint.port, path, query)
    return ClientProtocol(uri, subprotocols=[Subprotocol(SUBPROTOCOL)], extensions=extensions, logger=_QUIET)


def request_headers(endpoint: Endpoint, token: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers that say who asks, and those that were given."""
    headers = dict(more or {})
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    elif endpoint.user is not None and "authorization" not in {name.lower() for name in headers}:
        user = base64.b64encode(":".join(endpoint.user).encode()).decode()
        headers["Authorization"] = f"Basic {user}"
    return headers


def _check_handshake(endpoint: Endpoint, protocol: ClientProtocol, json: bool) -> bool:
    """Return whether OpenEnv's JSON is to be spoken."""
    from websockets.exceptions import NegotiationError

    failure = protocol.handshake_exc
    if json and failure is None and protocol.subprotocol is None:
        return True
    if protocol.subprotocol != SUBPROTOCOL and (failure is None or isinstance(failure, NegotiationError)):
        raise VersionMismatchError(
            f"{endpoint} is a WebSocket server, but does not speak {SUBPROTOCOL}: it is another program, or"
            " another version of openenv-gym",
            server=str(endpoint),
        )
    if failure is not None:
        raise ServerConnectionError(
            f"{endpoint} answered the WebSocket handshake wrongly: {failure}", server=str(endpoint)
        ) from failure
    return False


def _answer_headers(protocol: ClientProtocol) -> dict[str, str]:
    from websockets.http11 import Response

    answers = [event for event in protocol.events_received() if isinstance(event, Response)]
    return {name.lower(): value for answer in answers for name, value in answer.headers.raw_items()}


def _read_refusal(
    protocol: ClientProtocol, sock: Any, endpoint: Endpoint, rest: bytes, deadline: float | None
) -> Response | None:
    """Return the response that is not 101, with its body as far as it can be had."""
    received = len(rest)
    protocol.receive_data(rest)
    while protocol.handshake_exc is None and received <= _BODY_LIMIT:
        try:
            data = receive_some(sock, endpoint, deadline)
        except Unreachable:
            protocol.receive_eof()
            break
        received += len(data)
        protocol.receive_data(data)
    response: Response | None = getattr(protocol.handshake_exc, "response", None)
    return response


def _refusal(endpoint: Endpoint, response: Response | None, head: bytes) -> OpenEnvError:
    """Return what a response other than 101 means."""
    server = str(endpoint)
    line = head.partition(b"\r\n")[0].decode("latin-1")
    body = b"" if response is None else response.body
    try:
        told = msgspec.json.decode(body, type=_Refusal)
        return from_wire(told.code, told.message, told.details, server=server)
    except msgspec.DecodeError:
        pass
    number = line.split(" ")[1:2]
    if not line.startswith("HTTP/") or not number or not number[0].isdecimal():
        return ServerConnectionError(
            f"{server} answered the WebSocket handshake with {line!r}; it may be another program",
            server=server,
        )
    status = int(number[0])
    location = None if response is None else response.headers.get("Location")
    if status == 401:
        return AuthenticationError(
            f"{server} wants a token; pass token= or set OPENENV_TOKEN", server=server, status=status
        )
    if status == 403:
        return ForbiddenError(f"{server} forbids this connection", server=server, status=status)
    if status in (502, 503, 504):
        return Unreachable(
            f"{server}: HTTP {status}; whatever stands before the server cannot reach it, or it is starting",
            server=server,
            status=status,
        )
    return ServerConnectionError(_hint(server, status, location), server=server, status=status)


def _hint(server: str, status: int, location: str | None) -> str:
    if 300 <= status < 400 and location:
        try:
            target = parse_endpoint(location).url.removesuffix("/ws")
        except OpenEnvError:
            target = "another address"
        return f"{server} redirects to {target}; use that as base_url"
    if status == 404:
        return (
            f"{server} has no environment server at this path (HTTP 404): the path prefix of base_url may be"
            " wrong, or the server is another program"
        )
    if status == 426:
        return (
            f"{server} does not take the WebSocket handshake (HTTP 426): a proxy in between may not pass"
            " WebSockets, or the server is another program"
        )
    return f"{server} answered the WebSocket handshake with HTTP {status}"
