"""Two ends of a connection in one process, and a peer that is websockets' own."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.frames import Frame
from websockets.protocol import CLIENT, SERVER, Protocol

from openenv_gym.protocol.frames import PING, PONG

KINDS = ["unix", "tcp", "tls"]


@contextmanager
def connected(kind: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give the two ends of a connection."""
    if kind == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            first = socket.create_connection(listener.getsockname())
            second, _ = listener.accept()
    else:
        first, second = socket.socketpair()
    if kind == "tls":
        first, second = _encrypt(first, second)
    with first, second:
        yield first, second


def _encrypt(first: socket.socket, second: socket.socket) -> tuple[socket.socket, socket.socket]:
    encrypted: list[socket.socket] = []

    def accept() -> None:
        encrypted.append(_anonymous(ssl.PROTOCOL_TLS_SERVER).wrap_socket(second, server_side=True))

    thread = threading.Thread(target=accept)
    thread.start()
    client = _anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(first)
    thread.join()
    return client, encrypted[0]


def _anonymous(side: int) -> ssl.SSLContext:
    """Return a context that needs no certificate: a key exchange nobody vouches for."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH:@SECLEVEL=0")
    return context


class Peer:
    """websockets' protocol on the other end, moved by the test."""

    def __init__(self, sock: socket.socket, client: bool) -> None:
        self.sock = sock
        self.protocol = Protocol(CLIENT if client else SERVER, max_size=None)

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self.sock.sendall(data)

    def send(self, payload: bytes) -> None:
        self.protocol.send_binary(payload)
        self.flush()

    def control(self, opcode: int, payload: bytes = b"") -> None:
        {PING: self.protocol.send_ping, PONG: self.protocol.send_pong}[opcode](payload)
        self.flush()

    def frames(self, count: int) -> list[tuple[int, bytes]]:
        """Receive until ``count`` frames are here and return them."""
        found: list[tuple[int, bytes]] = []
        while len(found) < count:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(f"the connection ended after {found}")
            self.protocol.receive_data(data)
            for event in self.protocol.events_received():
                assert isinstance(event, Frame)
                found.append((int(event.opcode), bytes(event.data)))
        return found
