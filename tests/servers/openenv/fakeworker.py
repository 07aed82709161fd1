"""A pool whose worker is a task beside the test: it answers with what the test tells it to."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import httpx
from starlette.types import ASGIApp

from openenv_gym.errors import OpenEnvError, SessionLostError
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_request, encode
from openenv_gym.protocol.reader import FrameReader
from openenv_gym.protocol.specs import to_spec
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.settings import ServerSettings

__all__ = ["FACTS", "FakePool", "Living", "Web", "Wire", "instead", "reply_to"]

Answer = Callable[[Any], Any]


def reply_to(request: Any) -> Any:
    """Answer as an environment that counts its steps."""
    match request:
        case m.Hello():
            return m.Welcome(session=request.session, token=request.token, capabilities=["typed"])
        case m.Reset():
            told = {"seed": request.seeds[0] if request.seeds else None, **(request.options or {})}
            return m.Observation(request.id, told, rewards=[None], flags=b"\0", infos=[{"start": True}])
        case m.Step():
            return m.Transition(request.id, request.actions, [0.5], b"\1", [{"n": request.id}])
        case m.State():
            return m.Value(request.id, [{"episode_id": "e", "step_count": request.id}])
        case m.Ask():
            return m.Value(request.id, [[request.topic, request.arguments]])
        case _:
            return m.Closed(request.id)


def instead(kind: type, reply: Any) -> Answer:
    """Answer requests of one kind with ``reply``, or with what it returns, and the others as ever."""

    def answer(request: Any) -> Any:
        if type(request) is not kind:
            return reply_to(request)
        return reply(request) if callable(reply) else reply

    return answer


FACTS: dict[str, Any] = {
    "target": "t",
    "observation_space": to_spec(gym.spaces.Box(-1.0, 1.0, (2,))),
    "action_space": to_spec(gym.spaces.Discrete(2)),
    "metadata": {"render_modes": ["ansi"], "fps": float("inf")},
    "render_mode": None,
    "spec": {"max_episode_steps": 5, "reward_threshold": None, "nondeterministic": False},
    "capabilities": ["typed"],
    "own": {
        "name": "Game",
        "description": "It is one.",
        "version": "2",
        "author": None,
        "readme_content": None,
    },
    "schemas": {
        "action": {
            "type": "object",
            "properties": {"move": {"$ref": "#/$defs/Move"}},
            "required": ["move"],
            "$defs": {"Move": {"enum": ["left", "right"]}},
        },
        "observation": {"type": "object", "properties": {"seen": {"type": "string"}}},
        "state": {"type": "object", "properties": {"step_count": {"type": "integer"}}},
    },
}
"""What such a pool says of its environment."""


class Living:
    """One session of the fake worker."""

    def __init__(self, hello: m.Hello) -> None:
        self.hello = hello
        self.ending: OpenEnvError | None = None


class FakePool:
    """What a peer needs of a pool.

    Attributes:
        answer: Makes the reply to a request; may return a list of replies, bytes to be sent as they are, or
            an awaitable of either. ``None``: the worker closes the connection.
        asked: Every request that came.
        done: What was done to sessions.
        offered: Sessions that would yield their slots.
    """

    def __init__(self, answer: Answer = reply_to, refusal: OpenEnvError | None = None, **more: Any) -> None:
        self.settings = ServerSettings(**more)
        self.answer = answer
        self.refusal = refusal
        self.asked: list[Any] = []
        self.done: list[tuple[str, OpenEnvError]] = []
        self.living: dict[str, Living] = {}
        self.endings: dict[str, OpenEnvError] = {}
        self.records = SimpleNamespace(living=self.living, find=self._find)
        self.tasks: set[asyncio.Task[None]] = set()
        self.offered: set[str] = set()
        self.described = 0

    def capacity(self) -> dict[str, Any]:
        return {"active": len(self.living), "max": 2, "waiting": 0}

    async def describe(self) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.described += 1
        return FACTS

    async def settle(self) -> None:
        """Wait until no session is left."""
        while self.tasks:
            await asyncio.sleep(0)

    async def admit(self, hello: m.Hello, raw: bytes, arrival: Arrival) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.living[hello.session] = Living(hello)
        sock = socket.socket(fileno=arrival.sock.detach())
        sock.setblocking(False)
        task = asyncio.create_task(self._work(sock, raw, hello.session))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def offer(self, session: str, unclaimed: bool) -> None:
        (self.offered.add if unclaimed else self.offered.discard)(session)

    def end(self, record: Living, reason: OpenEnvError) -> None:
        record.ending = reason
        self.done.append(("end", reason))

    def condemn(self, record: Living, reason: OpenEnvError) -> None:
        record.ending = reason
        self.done.append(("condemn", reason))

    def _find(self, session: str, token: bytes) -> Living:
        if session in self.endings:
            raise self.endings[session]
        return self.living[session]

    async def _work(self, sock: socket.socket, raw: bytes, session: str) -> None:
        loop = asyncio.get_running_loop()
        reader = FrameReader(client=False)
        requests = [raw]
        try:
            while True:
                for request in requests:
                    if not await self._serve(sock, request):
                        return
                requests.clear()
                reader.arrived = await loop.sock_recv_into(sock, reader.target)
                if not reader.arrived:
                    return
                while (event := reader.next()) is not None:
                    assert not isinstance(event, frames.Frame)
                    requests.append(bytes(event))
        except ConnectionError:  # the peer does not want to hear it
            pass
        finally:
            sock.close()
            self.endings.setdefault(session, SessionLostError("the fake worker let go"))
            self.living.pop(session, None)

    async def _serve(self, sock: socket.socket, raw: bytes) -> bool:
        request = decode_request(raw)
        self.asked.append(request)
        reply = self.answer(request)
        if asyncio.iscoroutine(reply):
            reply = await reply
        for part in reply if isinstance(reply, list) else [reply]:
            if part is None:
                return False
            data = part if isinstance(part, bytes) else bytes(frames.plain_message(encode(part)))
            await asyncio.get_running_loop().sock_sendall(sock, data)
        return not isinstance(request, m.Close)


class Web(httpx.AsyncClient):
    """A client of an application, without sockets; it keeps cookies."""

    def __init__(self, app: ASGIApp, **more: Any) -> None:
        super().__init__(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000", **more)


class Wire:
    """A WebSocket to an application, without sockets.

    Args:
        app: The application.
        query: Of the address.
        headers: Of the handshake.
        subprotocols: Those offered.
    """

    def __init__(
        self,
        app: ASGIApp,
        query: str = "",
        headers: dict[str, str] | None = None,
        subprotocols: tuple[str, ...] = (),
    ) -> None:
        scope = {
            "type": "websocket",
            "path": "/ws",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            "subprotocols": list(subprotocols),
            "extensions": {"websocket.http.response": {}},
        }
        self._up: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._down: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._up.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._up.get, self._send))  # type: ignore[arg-type]

    async def _send(self, event: Any) -> None:
        self._down.put_nowait(dict(event))
        if event["type"] == "websocket.close":
            self.leave()

    def send(self, message: Any) -> None:
        """Send a message: bytes as a binary frame, text as it is, anything else as JSON."""
        if isinstance(message, bytes):
            self._up.put_nowait({"type": "websocket.receive", "bytes": message})
        else:
            text = message if isinstance(message, str) else json.dumps(message)
            self._up.put_nowait({"type": "websocket.receive", "text": text})

    async def next(self) -> Any:
        """Return the next message, or the whole event when it is none."""
        event = await self._down.get()
        return json.loads(event["text"]) if event["type"] == "websocket.send" else event

    async def ask(self, message: Any) -> Any:
        """Send a message and return the answer."""
        self.send(message)
        return await self.next()

    def leave(self) -> None:
        """Be gone."""
        self._up.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def end(self) -> list[Any]:
        """Wait for the application; return what came and was not read."""
        await self.task
        return [await self.next() for _ in range(self._down.qsize())]
