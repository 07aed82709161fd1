from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from websockets.server import ServerProtocol

from openenv_gym.client.connect import connect
from openenv_gym.client.deadline import deadline_in
from openenv_gym.client.endpoint import Endpoint, parse_endpoint
from openenv_gym.client.flows import Unreachable
from openenv_gym.errors import (
    AuthenticationError,
    CapacityError,
    ForbiddenError,
    OpenEnvError,
    ServerConnectionError,
    ServerDrainingError,
    VersionMismatchError,
)
from openenv_gym.protocol.messages import SUBPROTOCOL
from openenv_gym.transport.channel import Channel

Handler = Callable[[socket.socket, bytes], None]


@contextlib.contextmanager
def listening(handler: Handler) -> Iterator[Endpoint]:
    """Serve one connection: ``handler`` gets the socket and the head of the request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # nobody came
            return
        with sock:
            head = b""
            while b"\r\n\r\n" not in head:
                data = sock.recv(4096)
                if not data:
                    return
                head += data
            handler(sock, head)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield parse_endpoint(f"ws://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        listener.close()


def accept(sock: socket.socket, head: bytes, more: bytes = b"", subprotocol: str = SUBPROTOCOL) -> None:
    protocol = ServerProtocol(subprotocols=[subprotocol])  # type: ignore[list-item]
    protocol.receive_data(head)
    (request,) = protocol.events_received()
    protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]
    sock.sendall(b"".join(protocol.data_to_send()) + more)


def answering(status: str, body: bytes = b"", headers: str = "") -> Handler:
    def handler(sock: socket.socket, head: bytes) -> None:
        length = f"Content-Length: {len(body)}\r\n"
        sock.sendall(f"HTTP/1.1 {status}\r\n{headers}{length}\r\n".encode() + body)

    return handler


def test_bytes_that_came_with_the_handshake_are_not_lost() -> None:
    hello = b"\x82\x05hello"
    with listening(lambda sock, head: accept(sock, head, hello)) as endpoint:
        channel = connect(endpoint, deadline_in(30))
        assert bytes(channel.recv(deadline_in(30))) == b"hello"
        channel.abort()


def test_the_request_carries_token_and_headers_and_offers_no_compression() -> None:
    heads: list[bytes] = []

    def handler(sock: socket.socket, head: bytes) -> None:
        heads.append(head)
        accept(sock, head)

    with listening(handler) as endpoint:
        connect(endpoint, deadline_in(30), token="s3cret", headers={"X-Key": "k3y"}).abort()
    head = heads[0].decode().lower()
    assert head.startswith("get /ws http/1.1\r\n")
    assert "\r\nauthorization: bearer s3cret\r\n" in head
    assert "\r\nx-key: k3y\r\n" in head
    assert f"\r\nsec-websocket-protocol: {SUBPROTOCOL}\r\n" in head
    assert "sec-websocket-extensions" not in head


def test_a_user_in_the_url_becomes_basic_authorization() -> None:
    heads: list[bytes] = []

    def handler(sock: socket.socket, head: bytes) -> None:
        heads.append(head)
        accept(sock, head)

    with listening(handler) as endpoint:
        url = str(endpoint).replace("ws://", "ws://me:p%40ss@") + "/prefix?x=1"
        connect(parse_endpoint(url), deadline_in(30)).abort()
    assert heads[0].startswith(b"GET /prefix/ws?x=1 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Basic bWU6cEBzcw==\r\n" in heads[0]


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        ("401 Unauthorized", b"", AuthenticationError, "pass token= or set OPENENV_TOKEN"),
        ("403 Forbidden", b"no", ForbiddenError, "forbids this connection"),
        ("404 Not Found", b"{}", ServerConnectionError, "path prefix of base_url may be wrong"),
        ("426 Upgrade Required", b"", ServerConnectionError, "may not pass WebSockets"),
        ("500 Oops", b"[]", ServerConnectionError, "with HTTP 500"),
        ("502 Bad Gateway", b"<html>", Unreachable, "HTTP 502"),
        ("503 Service Unavailable", b"", Unreachable, "HTTP 503"),
        (
            "503 Service Unavailable",
            json.dumps({"code": "capacity", "message": "full", "details": {"active": 2, "max": 2}}).encode(),
            CapacityError,
            "full",
        ),
        (
            "503 Service Unavailable",
            json.dumps({"code": "server_draining", "message": "going", "details": {}}).encode(),
            ServerDrainingError,
            "going",
        ),
        (
            "401 Unauthorized",
            json.dumps({"code": "authentication", "message": "the token is wrong"}).encode(),
            AuthenticationError,
            "the token is wrong",
        ),
    ],
)
def test_a_refusal_is_a_typed_error(status: str, body: bytes, kind: type[OpenEnvError], says: str) -> None:
    with listening(answering(status, body)) as endpoint, pytest.raises(kind, match=says) as caught:
        connect(endpoint, deadline_in(30))
    assert type(caught.value) is kind
    assert caught.value.server == str(endpoint)
    if kind is CapacityError:
        assert caught.value.details == {"active": 2, "max": 2}


def test_a_redirect_names_its_target_without_secrets() -> None:
    answer = answering("307 Moved", headers="Location: wss://u:pw@new.example/a/ws?key=k\r\n")
    with listening(answer) as endpoint, pytest.raises(ServerConnectionError) as caught:
        connect(endpoint, deadline_in(30))
    assert "redirects to wss://new.example/a; use that as base_url" in str(caught.value)


def test_a_body_that_never_ends_is_not_waited_for_beyond_the_deadline() -> None:
    done = threading.Event()

    def handler(sock: socket.socket, head: bytes) -> None:
        sock.sendall(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n")
        done.wait(60)

    with listening(handler) as endpoint:
        try:
            with pytest.raises(ForbiddenError, match="forbids"):
                connect(endpoint, deadline_in(2))
        finally:
            done.set()


@pytest.mark.parametrize("subprotocol", ["openenv.other.v9", ""])
def test_a_server_without_our_subprotocol_is_another_version(subprotocol: str) -> None:
    def handler(sock: socket.socket, head: bytes) -> None:
        protocol = ServerProtocol()
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        response = protocol.accept(request)  # type: ignore[arg-type]
        if subprotocol:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        protocol.send_response(response)
        sock.sendall(b"".join(protocol.data_to_send()))

    with listening(handler) as endpoint, pytest.raises(VersionMismatchError, match="does not speak openenv"):
        connect(endpoint, deadline_in(30))


def test_a_wrong_handshake_is_said_to_be_one() -> None:
    def handler(sock: socket.socket, head: bytes) -> None:
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: wrong\r\n\r\n"
        )

    with listening(handler) as endpoint, pytest.raises(ServerConnectionError, match="handshake wrongly"):
        connect(endpoint, deadline_in(30))


def test_what_is_no_http_is_probably_the_wrong_port() -> None:
    with (
        listening(lambda sock, head: sock.sendall(b"220 smtp ready\r\n\r\n")) as endpoint,
        pytest.raises(ServerConnectionError, match="does not speak HTTP; is it the right port"),
    ):
        connect(endpoint, deadline_in(30))


def test_a_server_that_hangs_up_can_be_tried_again() -> None:
    with (
        listening(lambda sock, head: None) as endpoint,
        pytest.raises(Unreachable, match="during the handshake"),
    ):
        connect(endpoint, deadline_in(30))


def test_a_server_that_says_nothing_is_given_up_at_the_deadline() -> None:
    done = threading.Event()
    with (
        listening(lambda sock, head: done.wait(60) and None) as endpoint,
        pytest.raises(Unreachable, match="no answer in time"),
    ):
        try:
            connect(endpoint, deadline_in(0.5))
        finally:
            done.set()


def test_compression_is_used_when_both_want_it() -> None:
    from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory

    channels: list[Channel] = []
    done = threading.Event()

    def handler(sock: socket.socket, head: bytes) -> None:
        protocol = ServerProtocol(
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            extensions=[ServerPerMessageDeflateFactory(True, True)],
        )
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]
        sock.sendall(b"".join(protocol.data_to_send()))
        channel = Channel(sock, client=False, compression=True)
        channel.send(channel.recv())
        done.wait(60)

    with listening(handler) as endpoint:
        channels.append(connect(endpoint, deadline_in(30), compression=True))
        channels[0].send(bytes(100_000))
        assert bytes(channels[0].recv(deadline_in(30))) == bytes(100_000)
        done.set()
        channels[0].abort()
