"""What is not ours reaches uvicorn with every byte; who may not come in is told why."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from typing import Any

import pytest
from websockets.exceptions import NegotiationError

from openenv_gym.protocol import messages as m
from openenv_gym.servers import takeover as module

from .takeoverscene import BEYOND, Scene, client_protocol, rest_of, serve, until
from .wire import LOOPS, handshake, read_all, run

_GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_POST = b"POST /y HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"


@LOOPS
@pytest.mark.parametrize(("request_", "expected"), [(_GET, b"GET /x "), (_POST, b"POST /y body")])
def test_other_requests_may_come_in_any_two_pieces(new_loop: Any, request_: bytes, expected: bytes) -> None:
    async def story(scene: Scene) -> None:
        for cut in range(len(request_) + 1):
            client = await scene.client(request_[:cut])
            await asyncio.get_running_loop().sock_sendall(client, request_[cut:])
            head, _, body = (await read_all(client)).partition(b"\r\n\r\n")
            assert (head[:12], body) == (b"HTTP/1.1 200", expected)
            client.close()

    serve(new_loop, story)


@LOOPS
def test_a_connection_that_was_passed_on_stays_open_for_more(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await until(client, b"GET /a ")).startswith(b"HTTP/1.1 200 ")
        await asyncio.get_running_loop().sock_sendall(
            client, b"GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n" + _GET
        )
        assert (await read_all(client)).count(b"HTTP/1.1 200 ") == 2
        client.close()

    serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    "head",
    [
        pytest.param(handshake(offer=None), id="no subprotocol"),
        pytest.param(handshake(offer="json"), id="another subprotocol"),
        pytest.param(handshake(offer=f"{m.SUBPROTOCOL}0"), id="a longer name"),
        pytest.param(handshake(offer=None, path=f"/ws?x={m.SUBPROTOCOL}"), id="in the path"),
        pytest.param(handshake(f"Cookie: {m.SUBPROTOCOL}", offer="json"), id="in a cookie"),
    ],
)
def test_websockets_that_do_not_offer_our_subprotocol_are_uvicorns(new_loop: Any, head: bytes) -> None:
    async def story(scene: Scene) -> None:
        for cut in (len(head) // 2, len(head)):
            client = await scene.client(head[:cut])
            await asyncio.get_running_loop().sock_sendall(client, head[cut:])
            assert (await until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            await asyncio.get_running_loop().sock_sendall(client, b"\x81\x82\0\0\0\0hi")
            assert await until(client, b"hi") == b"\x81\x02hi"
            client.close()
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize("offers", [f"json, {m.SUBPROTOCOL}", f"{m.SUBPROTOCOL} ,x"])
def test_ours_may_be_one_of_several_offers(new_loop: Any, offers: str) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake(offer=offers))
        arrival, answer = await scene.taken()
        assert f"Sec-WebSocket-Protocol: {m.SUBPROTOCOL}\r\n".encode() in answer
        arrival.sock.close()
        client.close()

    serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", id="TLS"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="SSH"),
        pytest.param(b"GET \x00\xff\r\n\r\n", id="bad request line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000, id="endless head"),
        pytest.param(handshake("a broken line").replace(b"a broken line", b"\x00"), id="broken handshake"),
    ],
)
def test_what_is_no_request_is_for_uvicorn_to_answer(new_loop: Any, data: bytes) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(b"")
        answer = await rest_of(client, data)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    serve(new_loop, story)


@LOOPS
def test_a_long_head_is_passed_on_whole(new_loop: Any) -> None:
    data = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"

    async def story(scene: Scene) -> None:
        client = await scene.client(b"")
        await asyncio.get_running_loop().sock_sendall(client, data)
        assert (await read_all(client)).endswith(b"\r\n\r\nGET /x ")
        client.close()

    serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    ("old", "new"),
    [(b"Version: 13", b"Version: 12"), (b"dGhlIHNhbXBsZSBub25jZQ==", b"short")],
)
def test_a_handshake_with_a_fault_is_answered_and_closed(new_loop: Any, old: bytes, new: bytes) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake().replace(old, new))
        assert (await read_all(client)).startswith(b"HTTP/1.1 400 ")
        client.close()

    serve(new_loop, story)


@LOOPS
@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("X: none", 401, "authentication"),
        ("Authorization: Bearer wrong", 401, "authentication"),
        ("Authorization: Basic c2VjcmV0", 401, "authentication"),
        ("Authorization: Bearer secret\r\nOrigin: https://evil.example", 403, "forbidden"),
    ],
)
def test_who_may_not_come_in_is_told_why_in_json(new_loop: Any, line: str, status: int, code: str) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake(line) + BEYOND)
        head, _, body = (await read_all(client)).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(body)["code"] == code
        assert scene.arrivals is not None and scene.arrivals.taken.empty()
        client.close()

    serve(new_loop, story, token="secret")


@LOOPS
def test_f082_in_production_mode_nobody_gets_a_binary_session(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake() + BEYOND)
        head, _, body = (await read_all(client)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 403 ")
        assert json.loads(body)["details"] == {"option": "mode"}
        client.close()

    serve(new_loop, story, mode="production")


@LOOPS
def test_token_and_origin_let_in(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake("Authorization: Bearer secret", "Origin: https://good.example"))
        arrival, answer = await scene.taken()
        assert answer.startswith(b"HTTP/1.1 101 ")
        arrival.sock.close()
        client.close()

    serve(new_loop, story, token="secret", allowed_origins=("https://good.example",))


def tls_context(side: int) -> ssl.SSLContext:
    """Return a context that needs no certificate."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH:@SECLEVEL=0")
    return context


@LOOPS
def test_where_tls_ends_here_all_is_passed_on(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", scene.port, ssl=tls_context(ssl.PROTOCOL_TLS_CLIENT)
        )
        writer.write(handshake())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"\x81\x82\0\0\0\0hi")
        assert await reader.readexactly(4) == b"\x81\x02hi"
        assert scene.app.offers == [[m.SUBPROTOCOL]]
        writer.close()

    serve(new_loop, story, tls_context(ssl.PROTOCOL_TLS_SERVER))


@LOOPS
def test_without_arrivals_all_is_uvicorns(new_loop: Any) -> None:
    async def main() -> None:
        scene = Scene(None)
        async with scene.served():
            client = await scene.client(b"")
            await asyncio.get_running_loop().sock_sendall(client, handshake())
            assert (await until(client, b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            client.close()
            assert scene.app.offers == [[m.SUBPROTOCOL]]

    run(main, new_loop)


@LOOPS
@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\n"], ids=["none", "a byte", "a line"])
def test_who_does_not_say_what_it_wants_is_cut_off(
    new_loop: Any, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.5)

    async def story(scene: Scene) -> None:
        client = await scene.client(said)
        assert await read_all(client) == b""
        client.close()

    serve(new_loop, story)


@LOOPS
def test_patience_ends_with_the_first_request(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 2.5)

    async def story(scene: Scene) -> None:
        other = await scene.client(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ours = await scene.client(handshake())
        arrival, _ = await scene.taken()
        await asyncio.sleep(2.6)
        other.send(_GET)
        assert (await read_all(other)).count(b"HTTP/1.1 200 ") == 2
        other.close()
        ours.send(b"late")
        ours.close()
        assert await read_all(arrival.sock) == b"late"
        arrival.sock.close()

    serve(new_loop, story)


@LOOPS
def test_clients_that_leave_before_the_decision_are_forgotten(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        for said in (b"", b"G", handshake()[:-1]):
            client = await scene.client(said)
            client.shutdown(socket.SHUT_WR)
            assert await read_all(client) == b""
            client.close()
        assert scene.arrivals is not None and scene.arrivals.taken.empty()

    serve(new_loop, story)


def test_a_client_sees_when_the_subprotocol_is_another() -> None:
    async def story(scene: Scene) -> None:
        protocol = client_protocol()
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()).replace(b"msgpack.v1", b"msgpack.v9"))
        protocol.receive_data(await asyncio.get_running_loop().sock_recv(client, 4096))
        assert protocol.handshake_exc is None or isinstance(protocol.handshake_exc, NegotiationError)
        assert protocol.subprotocol is None
        client.close()

    serve(asyncio.new_event_loop, story)
