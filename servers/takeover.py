"""The hand-over: our own WebSocket connections are taken from uvicorn and given to workers.

uvicorn makes one :class:`TakeoverProtocol` a connection. Once the first request's head is complete, it is
ours (a handshake that offers ``openenv.msgpack.v1``) or uvicorn's, whose own protocol then gets the
connection as if it had had it from the start. Of a connection of ours the socket is duplicated and the
transport aborted: no byte that the client sends after the handshake can be lost between the two, since what
came with the head is kept and the rest is read from the socket itself, by exact reads, up to the end of the
first message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Any

from openenv_gym.errors import CapacityError, OpenEnvError
from openenv_gym.protocol.messages import SUBPROTOCOL

from .arrivals import PATIENCE, Arrivals, refusal
from .patience import LONGEST_HEAD, http_protocol
from .pool import Arrival
from .security import check_mode, check_origin, check_token

__all__ = ["TakeoverProtocol"]

_OURS = SUBPROTOCOL.encode()
# The library logs all headers at DEBUG, the token among them.
_QUIET = logging.getLogger("openenv_gym.server.handshake")
_QUIET.setLevel(logging.WARNING)


class TakeoverProtocol(asyncio.Protocol):
    """Decides whose connection it is. uvicorn's ``http=`` setting names this class.

    Args:
        config: uvicorn's configuration. The state of its app holds ``arrivals``; without it all is uvicorn's.
        server_state: uvicorn's.
        app_state: uvicorn's.
        _loop: The event loop.
    """

    def __init__(self, config: Any, server_state: Any, app_state: Any, _loop: Any = None) -> None:
        self._arguments = {
            "config": config,
            "server_state": server_state,
            "app_state": app_state,
            "_loop": _loop,
        }
        state = config.app.state
        self._arrivals: Arrivals | None = getattr(state, "arrivals", None)
        self._transport: Any = None
        self._patience: asyncio.TimerHandle | None = None
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = transport
        if self._arrivals is None or transport.get_extra_info("ssl_object") is not None:
            self._pass_on()
        else:
            self._patience = asyncio.get_running_loop().call_later(PATIENCE, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        """Collect the head of the first request, then decide."""
        head = self._head = self._head + data
        end = head.find(b"\r\n\r\n", 0, LONGEST_HEAD) + 4
        if head[:4] != b"GET "[: len(head)] or (end < 4 and len(head) > LONGEST_HEAD):
            self._pass_on()
            return
        if end < 4:
            return
        if _OURS in head[:end] and b"upgrade" in head[:end].lower():
            self._take(head[:end], head[end:])
        else:
            self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left before anything was decided, or did not say what it wants."""
        self._decided()

    def eof_received(self) -> bool | None:
        """The client will send no more, and has not said what it wants."""
        return None

    def _decided(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _pass_on(self) -> None:
        """Let uvicorn have the connection."""
        self._decided()
        inner = http_protocol()(**self._arguments)
        transport, head = self._transport, self._head
        self._head = b""
        transport.set_protocol(inner)
        inner.connection_made(transport)
        if head:
            inner.data_received(head)

    def _take(self, head: bytes, unread: bytes) -> None:
        """Answer the handshake and take the socket."""
        self._decided()
        from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
        from websockets.server import ServerProtocol

        arrivals = self._arrivals
        assert arrivals is not None
        extensions = []
        if arrivals.settings.compression == "deflate":
            extensions.append(ServerPerMessageDeflateFactory(True, True))
        protocol = ServerProtocol(
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            extensions=extensions,
            logger=_QUIET,
        )
        protocol.receive_data(head)
        events = protocol.events_received()
        if not events or not _offers_ours(events[0]):  # uvicorn will say what is wrong, if anything is
            self._pass_on()
            return
        request: Any = events[0]
        try:
            check_token(arrivals.settings, request.headers.get("Authorization"))
            check_origin(arrivals.settings, request.headers.get("Origin"))
            check_mode(arrivals.settings)
        except OpenEnvError as exc:
            self._refuse(exc)
            return
        response = protocol.accept(request)
        response.headers.update(arrivals.advertisement())
        protocol.send_response(response)
        answer = b"".join(protocol.data_to_send())
        if response.status_code != 101:
            self._transport.write(answer)
            self._transport.close()
            return
        try:
            sock = self._detach()
        except OSError as exc:
            self._refuse(
                CapacityError(
                    f"the server may open no more files ({exc}): raise the limit (ulimit -n), or lower"
                    " --max-sessions",
                    option="max_sessions",
                )
            )
            return
        arrivals.welcome(Arrival(sock, unread, bool(protocol.extensions)), answer)

    def _refuse(self, exc: OpenEnvError) -> None:
        self._transport.write(refusal(exc))
        self._transport.close()

    def _detach(self) -> socket.socket:
        """Return a socket of our own; the transport closes its descriptor, not the connection."""
        transport = self._transport
        theirs = transport.get_extra_info("socket")
        sock = socket.socket(fileno=os.dup(theirs.fileno()))
        sock.setblocking(False)
        transport.pause_reading()
        transport.abort()
        return sock


def _offers_ours(request: Any) -> bool:
    offers = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
    return SUBPROTOCOL in (offer.strip() for offer in offers.split(","))
