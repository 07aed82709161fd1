"""Clients that leave while they wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

__all__ = ["unless_gone"]


async def unless_gone(sock: socket.socket, work: Coroutine[Any, Any, None]) -> None:
    """Carry out ``work`` for the client of ``sock``, and give it up when the client leaves.

    What the client sends meanwhile stays in the socket; a client that has sent something is not watched
    any longer, since its end would come behind that.

    Args:
        sock: A connection that nobody reads from at the moment.
        work: What the client waits for; it is cancelled when the client leaves.

    Raises:
        ConnectionAbortedError: The client left.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    gone = False

    def look() -> None:
        nonlocal gone
        loop.remove_reader(sock)
        try:
            gone = not sock.recv(1, socket.MSG_PEEK)
        except OSError:
            gone = True
        if gone:
            task.cancel()

    loop.add_reader(sock, look)
    try:
        await task
    except asyncio.CancelledError:
        if gone:
            raise ConnectionAbortedError("the client left while it waited") from None
        task.cancel()
        raise
    finally:
        loop.remove_reader(sock)
