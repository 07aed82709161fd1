from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest

from openenv_gym.errors import LocalProtocolError
from openenv_gym.protocol.deflate import inflate
from openenv_gym.protocol.frames import BINARY, PING, PONG, Frame, plain_message
from openenv_gym.protocol.reader import FrameReader
from openenv_gym.transport import ChannelClosed, ChannelSilence
from openenv_gym.transport.sender import Sender
from openenv_gym.transport.sockets import PortableSocket
from tests.transport.ends import Peer

SIZES = [0, 1, 125, 126, 32_767, 32_768, 70_000, 8_000_000]


class Collector(threading.Thread):
    """Reads a socket to its end."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self.sock = sock
        self.data = bytearray()
        self.start()

    def run(self) -> None:
        while data := self.sock.recv(1 << 20):
            self.data += data

    def result(self) -> bytes:
        self.join()
        return bytes(self.data)


def messages(data: bytes, client: bool, compression: bool = False) -> list[bytes | bytearray | Frame]:
    reader = FrameReader(client=client, compression=compression, initial=data)
    found = []
    while (event := reader.next()) is not None:
        found.append(event)
    assert reader.end == 0, "half a frame is left"
    return found


@pytest.mark.parametrize("masked", [True, False])
def test_messages_of_all_sizes_arrive(ends: tuple[socket.socket, socket.socket], masked: bool) -> None:
    sender, collector = Sender(ends[0], masked=masked), Collector(ends[1])
    payloads = [os.urandom(size) for size in SIZES]
    for payload in payloads:
        sender.send(payload)
        sender.send(memoryview(bytearray(payload)))
    sender.abort()
    expected = [copy for payload in payloads for copy in (payload, payload)]
    assert messages(collector.result(), client=not masked) == expected


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("compression", [True, False])
def test_a_message_in_pieces_is_one_message(
    ends: tuple[socket.socket, socket.socket], masked: bool, compression: bool
) -> None:
    sender, collector = Sender(ends[0], masked=masked, compression=compression), Collector(ends[1])
    for size in SIZES[1:]:
        sender.send_pieces((b"before", bytes(size), b""))
    sender.abort()
    expected = [b"before" + bytes(size) for size in SIZES[1:]]
    assert messages(collector.result(), client=not masked, compression=compression) == expected
    with pytest.raises(ChannelClosed):
        sender.send_pieces((b"late",))


def test_only_messages_that_gain_are_compressed(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, collector = Sender(pair[0], masked=False, compression=True), Collector(pair[1])
    payloads = [bytes(1000), bytes(100_000), os.urandom(2000)]
    for payload in payloads:
        sender.send(payload)
    sender.abort()
    data = collector.result()
    assert messages(data, client=True, compression=True) == payloads
    assert len(data) < 1000 + 2000 + 1000
    packed = data[1004:]
    assert packed[0] == 0xC2
    assert inflate(packed[4 : 4 + int.from_bytes(packed[2:4], "big")]) == bytes(100_000)


def test_pings_and_pongs_arrive(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, peer = Sender(ends[0], masked=True), Peer(ends[1], client=False)
    assert sender.ping(b"a")
    assert sender.pong()
    assert peer.frames(2) == [(PING, b"a"), (PONG, b"")]
    with pytest.raises(LocalProtocolError):
        sender.ping(bytes(126))


class Stub:
    """Stands for the socket's calls: takes so many bytes at a time, then does what ``then`` says."""

    now = 1

    def __init__(self, takes: list[int], then: BaseException | None = None, refusable: bool = True) -> None:
        self.takes = takes
        self.then = then
        self.refusable = refusable
        self.sent = b""

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        if not self.takes:
            if self.then is not None:
                raise self.then
            self.sent += data
            return len(data)
        taken = self.takes.pop(0)
        self.sent += data[:taken]
        return min(taken, len(data))

    def sendmsg(self, parts: list[bytes]) -> int:
        return self.send(b"".join(parts))


def stubbed(sock: socket.socket, stub: Stub) -> Sender:
    sender = Sender(sock, masked=False)
    sender._io = stub  # type: ignore[assignment]
    sender._send = stub.send
    return sender


@pytest.mark.parametrize("size", [100, 50_000])
@pytest.mark.parametrize("takes", [[0, 1, 1, 1, 1, 1, 40, 1000], [3], [10, 9, 8]])
def test_partial_sends_are_finished(
    pair: tuple[socket.socket, socket.socket], size: int, takes: list[int]
) -> None:
    stub = Stub(list(takes))
    payload = os.urandom(size)
    stubbed(pair[0], stub).send(payload)
    assert stub.sent == plain_message(payload)


@pytest.mark.parametrize("size", [10, 50_000])
@pytest.mark.parametrize("takes", [[], [5]])
def test_an_interrupt_ends_the_channel_and_no_frame_follows_half_a_one(
    pair: tuple[socket.socket, socket.socket], size: int, takes: list[int]
) -> None:
    sender = stubbed(pair[0], Stub(list(takes), KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        sender.send(bytes(size))
    assert sender.closed
    with pytest.raises(ChannelClosed, match="sending was interrupted; connect again"):
        sender.send(b"next")
    assert pair[1].recv(10) == b""


def test_a_frozen_peer_is_given_up(ends: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(ends[0], masked=True)
    sender.send_timeout = 0.02
    assert sender.send_timeout == 0.02
    with pytest.raises(ChannelSilence, match=r"took nothing for 0\.02 s"):
        while True:
            sender.send(bytes(1_000_000))
    assert sender.closed
    with pytest.raises(ChannelClosed) as caught:
        sender.send(b"")
    assert (caught.value.close_code, caught.value.reason) == (1006, "send timeout")


def test_a_peer_that_takes_slowly_is_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(pair[0], masked=False)
    sender.send_timeout = None
    collector = Collector(pair[1])
    payload = os.urandom(3_000_000)
    sender.send(payload)
    sender.shutdown()
    assert messages(collector.result(), client=True) == [payload]


def test_a_control_frame_that_nobody_takes_is_left_out(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(pair[0], masked=False)
    sent = 0
    while sender.ping(bytes(125)):
        sent += 1
    assert not sender.closed
    collector = Collector(pair[1])
    sender.send(b"message")
    sender.shutdown()
    assert messages(collector.result(), client=True) == [Frame(PING, bytes(125))] * sent + [b"message"]


def test_half_a_control_frame_is_finished(pair: tuple[socket.socket, socket.socket]) -> None:
    stub = Stub([1])
    assert stubbed(pair[0], stub).ping(b"abc")
    assert stub.sent == b"\x89\x03abc"


@pytest.mark.parametrize(
    "stub", [Stub([1], BlockingIOError(11, "again")), Stub([], BlockingIOError(11, "again"), refusable=False)]
)
def test_half_a_control_frame_that_cannot_be_finished_ends_the_channel(
    pair: tuple[socket.socket, socket.socket], stub: Stub
) -> None:
    sender = stubbed(pair[0], stub)
    assert not sender.ping(b"abc")
    assert sender.closed


def test_an_interrupted_control_frame_ends_the_channel(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = stubbed(pair[0], Stub([], KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        sender.pong()
    assert sender.closed


def test_a_peer_that_has_gone_is_noticed(ends: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(ends[0], masked=True)
    ends[1].close()
    with pytest.raises(ChannelClosed, match=r"the connection is lost: .*; connect again") as caught:
        for _ in range(1000):
            sender.send(bytes(10_000))
    assert caught.value.close_code == 1006
    assert not sender.ping()
    with pytest.raises(ChannelClosed) as again:
        sender.send(b"")
    assert again.value is not caught.value


def test_a_ping_to_a_peer_that_has_gone_raises_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(pair[0], masked=True)
    pair[1].close()
    assert not sender.ping()
    assert not sender.closed, "the receiving side says why"


@pytest.mark.parametrize("payload", ["text", None, [1]])
def test_what_is_no_payload_leaves_the_channel_alone(
    pair: tuple[socket.socket, socket.socket], payload: Any
) -> None:
    sender = Sender(pair[0], masked=False)
    with pytest.raises(TypeError):
        sender.send(payload)
    assert not sender.closed


def test_abort_closes_once(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(pair[0], masked=True)
    assert sender.fileno() == pair[0].fileno() > 0
    for end in (sender.abort, sender.abort, sender.shutdown):
        end()
        assert sender.closed
        assert sender.fileno() == -1
    assert pair[1].recv(1) == b""
    with pytest.raises(ChannelClosed, match="closed at this end"):
        sender.send(b"")


def test_an_end_reaches_the_peer_though_a_forked_child_holds_the_socket(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender = Sender(pair[0], masked=True)
    with socket.socket(fileno=os.dup(pair[0].fileno())):  # as a child's copy
        sender.abort()
        assert pair[1].recv(1) == b""


def test_a_forked_child_does_not_end_its_parents_connection(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender = Sender(pair[0], masked=False)
    pid = os.fork()
    if pid == 0:
        sender.abort()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    sender.send(b"still here")
    assert Peer(pair[1], client=True).frames(1) == [(BINARY, b"still here")]


def test_the_portable_kind_serves_as_well(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "MSG_DONTWAIT")
    sender, collector = Sender(pair[0], masked=True), Collector(pair[1])
    assert isinstance(sender._io, PortableSocket)
    payloads = [bytes(size) for size in SIZES]
    for payload in payloads:
        sender.send(payload)
    assert sender.ping()
    sender.abort()
    assert messages(collector.result(), client=False) == [*payloads, Frame(PING, b"")]
