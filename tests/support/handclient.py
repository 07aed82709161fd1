"""A client of openenv.msgpack.v1, written from docs/protocol.md alone: socket, handshake, frames by hand."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from .handwritten import message, read

__all__ = ["BINARY", "CLOSE", "PING", "PONG", "HandClient"]

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PATIENCE = 20.0


class HandClient:
    """One connection.

    Args:
        base_url: ``ws://host:port`` or ``unix:/path``, without a path prefix.
        offer: The subprotocol to offer; ``""``: none.
        headers: More headers of the handshake.

    Attributes:
        status: The status of the answer to the handshake.
        headers: Its headers, names in lower case.
        told: The JSON object in its body, when it was refused.
        pongs: How many pongs came.
    """

    def __init__(
        self,
        base_url: str,
        *,
        offer: str = "openenv.msgpack.v1",
        headers: Mapping[str, str] | None = None,
        path: str = "/ws",
    ) -> None:
        self.pongs = 0
        self._unread = b""
        self._sock = _dial(base_url)
        try:
            self._handshake(offer, dict(headers or {}), path)
        except BaseException:
            self._sock.close()
            raise

    def __enter__(self) -> HandClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._sock.close()

    def _handshake(self, offer: str, headers: dict[str, str], path: str) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Protocol: {offer}"] if offer else []
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        while b"\r\n\r\n" not in self._unread:
            self._more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
        }
        self.told = None
        if self.status == 101:
            accept = base64.b64encode(hashlib.sha1(key + _ACCEPT).digest()).decode()
            assert self.headers["sec-websocket-accept"] == accept
        elif self.headers.get("content-type") == "application/json":
            self.told = json.loads(self._take(int(self.headers["content-length"])))

    def send(self, payload: bytes, opcode: int = BINARY, *, fin: bool = True) -> None:
        """Send one frame."""
        size = len(payload)
        first = bytes(((0x80 if fin else 0) | opcode,))
        if size < 126:
            head = first + bytes((0x80 | size,))
        elif size < 65536:
            head = first + b"\xfe" + size.to_bytes(2, "big")
        else:
            head = first + b"\xff" + size.to_bytes(8, "big")
        key = os.urandom(4)
        self._sock.sendall(head + key + bytes(byte ^ key[at & 3] for at, byte in enumerate(payload)))

    def frame(self) -> tuple[int, bytes]:
        """Return opcode and payload of the next frame; a server fragments nothing."""
        first, second = self._take(2)
        assert first & 0x80 and second < 0x80
        size = second
        if second >= 126:
            size = int.from_bytes(self._take(2 if second == 126 else 8), "big")
        return first & 15, self._take(size)

    def receive(self) -> dict[str, Any]:
        """Return the next message as a tree; pongs are counted on the way."""
        while True:
            opcode, payload = self.frame()
            if opcode == BINARY:
                tree = read(payload)
                assert isinstance(tree, dict)
                return tree
            assert opcode in (PING, PONG), (opcode, payload)
            if opcode == PING:
                self.send(payload, PONG)
            self.pongs += opcode == PONG

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a message and return the reply."""
        self.send(message(kind, fields))
        return self.receive()

    def closing(self) -> tuple[int, str]:
        """Return code and reason of the close frame that comes next."""
        opcode, payload = self.frame()
        while opcode in (PING, PONG):
            opcode, payload = self.frame()
        assert opcode == CLOSE, (opcode, payload)
        return int.from_bytes(payload[:2], "big"), payload[2:].decode()

    def _take(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._more()
        taken, self._unread = self._unread[:size], self._unread[size:]
        return taken

    def _more(self) -> None:
        data = self._sock.recv(65536)
        if not data:
            raise EOFError("the server closed the connection")
        self._unread += data


def _dial(base_url: str) -> socket.socket:
    scheme, _, place = base_url.partition(":")
    if scheme == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(_PATIENCE)
        sock.connect(place)
        return sock
    host, _, port = place.removeprefix("//").rpartition(":")
    return socket.create_connection((host, int(port)), _PATIENCE)
