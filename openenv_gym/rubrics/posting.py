"""Blocking HTTP, for callers on an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from email.message import Message
from http.client import HTTPResponse
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

__all__ = ["Answer", "in_thread", "post"]

T = TypeVar("T")
_LARGEST = 16 * 1024 * 1024
_CHUNK = 64 * 1024


class Answer(NamedTuple):
    """An HTTP answer, whatever its status."""

    status: int
    headers: Message
    body: bytes


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirection for an answer. Followed, it loses the body and shows the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
    """Post ``body`` and return the answer; redirections are not followed.

    Args:
        url: Where to.
        headers: The headers.
        body: The body.
        timeout: For all of it, in seconds.

    Raises:
        OSError: There is no connection, or no answer in time, or one of more than 16 MiB.
        http.client.HTTPException: The answer is not HTTP, or ends too early.
    """
    end = time.monotonic() + timeout
    request = Request(url, data=body, headers=dict(headers), method="POST")
    try:
        with build_opener(_NoRedirect).open(request, timeout=timeout) as answer:
            return Answer(answer.status, answer.headers, _read(answer, end))
    except HTTPError as error:
        with error:
            return Answer(error.code, error.headers, _read(error, end))


def _read(answer: HTTPResponse | HTTPError, end: float) -> bytes:
    """Read to the end, piece by piece: the socket's own timeout begins anew with each."""
    found = bytearray()
    while piece := answer.read1(_CHUNK):
        found += piece
        if len(found) > _LARGEST:
            raise OSError(f"the answer has more than {_LARGEST} bytes")
        if time.monotonic() > end:
            raise TimeoutError("the answer did not end in time")
    return bytes(found)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call ``function`` in a thread of its own, and return or raise what it does.

    ``asyncio.to_thread`` has a few threads for the whole loop, and a loop waits for them when it ends.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # From here on only the thread settles it.

    def run() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, name="openenv-judge", daemon=True).start()
    return await asyncio.wrap_future(future)
