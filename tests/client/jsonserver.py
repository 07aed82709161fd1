"""A small server that speaks OpenEnv's JSON as a script says, over WebSocket and HTTP."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

__all__ = ["SCHEMAS", "JsonServer", "observation", "serving_json"]

#: What an environment of OpenEnv with the fields ``message`` and ``echoed`` answers to ``GET /schema``.
SCHEMAS = {
    "action": {
        "type": "object",
        "additionalProperties": False,
        "required": ["message"],
        "properties": {
            "metadata": {"type": "object", "additionalProperties": True},
            "message": {"type": "string", "minLength": 1, "maxLength": 64},
        },
    },
    "observation": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "done": {"type": "boolean", "default": False},
            "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "metadata": {"type": "object", "additionalProperties": True},
            "echoed": {"type": "string", "default": "", "maxLength": 64},
        },
    },
    "state": {"type": "object", "additionalProperties": True},
}


def observation(fields: dict[str, Any], **beside: Any) -> dict[str, Any]:
    """Return an ``observation`` message."""
    return {
        "type": "observation",
        "data": {"observation": fields, "reward": None, "done": False, **beside},
    }


class JsonServer:
    """Answers each message with what ``answer`` returns for it.

    Args:
        answer: Gets the message and the number of the connection; returns what to send: a dict, text, a list
            of these, ``None`` for nothing; raising ``ConnectionAbortedError`` cuts the connection.
        greeting: Sent as soon as a client is there.

    Attributes:
        seen: The messages received.
        connections: How many there were.
        pages: What HTTP requests get, by path: a JSON value, or a Response.
        headers: Those of the last handshake.
    """

    def __init__(self, answer: Callable[[dict[str, Any], int], Any], greeting: Any = None) -> None:
        self.answer = answer
        self.greeting = greeting
        self.seen: list[Any] = []
        self.connections = 0
        self.pages: dict[str, Any] = {"/schema": SCHEMAS}
        self.headers: Any = None
        self.url = ""
        self._server: Server | None = None

    def handle(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        self.connections += 1
        number = self.connections
        with contextlib.suppress(ConnectionClosed, ConnectionAbortedError):
            if self.greeting is not None:
                _send(connection, self.greeting)
                return
            for text in connection:
                message = json.loads(text)
                self.seen.append(message)
                if message["type"] == "close":
                    return
                _send(connection, self.answer(message, number))
        if connection.protocol.close_code is None:
            connection.close()

    def page(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer an HTTP request; ``None``: it is a handshake."""
        path = request.path.partition("?")[0]
        if path not in self.pages:
            self.headers = request.headers
            return None
        found = self.pages[path]
        if isinstance(found, Response):
            return found
        return Response(200, "OK", Headers({"Content-Type": "application/json"}), json.dumps(found).encode())


def _send(connection: ServerConnection, answer: Any) -> None:
    for each in answer if isinstance(answer, list) else [answer]:
        if each is not None:
            connection.send(each if isinstance(each, str | bytes) else json.dumps(each))


@contextlib.contextmanager
def serving_json(
    answer: Callable[[dict[str, Any], int], Any] = lambda message, number: observation({"echoed": "hi"}),
    greeting: Any = None,
    **options: Any,
) -> Iterator[JsonServer]:
    """Run such a server in a thread."""
    mine = JsonServer(answer, greeting)
    with serve(mine.handle, "127.0.0.1", 0, process_request=mine.page, compression=None, **options) as server:
        mine.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield mine
        server.shutdown()
        thread.join(10)
