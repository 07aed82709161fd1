"""A channel of text messages."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import MessageTooLargeError, RemoteProtocolError
from openenv_gym.protocol.frames import BINARY, CONT, PING, PONG, TEXT, close_payload, frame
from openenv_gym.transport.endings import ChannelClosed
from openenv_gym.transport.texts import TextChannel
from tests.transport.ends import Peer, connected

SIZES = [0, 1, 125, 126, 4090, 4096, 70_000]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with connected("unix") as pair:
        yield pair


@pytest.fixture
def talk(pair: tuple[socket.socket, socket.socket]) -> Iterator[tuple[TextChannel, socket.socket]]:
    channel = TextChannel(pair[0], client=True, max_message=80_000)
    yield channel, pair[1]
    channel.abort()


@pytest.mark.parametrize("size", SIZES)
def test_text_goes_out_as_text(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    channel, peer = TextChannel(pair[0], client=True), Peer(pair[1], client=False)
    text = ("é" * size).encode()[:size] if size % 2 == 0 else b"x" * size
    channel.send(text)
    assert peer.frames(1) == [(TEXT, text)]
    channel.abort()


@pytest.mark.parametrize("size", SIZES)
def test_text_comes_in_as_bytes(talk: tuple[TextChannel, socket.socket], size: int) -> None:
    channel, peer = talk
    peer.sendall(frame(TEXT, b"y" * size, masked=False) + frame(TEXT, b"next", masked=False))
    assert channel.recv(monotonic() + 5) == b"y" * size
    assert channel.recv(monotonic() + 5) == b"next"


def test_fragments_and_control_frames_between_messages(talk: tuple[TextChannel, socket.socket]) -> None:
    channel, peer = talk
    peer.sendall(
        frame(TEXT, b"a", masked=False, fin=False)
        + frame(PING, b"p", masked=False)
        + frame(CONT, b"b", masked=False)
    )
    assert channel.recv(monotonic() + 5) == b"ab"
    assert peer.recv(100)[0] & 15 == PONG


def test_attend_keeps_text_for_the_next_receive(talk: tuple[TextChannel, socket.socket]) -> None:
    channel, peer = talk
    peer.sendall(frame(TEXT, b"one", masked=False) + frame(TEXT, b"two", masked=False))
    assert channel.attend() == 2
    assert [channel.recv(), channel.recv()] == [b"one", b"two"]


def test_a_binary_message_is_refused(talk: tuple[TextChannel, socket.socket]) -> None:
    channel, peer = talk
    peer.sendall(frame(BINARY, b"x", masked=False))
    with pytest.raises(RemoteProtocolError, match="a binary message came where only text is spoken"):
        channel.recv(monotonic() + 5)
    assert channel.closed


def test_a_text_over_the_limit_is_dropped_and_the_next_one_read(
    talk: tuple[TextChannel, socket.socket],
) -> None:
    channel, peer = talk
    peer.sendall(frame(TEXT, b"z" * 80_001, masked=False) + frame(TEXT, b"ok", masked=False))
    with pytest.raises(MessageTooLargeError):
        channel.recv(monotonic() + 5)
    assert channel.recv(monotonic() + 5) == b"ok"


def test_sending_on_a_closed_channel_says_how_it_ended(talk: tuple[TextChannel, socket.socket]) -> None:
    channel, peer = talk
    peer.sendall(frame(8, close_payload(1000, "bye"), masked=False))
    with pytest.raises(ChannelClosed, match="code 1000 .bye."):
        channel.recv(monotonic() + 5)
    with pytest.raises(ChannelClosed, match="code 1000 .bye."):
        channel.send(b"x")


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_any_texts_in_any_pieces_arrive(texts: list[bytes], piece: int) -> None:
    stream = b"".join(frame(TEXT, text, masked=False) for text in texts)
    with connected("unix") as (ours, theirs):
        channel = TextChannel(ours, client=True)
        got = []
        for at in range(0, len(stream), piece):
            theirs.sendall(stream[at : at + piece])
            while channel.attend() > 0:
                got.append(bytes(channel.recv()))
        assert got == texts
        channel.abort()
