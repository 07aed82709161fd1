"""HTTP requests of clients: JSON to the server whose WebSocket a client knows, JSON-RPC among it.

JSON-RPC 2.0 as OpenEnv's servers speak it at ``/mcp``: always HTTP status 200, one request at a time.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import (
    AuthenticationError,
    CapacityError,
    ForbiddenError,
    OpenEnvError,
    RemoteProtocolError,
    ServerConnectionError,
    ServerTimeoutError,
    SessionLostError,
    ToolFailedError,
    ToolNotFoundError,
    UnsupportedError,
    ValidationError,
    from_wire,
)
from ..structs.maps import jsonable
from .connect import request_headers
from .deadline import deadline_in, time_left
from .dialing import dial
from .endpoint import Endpoint
from .flows import Unreachable

__all__ = ["Rpc", "fetch_json"]

_METHOD_NOT_FOUND, _INVALID_PARAMS, _SERVER = -32601, -32602, -32000
_REFUSALS: dict[int, type[OpenEnvError]] = {
    401: AuthenticationError,
    403: ForbiddenError,
    404: UnsupportedError,
}


class Rpc:
    """Calls methods of a server by JSON-RPC over HTTP.

    Args:
        endpoint: Where the server is.
        timeout: Longest call in seconds; ``None``: unlimited.
        token: Bearer token.
        headers: More headers.
        max_message: Largest answer accepted, in bytes.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout: float | None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_message: int = 0,
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._headers = request_headers(endpoint, token, headers)
        self._max_message = max_message
        self._last_id = 0

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a method.

        Raises:
            ValueNotCarriedError: Something in ``params`` has no form in JSON; nothing was sent.
            OpenEnvError: What the server answered, or that it did not.
        """
        plain = jsonable(dict(params), "$")
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": plain}
        answer = fetch_json(
            self._endpoint,
            "/mcp",
            deadline_in(self._timeout),
            body=msgspec.json.encode(request),
            headers=self._headers,
            max_message=self._max_message,
        )
        if not isinstance(answer, dict) or ("result" not in answer and "error" not in answer):
            text = f"{self._endpoint}/mcp does not speak JSON-RPC"
            raise RemoteProtocolError(text, server=str(self._endpoint))
        if answer.get("error") is not None:
            raise _error(answer["error"], method, str(self._endpoint))
        if answer.get("id") != self._last_id:
            raise RemoteProtocolError(
                f"{self._endpoint}/mcp answered request {answer.get('id')!r}, not {self._last_id}",
                server=str(self._endpoint),
            )
        return answer["result"]


def fetch_json(
    endpoint: Endpoint,
    path: str,
    deadline: float | None,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    max_message: int = 0,
) -> Any:
    """Return the JSON that a server answers to GET, or to POST if there is a body.

    Args:
        endpoint: Where the server is.
        path: What comes after its ``base_url``.
        deadline: When to give up (``time.monotonic()``).
        body: JSON to post.
        headers: Headers of the request.
        max_message: Largest answer accepted, in bytes; 0: no limit.

    Raises:
        ServerConnectionError: There is no connection, or no answer in time.
        OpenEnvError: The server refuses.
        RemoteProtocolError: The answer is not JSON.
    """
    where = f"{endpoint}{path}"
    try:
        status, answer = _exchange(endpoint, path, deadline, body, dict(headers or {}), max_message)
    except Unreachable as exc:
        raise exc.public() from exc.__cause__
    except TimeoutError:
        raise ServerTimeoutError(f"{where} did not answer in time", server=str(endpoint)) from None
    except (OSError, http.client.HTTPException) as exc:
        text = f"{where}: the connection broke ({exc!r}); it is not known whether the request was executed"
        raise ServerConnectionError(text, server=str(endpoint)) from exc
    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if status == 200:
            text = f"{where} did not answer with JSON: {exc}"
            raise RemoteProtocolError(text, server=str(endpoint)) from exc
        decoded = None
    if status != 200:
        raise _refusal(where, status, decoded, str(endpoint))
    return decoded


def _exchange(
    endpoint: Endpoint,
    path: str,
    deadline: float | None,
    body: bytes | None,
    headers: dict[str, str],
    max_message: int,
) -> tuple[int, bytes]:
    sock: socket.socket = dial(endpoint, deadline)
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port)
    connection.sock = sock
    try:
        sock.settimeout(_left(deadline))
        prefix = endpoint.resource.partition("?")[0].removesuffix("/ws")
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers["Connection"] = "close"
        connection.request("GET" if body is None else "POST", prefix + path, body, headers)
        response = connection.getresponse()
        received = bytearray()
        while data := _some(sock, response, deadline):
            received += data
            if max_message and len(received) > max_message:
                raise RemoteProtocolError(
                    f"{endpoint}{path} answered with more than {max_message} bytes; allow more",
                    server=str(endpoint),
                )
        return response.status, bytes(received)
    finally:
        connection.close()
        sock.close()


def _some(sock: socket.socket, response: http.client.HTTPResponse, deadline: float | None) -> bytes:
    if sock.fileno() >= 0:
        sock.settimeout(_left(deadline))
    return response.read1(65536)


def _left(deadline: float | None) -> float | None:
    left = time_left(deadline)
    if left is not None and left <= 0:
        raise TimeoutError
    return left


def _refusal(where: str, status: int, body: Any, server: str) -> OpenEnvError:
    if isinstance(body, dict) and isinstance(body.get("code"), str) and isinstance(body.get("details"), dict):
        return from_wire(body["code"], str(body.get("message")), body["details"], server=server)
    kind = _REFUSALS.get(status, ServerConnectionError)
    return kind(f"{where} answered with HTTP {status}", server=server, status=status)


def _error(error: Any, method: str, server: str) -> OpenEnvError:
    """Return the exception for the error object of a JSON-RPC answer."""
    error = error if isinstance(error, dict) else {}
    code, message = error.get("code"), str(error.get("message", "the server gave no reason"))
    data = error.get("data") if isinstance(error.get("data"), dict) else {}
    if isinstance(data.get("error"), str) and isinstance(data.get("details"), dict):
        return from_wire(data["error"], message, data["details"], server=server)
    if code == _METHOD_NOT_FOUND:
        return UnsupportedError(message, server=server)
    if code == _SERVER:
        slots = {"active": data.get("active_sessions"), "max": data.get("max_sessions")}
        return CapacityError(message, server=server, **slots)
    if code == _INVALID_PARAMS and message.startswith("Unknown session"):
        return SessionLostError(message, server=server)
    if method == "tools/call" and message.startswith("Unknown tool"):
        return ToolNotFoundError(message, server=server)
    if code == _INVALID_PARAMS:
        return ValidationError(message, server=server, path="$.params")
    return (ToolFailedError if method == "tools/call" else OpenEnvError)(message, server=server)
