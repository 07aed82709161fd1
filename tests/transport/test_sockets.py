from __future__ import annotations

import math
import socket
import struct
import sys
from typing import Any

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.transport import tune
from openenv_gym.transport.sockets import DirectSocket, PortableSocket, room_for, waiting_socket
from tests.transport.ends import connected


def limit(sock: socket.socket, option: int = socket.SO_RCVTIMEO) -> float:
    """Return what the kernel was told, in seconds."""
    seconds, micros = struct.unpack("@ll", sock.getsockopt(socket.SOL_SOCKET, option, 16))
    return float(seconds + micros / 1e6)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_direct_kind_is_taken_where_it_can(kind: str) -> None:
    with connected(kind) as (first, _):
        assert isinstance(waiting_socket(first), DirectSocket)


def test_the_portable_kind_is_taken_for_tls_and_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected("tls") as (first, _):
        assert isinstance(waiting_socket(first), PortableSocket)
    with connected("unix") as (first, second):
        with monkeypatch.context() as patch:
            patch.delattr(socket, "MSG_DONTWAIT")
            assert isinstance(waiting_socket(first), PortableSocket)
        monkeypatch.setattr(sys, "platform", "darwin")
        assert isinstance(waiting_socket(second), PortableSocket)


@pytest.mark.parametrize("kind", [DirectSocket, PortableSocket])
def test_calls_that_would_wait_too_long_say_so(kind: type[DirectSocket] | type[PortableSocket]) -> None:
    with connected("unix") as (first, second):
        io = kind(first)
        buffer = bytearray(10)
        with pytest.raises(BlockingIOError):
            io.recv_into(buffer, 0, io.now)
        io.limit_receive(0.001)
        with pytest.raises(BlockingIOError):
            io.recv_into(buffer)
        io.limit_receive(None)
        second.sendall(b"abc")
        assert io.recv_into(buffer, 0, io.now) == 3
        io.limit_send(0.001)
        with pytest.raises(BlockingIOError):
            while True:
                io.sendmsg([b"head", bytes(100_000)])
        io.restore()
        assert first.gettimeout() is None
        assert limit(first) == limit(first, socket.SO_SNDTIMEO) == 0


@pytest.mark.parametrize("kind", [DirectSocket, PortableSocket])
def test_both_kinds_move_bytes(kind: type[DirectSocket] | type[PortableSocket]) -> None:
    with connected("unix") as (first, second):
        io = kind(first)
        assert io.send(b"ab") == 2
        assert io.sendmsg([b"cd", b"ef"]) == 4
        assert second.recv(10) == b"abcdef"
        second.close()
        assert io.recv_into(bytearray(10)) == 0


def test_other_errors_stay_what_they_are() -> None:
    with connected("unix") as (first, second):
        second.close()
        with pytest.raises(BrokenPipeError):
            PortableSocket(first).send(b"abc")


def test_a_limit_is_told_to_the_kernel_only_when_it_is_far_from_the_last() -> None:
    with connected("unix") as (first, _):
        io = DirectSocket(first)
        io.limit_receive(60.0)
        assert limit(first) == 30.0
        for seconds in (59.9, 30.0, 240.0):
            io.limit_receive(seconds)
            assert limit(first) == 30.0, "still near enough"
        io.limit_receive(29.0)
        assert limit(first) == 14.5
        io.limit_receive(1000.0)
        assert limit(first) == 500.0
        io.limit_receive(None)
        assert limit(first) == 0
        io.limit_receive(None)
        assert limit(first) == 0


def test_the_last_stretch_is_exact_and_never_endless() -> None:
    with connected("unix") as (first, _):
        io = DirectSocket(first)
        for seconds in (0.002, 0.0, -5.0):
            io.limit_receive(seconds)
            assert 0 < limit(first) <= 0.02
        io.limit_receive(math.inf)
        assert limit(first) >= 1 << 20


def test_an_interrupt_while_a_limit_is_set_does_not_leave_a_wrong_belief(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected("unix") as (first, _):
        io = DirectSocket(first)
        io.limit_receive(10.0)

        class Interrupting(socket.socket):
            def setsockopt(self, *args: Any) -> None:
                super().setsockopt(*args)
                raise KeyboardInterrupt

        second = Interrupting(fileno=socket.dup(first.fileno()))
        with second, pytest.raises(KeyboardInterrupt):
            io._sock = second
            io.limit_receive(None)
        io._sock = first
        io.limit_receive(10.0)
        assert limit(first) == 5.0


def test_tcp_is_tuned() -> None:
    with connected("tcp") as (first, _):
        tune(first, 20.0)

        def option(name: str) -> int:
            return first.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))

        assert option("TCP_NODELAY")
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert (option("TCP_KEEPIDLE"), option("TCP_KEEPINTVL"), option("TCP_KEEPCNT")) == (20, 5, 4)
        assert option("TCP_USER_TIMEOUT") == 40_000
        tune(first, None)
        assert option("TCP_NODELAY")
        assert not first.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert option("TCP_USER_TIMEOUT") == 0


@pytest.mark.parametrize("keepalive", [0.001, 1e12])
def test_what_the_kernel_cannot_count_is_rounded(keepalive: float) -> None:
    with connected("tcp") as (first, _):
        tune(first, keepalive)
        assert 1 <= first.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 32767


def test_other_sockets_and_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected("unix") as (first, _):
        tune(first, 20.0)
        assert not first.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    for name in ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name)
    with connected("tcp") as (first, _):
        tune(first, 20.0)
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("keepalive", [0, -1.0, math.nan, math.inf])
def test_an_impossible_keepalive_is_refused(keepalive: float) -> None:
    with connected("tcp") as (first, _), pytest.raises(ConfigError, match="keepalive must be a positive"):
        tune(first, keepalive)


def room(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_large_message_is_given_room_once() -> None:
    with connected("unix") as (first, _), connected("unix") as (second, _):
        second.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, (1 << 20) - 1)
        limit = room_for(first, 1_000_000)
        assert 1_000_000 <= limit < 1_100_000
        assert room(first) == room(second)  # what the system allows


def test_room_is_never_taken_away() -> None:
    with connected("unix") as (first, _):
        before = room(first)
        assert room_for(first, 40_000) >= 40_000
        assert room(first) == before


def test_there_is_a_most_that_is_asked_for() -> None:
    with connected("unix") as (first, _), connected("unix") as (second, _):
        second.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        assert room_for(first, 1 << 30) == sys.maxsize
        assert room(first) == room(second)


def test_tcp_makes_room_by_itself() -> None:
    with connected("tcp") as (first, _):
        before = room(first)
        assert room_for(first, 1 << 20) == sys.maxsize
        assert room(first) == before
