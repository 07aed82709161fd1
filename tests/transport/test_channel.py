from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from time import monotonic
from types import FrameType
from typing import Any

import pytest

from openenv_gym.errors import LocalProtocolError, MessageTooLargeError, RemoteProtocolError
from openenv_gym.protocol.frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    close_payload,
    frame,
    masked_message,
    plain_message,
)
from openenv_gym.transport import Channel, ChannelClosed, ChannelSilence
from tests.support.serverproc import eventually
from tests.transport.ends import Peer, connected

SIZES = [0, 1, 125, 126, 4090, 4091, 9000, 70_000, 3_000_000]


@pytest.fixture
def talk(pair: tuple[socket.socket, socket.socket]) -> Iterator[tuple[Channel, Peer]]:
    """A client's channel, and websockets as the server."""
    channel = Channel(pair[0], client=True)
    yield channel, Peer(pair[1], client=False)
    channel.abort()


class Echo(threading.Thread):
    """Echoes on a channel until it ends."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self.end: ChannelClosed | None = None
        self.start()

    def run(self) -> None:
        try:
            while True:
                self.channel.send(self.channel.recv())
        except ChannelClosed as exc:
            self.end = exc


@pytest.mark.parametrize("poll", [True, False])
@pytest.mark.parametrize("compression", [True, False])
def test_messages_of_all_sizes_go_there_and_back(
    ends: tuple[socket.socket, socket.socket], poll: bool, compression: bool
) -> None:
    client = Channel(ends[0], client=True, poll=poll, compression=compression)
    echo = Echo(Channel(ends[1], client=False, poll=poll, compression=compression))
    for size in SIZES:
        payload = os.urandom(size // 2) + bytes(size - size // 2)
        client.send(payload)
        assert client.recv(monotonic() + 60, 30) == payload
    client.close(1001, "enough")
    echo.join()
    assert echo.end is not None
    assert (echo.end.close_code, echo.end.reason) == (1001, "enough")


@pytest.mark.parametrize("missing", [(socket, "MSG_DONTWAIT"), (os, "sched_yield")])
def test_it_works_where_the_system_lacks_something(
    pair: tuple[socket.socket, socket.socket], missing: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(*missing)
    client = Channel(pair[0], client=True, poll=True)
    echo = Echo(Channel(pair[1], client=False))
    for size in SIZES:
        client.send(bytes(size))
        assert client.recv(monotonic() + 60) == bytes(size)
    assert client.attend() == 0
    client.close()
    echo.join()


def test_a_receiver_that_shall_sleep_at_once_does_not_yield(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    yields = []
    monkeypatch.setattr(os, "sched_yield", lambda: yields.append(1))
    channel = Channel(pair[0], client=True, poll=True)
    for size in (3, 50_000):
        pair[1].sendall(frame(BINARY, bytes(size), masked=False))
        assert channel.recv(poll=False) == bytes(size)
    assert not yields
    pair[1].sendall(plain_message(b"more"))
    assert channel.recv() == b"more"
    assert yields
    channel.abort()


@pytest.mark.parametrize("poll", [True, False])
def test_a_channel_may_be_told_to_be_patient(pair: tuple[socket.socket, socket.socket], poll: bool) -> None:
    channel = Channel(pair[0], client=True, poll=poll)
    channel.be_patient()
    assert (channel._poller is not None and channel._poller.patient) is poll
    channel.abort()


def test_bytes_of_the_handshake_are_received_first(pair: tuple[socket.socket, socket.socket]) -> None:
    first = b"".join(plain_message(b"%d" % number) for number in range(3000))
    channel = Channel(pair[0], client=True, initial=first + plain_message(b"split")[:3])
    assert [int(channel.recv()) for _ in range(3000)] == list(range(3000))
    pair[1].sendall(plain_message(b"split")[3:])
    assert channel.recv() == b"split"
    channel.abort()


def test_pings_are_answered_and_pongs_only_noted(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    before = channel.last_received
    peer.control(PING, b"1")
    peer.control(PONG)
    peer.control(PING, b"2")
    peer.send(b"message")
    assert channel.recv() == b"message"
    assert channel.last_received > before
    assert peer.frames(2) == [(PONG, b"1"), (PONG, b"2")]


def test_messages_that_came_together_are_received_one_by_one(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    peer.sock.sendall(
        plain_message(b"a") + frame(PING, masked=False) + plain_message(b"b") + plain_message(b"c")
    )
    assert [channel.recv() for _ in range(3)] == [b"a", b"b", b"c"]


def test_a_passed_deadline_leaves_half_a_message_in_place(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    for size in (100, 5000):
        data = plain_message(bytes(size))
        for piece in (data[:1], data[1:50], data[50:-1]):
            peer.sock.sendall(piece)
            for deadline in (monotonic() - 1, monotonic() + 0.001, monotonic() + 0.01):
                with pytest.raises(TimeoutError, match="before the deadline"):
                    channel.recv(deadline)
        peer.sock.sendall(data[-1:])
        assert channel.recv(monotonic() + 60) == bytes(size)


def test_a_deadline_never_passes_early(talk: tuple[Channel, Peer]) -> None:
    channel, _ = talk
    deadline = monotonic() + 0.1
    with pytest.raises(TimeoutError):
        channel.recv(deadline)
    assert monotonic() >= deadline


def test_what_came_in_time_is_taken_by_who_looks_too_late(
    talk: tuple[Channel, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, peer = talk
    patience, calls = Channel._patience, []

    def stalled(*args: Any) -> float | None:
        calls.append(args)
        if len(calls) == 1:
            return 0.01  # there is time yet; then it does not run until the deadline has passed
        peer.send(b"in time")
        return patience(*args)

    monkeypatch.setattr(Channel, "_patience", stalled)
    assert channel.recv(monotonic() - 1) == b"in time"
    assert len(calls) == 2


def test_a_deadline_holds_though_the_peer_keeps_talking(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    for _ in range(3):
        peer.control(PONG)
        with pytest.raises(TimeoutError):
            channel.recv(monotonic() - 1)


def test_silence_is_told_from_a_passed_deadline(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    with pytest.raises(ChannelSilence, match=r"nothing arrived for 0\.005 s"):
        channel.recv(silence=0.005)
    with pytest.raises(ChannelSilence):
        channel.recv(monotonic() + 60, silence=0.005)
    with pytest.raises(TimeoutError):
        channel.recv(monotonic() + 0.005, silence=60)
    peer.send(b"late")
    assert channel.recv(silence=60) == b"late"


def test_silence_counts_from_the_call_not_from_the_last_message(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    channel.last_received -= 1000
    threading.Timer(0.01, peer.send, [b"message"]).start()
    assert channel.recv(silence=60) == b"message"


@pytest.mark.parametrize("payload", [close_payload(1012, "restart"), b""], ids=["code", "empty"])
def test_a_goodbye_is_answered(talk: tuple[Channel, Peer], payload: bytes) -> None:
    channel, peer = talk
    peer.sock.sendall(plain_message(b"last") + frame(CLOSE, payload, masked=False))
    assert channel.recv() == b"last"
    with pytest.raises(ChannelClosed) as caught:
        channel.recv()
    assert (caught.value.close_code, caught.value.reason) == ((1012, "restart") if payload else (1005, ""))
    assert channel.closed
    assert peer.frames(1) == [(CLOSE, close_payload(1012 if payload else 1000))]
    for call in (channel.recv, lambda: channel.send(b""), channel.detach):
        with pytest.raises(ChannelClosed):
            call()


def test_an_end_without_goodbye_is_1006(ends: tuple[socket.socket, socket.socket]) -> None:
    channel = Channel(ends[0], client=True)
    ends[1].sendall(plain_message(b"whole") + plain_message(b"half")[:3])
    ends[1].close()
    assert channel.recv() == b"whole"
    with pytest.raises(ChannelClosed) as caught:
        channel.recv()
    assert caught.value.close_code == 1006


@pytest.mark.parametrize("poll", [True, False])
def test_a_reset_is_an_end(poll: bool) -> None:
    with connected("tcp") as (first, second):
        channel = Channel(first, client=True, poll=poll)
        second.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        second.close()
        with pytest.raises(ChannelClosed, match="reset") as caught:
            channel.recv()
        assert caught.value.close_code == 1006


def test_what_the_peer_said_before_it_went_is_heard(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    peer.sock.sendall(plain_message(b"why") + frame(CLOSE, close_payload(1008, "no"), masked=False))
    peer.sock.close()
    with pytest.raises(ChannelClosed) as caught:
        channel.send(b"request")
    assert (caught.value.close_code, caught.value.reason) == (1008, "no")
    assert channel.recv() == b"why"
    with pytest.raises(ChannelClosed):
        channel.recv()


@pytest.mark.parametrize(
    ("data", "code", "match"),
    [
        (frame(TEXT, b"hi", masked=False), 1003, "a text message came"),
        (frame(BINARY, b"hello!", masked=True), 1002, "not unmasked"),
        (frame(CLOSE, b"\x00\x01", masked=False), 1002, "no valid code"),
    ],
    ids=["text", "masked", "close"],
)
@pytest.mark.parametrize("attended", [True, False])
def test_a_peer_that_breaks_the_rules_is_told_and_left(
    talk: tuple[Channel, Peer], data: bytes, code: int, match: str, attended: bool
) -> None:
    channel, peer = talk
    peer.sock.sendall(plain_message(b"good") + data)
    if attended:
        assert channel.attend() == -1
    assert channel.recv() == b"good"
    with pytest.raises(RemoteProtocolError, match=match):
        channel.recv()
    with pytest.raises(ChannelClosed, match=match):
        channel.recv()
    ((opcode, payload),) = peer.frames(1)
    assert (opcode, payload[:2]) == (CLOSE, code.to_bytes(2, "big"))


@pytest.mark.parametrize("size", [101, 5000, 100_000])
@pytest.mark.parametrize("attended", [True, False])
def test_a_message_over_the_limit_is_an_error_and_the_next_is_received(
    pair: tuple[socket.socket, socket.socket], size: int, attended: bool
) -> None:
    channel = Channel(pair[0], client=False, max_message=100)
    data = masked_message(b"one") + masked_message(bytes(size)) + masked_message(bytes(100))
    thread = threading.Thread(target=pair[1].sendall, args=(data,))
    thread.start()
    while attended and channel.attend() < 3:
        pass
    assert channel.recv() == b"one"
    with pytest.raises(MessageTooLargeError) as caught:
        channel.recv()
    assert (caught.value.details["size"], caught.value.details["limit"]) == (size, 100)
    assert channel.recv() == bytes(100)
    thread.join()
    channel.abort()


def test_attend_answers_and_keeps_in_order(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    assert channel.attend() == 0
    peer.send(b"a")
    peer.control(PING, b"1")
    peer.send(bytes(10_000))
    assert channel.attend() == 2
    assert peer.frames(1) == [(PONG, b"1")]
    peer.send(b"b")
    assert [channel.recv() for _ in range(3)] == [b"a", bytes(10_000), b"b"]


def test_attend_reads_on_where_a_receive_stopped(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    data = plain_message(bytes(5000))
    peer.sock.sendall(plain_message(b"a") + plain_message(b"b") + data[:100])
    assert channel.recv() == b"a"
    assert channel.attend() == 1
    peer.sock.sendall(data[100:4500])
    assert channel.attend() == 1
    peer.sock.sendall(data[4500:])
    assert [channel.recv(), channel.recv()] == [b"b", bytes(5000)]


def test_attend_keeps_only_so_much(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    payloads = [bytes([number]) * 5000 for number in range(12)]
    for payload in payloads:
        peer.send(payload)
    kept = channel.attend()
    assert 0 < kept < 12
    assert channel.attend() == kept
    assert [channel.recv() for _ in range(12)] == payloads


def test_attend_notices_the_end(ends: tuple[socket.socket, socket.socket]) -> None:
    channel = Channel(ends[0], client=True)
    ends[1].sendall(plain_message(b"last"))
    ends[1].close()
    while channel.attend() >= 0:
        pass
    assert channel.attend() == -1
    assert channel.recv() == b"last"
    with pytest.raises(ChannelClosed):
        channel.recv()


def test_attend_notices_a_reset_and_a_goodbye() -> None:
    with connected("tcp") as (first, second):
        channel = Channel(first, client=True)
        second.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        second.close()
        assert eventually(lambda: channel.attend() == -1)
    with connected("unix") as (first, second):
        channel = Channel(first, client=True)
        second.sendall(frame(CLOSE, close_payload(1001), masked=False))
        assert channel.attend() == -1
        with pytest.raises(ChannelClosed, match="code 1001"):
            channel.recv()


def test_close_waits_for_the_answer_and_drops_what_comes_before_it(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    peer.sock.sendall(plain_message(b"too late") + frame(CLOSE, close_payload(1000), masked=False))
    channel.close(3000, "done", timeout=60)
    assert channel.closed
    assert peer.frames(1) == [(CLOSE, close_payload(3000, "done"))]
    assert peer.sock.recv(1) == b"", "one close frame, not two"
    channel.close()


@pytest.mark.parametrize("timeout", [0.0, 0.005])
def test_close_does_not_wait_for_ever(talk: tuple[Channel, Peer], timeout: float) -> None:
    channel, peer = talk
    channel.close(timeout=timeout)
    with pytest.raises(ChannelClosed, match="closed at this end"):
        channel.recv()
    assert peer.frames(1) == [(CLOSE, close_payload(1000))]


def test_close_does_not_hang_on_a_peer_that_takes_nothing(talk: tuple[Channel, Peer]) -> None:
    channel, _ = talk
    while channel.ping(bytes(125)):
        pass
    channel.close(timeout=60)
    assert channel.closed


def test_close_survives_a_peer_that_breaks_the_rules(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    peer.sock.sendall(b"\xff\xff\xff")
    channel.close(timeout=60)
    assert channel.closed


def test_close_with_a_wrong_code_changes_nothing(talk: tuple[Channel, Peer]) -> None:
    channel, _ = talk
    with pytest.raises(LocalProtocolError):
        channel.close(1006)
    assert not channel.closed


def test_close_in_a_forked_child_says_nothing(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    pid = os.fork()
    if pid == 0:
        channel.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    channel.send(b"parent's")
    assert peer.frames(1) == [(BINARY, b"parent's")]


def test_shutdown_wakes_a_receive_in_another_thread(ends: tuple[socket.socket, socket.socket]) -> None:
    echo = Echo(Channel(ends[0], client=True))
    echo.channel.shutdown()
    echo.join()
    assert echo.end is not None
    assert echo.end.close_code == 1006


def stop_while_receiving(channel: Channel) -> None:
    caught: list[ChannelClosed] = []

    def receive() -> None:
        try:
            channel.recv()
        except ChannelClosed as exc:
            caught.append(exc)

    thread = threading.Thread(target=receive)
    thread.start()
    channel.stop_receiving()
    thread.join()
    assert [exc.reason for exc in caught] == ["stopped here"]


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_one_that_stops_receiving_can_say_goodbye(kind: str) -> None:
    with connected(kind) as (first, second):
        channel, peer = Channel(first, client=True), Channel(second, client=False)
        stop_while_receiving(channel)
        assert not channel.closed
        assert channel.attend() == 0
        channel.send(b"goodbye")
        channel.close(1001, timeout=60)
        assert peer.recv() == b"goodbye"
        with pytest.raises(ChannelClosed, match="code 1001"):
            peer.recv()
        channel.stop_receiving()


def test_one_that_stops_receiving_sends_nothing_in_the_clear() -> None:
    with connected("tls") as (first, second):
        channel = Channel(first, client=True)
        stop_while_receiving(channel)
        with pytest.raises(ChannelClosed):
            channel.send(b"goodbye")
        assert socket.socket.recv(second, 100)[:1] in (b"", b"\x15"), "at most an alert of TLS itself"


def test_detach_gives_the_socket_away_with_what_was_not_read(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    channel = Channel(pair[0], client=False)
    rest = masked_message(b"second") + masked_message(bytes(9000))[:10]
    pair[1].sendall(masked_message(b"first") + rest)
    assert channel.recv(monotonic() + 60) == b"first"
    sock, unread = channel.detach()
    assert sock is pair[0]
    assert unread == rest
    channel.abort()
    channel.shutdown()
    with pytest.raises(ChannelClosed, match="given away"):
        channel.recv()
    taken = Channel(sock, client=False, initial=unread)
    assert taken.recv() == b"second"
    pair[1].sendall(bytes(5))
    with pytest.raises(TimeoutError):
        taken.recv(monotonic())
    with pytest.raises(LocalProtocolError, match="half read"):
        taken.detach()


def test_detach_does_not_lose_kept_messages(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk
    peer.send(b"kept")
    assert channel.attend() == 1
    with pytest.raises(LocalProtocolError, match="receive them before"):
        channel.detach()
    assert channel.recv() == b"kept"


@pytest.mark.parametrize("poll", [True, False])
def test_interrupts_never_lose_the_place_in_the_stream(
    pair: tuple[socket.socket, socket.socket], poll: bool
) -> None:
    armed = False
    total, interrupts = 3000, 200

    def interrupt(number: int, where: FrameType | None) -> None:
        if armed:
            raise KeyboardInterrupt

    def send() -> None:
        main = threading.main_thread().ident
        assert main is not None
        for number in range(total):
            if number % (total // interrupts) == 0:
                signal.pthread_kill(main, signal.SIGUSR1)
            pair[1].sendall(plain_message(b"%d" % number))

    before = signal.signal(signal.SIGUSR1, interrupt)
    channel = Channel(pair[0], client=True, poll=poll)
    sender = threading.Thread(target=send)
    sender.start()
    received: list[int] = []
    caught = 0
    while not received or received[-1] < total - 1:
        try:
            armed = True
            number = int(channel.recv(monotonic() + 60))
            armed = False
            received.append(number)
        except KeyboardInterrupt:
            armed = False
            caught += 1
            if caught and not sender.is_alive() and channel.attend() == 0:
                break
    sender.join()
    signal.signal(signal.SIGUSR1, before)
    channel.abort()
    assert received == sorted(set(received)), "in order, none twice"
    assert total - len(received) <= caught, "an interrupt costs at most the message it struck"


def test_an_interrupted_wait_is_taken_up_again(talk: tuple[Channel, Peer]) -> None:
    channel, peer = talk

    def interrupt(number: int, where: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        peer.sock.sendall(plain_message(b"message")[:4])
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            channel.recv()
        peer.sock.sendall(plain_message(b"message")[4:])
        assert channel.recv() == b"message"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_channel_is_small() -> None:
    with connected("unix") as (first, _):
        channel = Channel(first, client=False)
        assert len(channel._reader.buffer) == 4096
        assert not hasattr(channel, "__dict__")
        channel.abort()
