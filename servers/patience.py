"""uvicorn's HTTP protocol with an end to its patience.

uvicorn waits for the rest of a head for ever, and keeps any amount of it: a client that sends a byte now and
then, or headers without end, would keep a descriptor or fill the memory. Here the head of a request must be
there within :data:`.arrivals.PATIENCE` seconds of its first byte, and in 64 KiB. Whoever reads a body is as
impatient (:func:`.openenv.http.read_body`).
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from typing import Any

from .arrivals import PATIENCE

__all__ = ["LONGEST_HEAD", "http_protocol"]

LONGEST_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""


@cache
def http_protocol() -> Any:
    """Return the class of the protocol that uvicorn would have chosen, made impatient."""

    class Patient(_uvicorn_protocol()):  # type: ignore[misc]
        """Serves one connection."""

        _timer: asyncio.TimerHandle | None = None
        _unread = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            self._unread += len(data)
            super().data_received(data)
            if self.transport.is_closing():
                return
            if self.transport.get_protocol() is not self:  # it is a WebSocket's now
                self._stop_waiting()
            elif self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
                self._unread = 0
            elif self._unread > LONGEST_HEAD:
                self.send_400_response("The head of the request is too long.")
            else:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(PATIENCE, self.transport.abort)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Patient


def _uvicorn_protocol() -> Any:
    with contextlib.suppress(ImportError):
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        return HttpToolsProtocol
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return H11Protocol
