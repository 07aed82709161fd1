"""Arrivals: upgraded connections whose first message says which session they are for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from http import HTTPStatus

from starlette.types import Scope

from openenv_gym.errors import (
    MessageTooLargeError,
    OpenEnvError,
    RemoteProtocolError,
    ServerTimeoutError,
)
from openenv_gym.protocol import frames
from openenv_gym.protocol.codec import Greeting, decode_first, encode
from openenv_gym.protocol.deflate import inflate
from openenv_gym.protocol.masking import apply_mask
from openenv_gym.protocol.messages import SUBPROTOCOL

from .pool import Arrival, Pool
from .problems import problem, status_of
from .replies import error_reply
from .settings import ServerSettings

__all__ = ["PATIENCE", "Arrivals", "nothing_came", "offers_ours", "refusal"]

_LOG = logging.getLogger("openenv_gym.server")
PATIENCE = 10.0
"""Seconds in which a new connection must have said what it is for."""
_LARGEST_FIRST = 1 << 20


def offers_ours(scope: Scope) -> bool:
    """Return whether a handshake offers our subprotocol; older uvicorn splits no list of them."""
    offers = ",".join(scope.get("subprotocols", ()))
    return SUBPROTOCOL in (offer.strip() for offer in offers.split(","))


class Arrivals:
    """Reads the first message of new connections and passes them to the pool.

    Args:
        pool: Every session of the server.
        settings: Its settings.
    """

    def __init__(self, pool: Pool, settings: ServerSettings) -> None:
        self.settings = settings
        self._pool = pool
        self._tasks: set[asyncio.Task[None]] = set()

    def advertisement(self) -> dict[str, str]:
        """Return headers for the response to a handshake."""
        return self._pool.advertisement()

    def welcome(self, arrival: Arrival, answer: bytes) -> None:
        """Take a connection; ``answer`` is the response to its handshake and still to be sent."""
        task = asyncio.get_running_loop().create_task(self._receive(arrival, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, arrival: Arrival, answer: bytes) -> None:
        sock = arrival.sock
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.get_running_loop().sock_sendall(sock, answer)
                raw = await _first_message(arrival)
            await self.introduce(raw, arrival)
        except OpenEnvError as exc:
            await _turn_away(sock, exc)
        except TimeoutError:
            await _turn_away(sock, nothing_came(PATIENCE))
        except (OSError, EOFError):
            pass
        finally:
            sock.close()

    async def introduce(self, raw: bytes, arrival: Arrival) -> None:
        """Give the connection to the session that its first message names.

        Raises:
            OpenEnvError: There is none; the socket is still the caller's.
        """
        _check_size(len(raw))
        message = decode_first(raw)
        if isinstance(message, Greeting):
            await self._pool.admit(message, raw, arrival)
        else:
            record = self._pool.records.find(message.session, message.token)
            # Proof of life, before a worker that may be deep in a C call can give any.
            with contextlib.suppress(BlockingIOError):
                arrival.sock.send(frames.frame(frames.PONG, masked=False))
            self._pool.attach(record, arrival)


async def _first_message(arrival: Arrival) -> bytes:
    """Read exactly one message; what was read beyond it stays in ``arrival.unread``."""
    loop = asyncio.get_running_loop()
    data = bytearray(arrival.unread)

    async def need(count: int) -> None:
        while len(data) < count:
            part = await loop.sock_recv(arrival.sock, count - len(data))
            if not part:
                raise EOFError
            data.extend(part)

    await need(2)
    compressed = arrival.deflate and data[0] == 0xC2
    if not (compressed or data[0] == 0x82) or not data[1] & 0x80:
        raise RemoteProtocolError("the first frame must be one whole, masked binary message")
    length, offset = data[1] & 0x7F, 2
    if length >= 126:
        size = 2 if length == 126 else 8
        await need(2 + size)
        length, offset = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
    _check_size(length)
    end = offset + 4 + length
    await need(end)
    payload = apply_mask(data[offset + 4 : end], data[offset : offset + 4])
    arrival.unread = bytes(data[end:])
    return bytes(inflate(payload, _LARGEST_FIRST) if compressed else payload)


def _check_size(size: int) -> None:
    """Refuse a first message of so many bytes if that is too many."""
    if size > _LARGEST_FIRST:
        raise MessageTooLargeError(
            f"the first message has {size} bytes; until there is a session {_LARGEST_FIRST} are allowed",
            size=size,
            limit=_LARGEST_FIRST,
        )


async def _turn_away(sock: socket.socket, exc: OpenEnvError) -> None:
    """Say why there is no session, and close."""
    payload = encode(error_reply(exc, alive=False))
    data = frames.plain_message(payload) + frames.frame(
        frames.CLOSE, frames.close_payload(1013, "refused"), masked=False
    )
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.get_running_loop().sock_sendall(sock, data)
            sock.shutdown(socket.SHUT_WR)  # so that what the client still sends does not reset what we said
            while await asyncio.get_running_loop().sock_recv(sock, 4096):
                pass


def nothing_came(patience: float) -> ServerTimeoutError:
    """Return the error for a client that connected and said nothing for ``patience`` seconds."""
    return ServerTimeoutError(f"no message came within {patience:g} s of connecting")


def refusal(exc: OpenEnvError) -> bytes:
    """Return the HTTP response that refuses a handshake."""
    status = HTTPStatus(status_of(exc))
    data = json.dumps(problem(exc)).encode()
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    ).encode() + data
