"""Handshakes of ours leave uvicorn with every byte that came with them or after."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from openenv_gym.protocol import messages as m

from .takeoverscene import BEYOND, Scene, client_protocol, rest_of, serve
from .wire import LOOPS, handshake, read_all


@LOOPS
def test_a_handshake_may_come_in_any_two_pieces_and_nothing_beyond_it_is_lost(new_loop: Any) -> None:
    stream = handshake() + BEYOND[:40]

    async def story(scene: Scene) -> None:
        for cut in range(len(stream) + 1):
            client = await scene.client(stream[:cut])
            await asyncio.get_running_loop().sock_sendall(client, stream[cut:])
            client.shutdown(socket.SHUT_WR)
            arrival, answer = await scene.taken()
            assert answer.startswith(b"HTTP/1.1 101 ") and answer.endswith(b"\r\n\r\n")
            assert arrival.unread + await read_all(arrival.sock) == BEYOND[:40]
            arrival.sock.close()
            client.close()

    serve(new_loop, story)


@LOOPS
def test_what_follows_the_handshake_at_once_and_later_arrives_in_order(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        for size in (0, 1, 256, 70_000):
            early = (BEYOND * (size // 256 + 1))[:size]
            client = await scene.client(b"")
            sending = asyncio.ensure_future(rest_of(client, handshake() + early + BEYOND))
            arrival, _ = await scene.taken()
            assert arrival.unread + await read_all(arrival.sock) == early + BEYOND
            arrival.sock.close()
            assert await sending == b""

    serve(new_loop, story)


@LOOPS
def test_the_answer_is_one_that_a_client_takes(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        protocol = client_protocol()
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()))
        arrival, answer = await scene.taken()
        protocol.receive_data(answer)
        assert protocol.handshake_exc is None
        assert (protocol.subprotocol, protocol.extensions) == (m.SUBPROTOCOL, [])
        assert not arrival.deflate
        arrival.sock.close()
        client.close()

    serve(new_loop, story)


@LOOPS
def test_the_connection_has_one_owner(new_loop: Any) -> None:
    async def story(scene: Scene) -> None:
        client = await scene.client(handshake())
        arrival, _ = await scene.taken()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not arrival.sock.getblocking()
        arrival.sock.send(b"from the owner")
        arrival.sock.close()
        assert await read_all(client) == b"from the owner"
        client.close()

    serve(new_loop, story)


@pytest.mark.parametrize("agreed", [True, False])
def test_compression_is_agreed_on_without_context_if_the_server_wants_it(agreed: bool) -> None:
    async def story(scene: Scene) -> None:
        protocol = client_protocol(extensions=[ClientPerMessageDeflateFactory()])
        protocol.send_request(protocol.connect())
        client = await scene.client(b"".join(protocol.data_to_send()))
        arrival, answer = await scene.taken()
        assert arrival.deflate is agreed
        protocol.receive_data(answer)
        assert protocol.handshake_exc is None
        assert len(protocol.extensions) == agreed
        assert answer.count(b"_no_context_takeover") == 2 * agreed
        arrival.sock.close()
        client.close()

    serve(asyncio.new_event_loop, story, compression="deflate" if agreed else "none")
