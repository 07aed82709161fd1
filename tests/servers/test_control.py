"""Control messages arrive whole, in order, each with its own descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections import deque
from collections.abc import Iterator

import pytest

from openenv_gym.servers import control as c


@pytest.fixture
def ends() -> tuple[c.ControlSocket, c.ControlSocket]:
    left, right = socket.socketpair()
    return c.ControlSocket(left), c.ControlSocket(right)


def _pipe_with(text: bytes) -> int:
    read, write = os.pipe()
    os.write(write, text)
    os.close(write)
    return read


def test_descriptors_belong_to_the_message_they_came_with(
    ends: tuple[c.ControlSocket, c.ControlSocket],
) -> None:
    left, right = ends
    first, second = _pipe_with(b"first"), _pipe_with(b"second")
    left.post(c.Drain(1.5))
    left.post(c.Attach("a" * 32, b"x"), [first])
    left.post(c.Forked(1, 2))
    left.post(c.Attach("b" * 32, b""), [second])
    got = [right.receive() for _ in range(4)]
    assert [item[0] for item in got if item] == [
        c.Drain(1.5),
        c.Attach("a" * 32, b"x"),
        c.Forked(1, 2),
        c.Attach("b" * 32, b""),
    ]
    assert [len(item[1]) for item in got if item] == [0, 1, 0, 1]
    assert left._unsent == deque()  # and our copies of the descriptors are closed
    fds = [fd for item in got if item for fd in item[1]]
    assert [os.read(fd, 10) for fd in fds] == [b"first", b"second"]
    for fd in fds:
        os.close(fd)
    left.close()
    assert right.receive() is None
    right.close()


def test_a_reader_that_does_not_read_never_blocks_the_sender(
    ends: tuple[c.ControlSocket, c.ControlSocket],
) -> None:
    left, right = ends
    left.sock.setblocking(False)
    big = c.Open("a" * 32, 1, b"h" * 500_000, b"", True)
    fd = _pipe_with(b"late")
    assert not left.post(big)
    assert not left.post(c.Attach("b" * 32, b""), [fd])
    right.sock.setblocking(False)
    received: list[tuple[c.Message, list[int]]] = []
    while len(received) < 2:
        left.flush()
        right.fill()
        while (item := right.take()) is not None:
            received.append(item)
    assert received[0] == (big, [])
    [late] = received[1][1]
    assert os.read(late, 10) == b"late"
    os.close(late)
    left.close()
    right.close()


@contextlib.contextmanager
def _no_more_files() -> Iterator[None]:
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_descriptor_that_cannot_be_received_is_lost_to_its_own_message_alone(
    ends: tuple[c.ControlSocket, c.ControlSocket],
) -> None:
    left, right = ends
    kept = _pipe_with(b"kept")
    for session, fd in (("a", _pipe_with(b"lost")), ("b", kept)):
        left.post(c.Attach(session, b""), [fd])
    with _no_more_files():
        assert right.fill()
    assert right.receive() == (c.Attach("a", b""), [c.LOST])
    item = right.receive()
    assert item is not None
    assert item[0] == c.Attach("b", b"")
    assert os.read(item[1][0], 10) == b"kept"
    os.close(item[1][0])
    left.close()
    right.close()


def test_closing_closes_descriptors_that_nobody_took(ends: tuple[c.ControlSocket, c.ControlSocket]) -> None:
    left, right = ends
    read, write = os.pipe()
    left.post(c.Attach("a" * 32, b""), [read])
    assert right.fill()
    right.close()
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)
    left.close()
