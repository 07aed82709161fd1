"""An HTTP server that answers as a script says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Asked", "Reply", "Scripted", "scripted", "text"]


@dataclass(frozen=True)
class Reply:
    """``missing``: how many bytes fewer are sent than promised; ``hold``: say nothing until the end."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    hold: bool = False


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Scripted:
    base_url: str
    asked: list[Asked] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def calls(self) -> int:
        return len(self.asked)


def text(content: str | None, finish_reason: str = "stop") -> Reply:
    """Return the reply of a model that says ``content``."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Reply(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())


@contextmanager
def scripted(*replies: Reply) -> Iterator[Scripted]:
    """Serve ``replies`` one after the other, and the last one again and again."""
    turns = iter(replies)
    last = replies[-1]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.asked.append(Asked(self.path, dict(self.headers), json.loads(body)))
            reply = next(turns, last)
            if reply.hold:
                found.over.wait()
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: len(reply.body) - reply.missing])

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Scripted(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            found.over.set()
            server.shutdown()
            thread.join()
