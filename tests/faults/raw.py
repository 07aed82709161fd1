"""A client made of bytes: what goes into which segment is the test's choice."""

from __future__ import annotations

import base64
import os
import random
import secrets
import socket
from collections.abc import Sequence
from typing import Any

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.frames import Frame, masked_message
from openenv_gym.protocol.messages import SUBPROTOCOL
from openenv_gym.protocol.reader import FrameReader

__all__ = ["RawConnection", "cuts", "hello", "upgrade"]


def upgrade() -> bytes:
    """Return a handshake for our subprotocol."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
    ).encode()


def hello(**fields: Any) -> bytes:
    """Return the frame of a ``hello`` for a session of its own."""
    return masked_message(
        encode(m.Hello(session=secrets.token_hex(16), token=secrets.token_bytes(16), **fields))
    )


class RawConnection:
    """A socket to a server.

    Args:
        url: The server.
        receive_buffer: Size of the kernel's buffer in bytes; 0: as it is.
    """

    def __init__(self, url: str, receive_buffer: int = 0) -> None:
        if url.startswith("unix:"):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            place: Any = url.removeprefix("unix:")
        else:
            self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host, _, port = url.removeprefix("ws://").rpartition(":")
            place = host, int(port)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(20.0)
        self.sock.connect(place)
        self._reader: FrameReader | None = None

    def send(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        """Send ``data``, a segment up to each of the positions ``cuts``."""
        start = 0
        for end in (*cuts, len(data)):
            self.sock.sendall(data[start:end])
            start = end

    def upgraded(self) -> None:
        """Receive the answer to the handshake."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                raise EOFError(f"the handshake was answered with {head!r}")
            head += byte
        if not head.startswith(b"HTTP/1.1 101 "):
            raise AssertionError(head)
        self._reader = FrameReader(client=True)

    def receive(self) -> Any:
        """Return the next message or control frame; EOFError at the end, OSError as it comes."""
        reader = self._reader
        assert reader is not None
        while (event := reader.next()) is None:
            reader.arrived = self.sock.recv_into(reader.target)
            if not reader.arrived:
                raise EOFError
        return event if isinstance(event, Frame) else decode_reply(event)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cuts(rng: random.Random, size: int, segments: int) -> list[int]:
    """Return where to cut ``size`` bytes into so many segments."""
    return sorted(rng.sample(range(1, size), min(segments - 1, size - 1)))
