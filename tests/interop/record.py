"""Record transcripts: ``python -m tests.interop.record PYTHON``.

``PYTHON`` is the interpreter of a virtual environment with the openenv package. Two files come of it, with
the versions in them: what its server answers to the exchanges of ``exchanges.py``, and what its clients and
its server say to each other in plays of ``their_calls.py``. Tests of ours repeat both without that package.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import websockets.asyncio.client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from .exchanges import EXCHANGES
from .peer import KINDS, peer_serving, run_theirs, versions
from .wire import play

__all__ = ["FOLDER", "main"]

FOLDER = Path(__file__).with_name("transcripts")
PLAYS = {"awaited": "probe", "typed": "probe", "refused": "probe", "tools": "tools"}
"""What is recorded of ``their_calls.py``, and the environment that it takes."""


class Tap:
    """Stands between a client and a server and writes down what they say.

    Args:
        base_url: The server.

    Attributes:
        steps: What was said, as ``{"to", "send", "receive"}``.
        url: Where the client finds it.
    """

    def __init__(self, base_url: str) -> None:
        self.steps: list[dict[str, Any]] = []
        self.url = ""
        self._base_url = base_url
        self._session = ""
        self._app = Starlette(
            routes=[
                Route("/{path:path}", self._request, methods=["GET", "POST"]),
                WebSocketRoute("/{path:path}", self._socket),
            ]
        )

    @contextlib.contextmanager
    def open(self) -> Iterator[str]:
        """Serve; yields the URL."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(uvicorn.Config(self._app, log_level="warning"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join()

    async def _request(self, request: Request) -> Response:
        body = await request.body()
        async with httpx.AsyncClient(base_url=self._base_url, timeout=60) as client:
            headers = {"content-type": "application/json"}
            reply = await client.request(request.method, request.url.path, content=body, headers=headers)
        answer = {"status": reply.status_code, "body": reply.json()}
        result = answer["body"].get("result") if isinstance(answer["body"], dict) else None
        if isinstance(result, dict) and not self._session:
            self._session = result.get("session_id", "")
        self._note(f"{request.method} {request.url.path}", json.loads(body) if body else None, answer)
        return Response(reply.content, reply.status_code, media_type="application/json")

    async def _socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        query = f"?{websocket.url.query}" if websocket.url.query else ""
        path = f"{websocket.url.path}{query}"
        url = self._base_url.replace("http", "ws", 1) + path
        async with websockets.asyncio.client.connect(url, proxy=None) as server:
            with contextlib.suppress(WebSocketDisconnect):
                while True:
                    said = await websocket.receive_text()
                    await server.send(said)
                    if json.loads(said) == {"type": "close"}:
                        await server.wait_closed()
                        self._note(f"ws {path}", json.loads(said), {"closed": server.close_code})
                        break
                    answer = str(await server.recv())
                    self._note(f"ws {path}", json.loads(said), {"frame": json.loads(answer)})
                    await websocket.send_text(answer)

    def _note(self, to: str, send: Any, receive: Any) -> None:
        text = json.dumps({"to": to, "send": send, "receive": receive})
        self.steps.append(json.loads(text.replace(self._session, "$session") if self._session else text))


def _exchanges(urls: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for exchange in EXCHANGES:
        answers = play(urls[exchange.kind], exchange.steps)
        steps = [
            {"to": step.to, "send": _text(step.send), "receive": answer}
            for step, answer in zip(exchange.steps, answers, strict=True)
        ]
        found.append({"name": exchange.name, "kind": exchange.kind, "steps": steps})
    return found


def _plays(python: Path, urls: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for name, kind in PLAYS.items():
        tap = Tap(urls[kind])
        with tap.open() as url:
            run_theirs(python, "their_calls.py", json.dumps({**urls, kind: url}), name)
        found.append({"name": name, "kind": kind, "steps": tap.steps})
    return found


def _text(send: Any) -> Any:
    return send.decode() if isinstance(send, bytes) else send


def _written(about: dict[str, Any], recorded: list[dict[str, Any]]) -> str:
    """Return a file's text, with a line for each step."""
    lines = []
    for each in recorded:
        steps = ",\n   ".join(json.dumps(step, ensure_ascii=False) for step in each["steps"])
        head = json.dumps({"name": each["name"], "kind": each["kind"]})[:-1]
        lines.append(f'  {head}, "steps": [\n   {steps}]}}')
    joined = ",\n".join(lines)
    return f'{{"recorded_with": {json.dumps(about)},\n "recorded": [\n{joined}\n ]}}\n'


def main(python: Path, folder: Path = FOLDER) -> None:
    """Record both files into ``folder``."""
    about = versions(python)
    with peer_serving(python, *KINDS) as urls:
        files = {"servers.json": _exchanges(urls), "clients.json": _plays(python, urls)}
    for name, recorded in files.items():
        (folder / name).write_text(_written(about, recorded), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
