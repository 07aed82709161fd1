"""A pool whose worker is a task beside the test: it answers with what the test tells it to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from openenv_gym.errors import OpenEnvError, SessionLostError
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_request, encode
from openenv_gym.protocol.reader import FrameReader
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.settings import ServerSettings

__all__ = ["FakePool", "Living", "reply_to"]

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

    async def admit(self, hello: m.Hello, raw: bytes, arrival: Arrival) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.living[hello.session] = Living(hello)
        sock = socket.socket(fileno=arrival.sock.detach())
        sock.setblocking(False)
        task = asyncio.create_task(self._work(sock, raw, hello.session))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

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
