"""``/mcp`` over an environment in this process, without workers."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from openenv_gym.environment import Environment
from openenv_gym.errors import CapacityError, OpenEnvError, SessionLostError
from openenv_gym.models import CallToolAction, Observation, State
from openenv_gym.playing import Player
from openenv_gym.servers.mcp.endpoint import McpEndpoint
from openenv_gym.servers.openenv import sessions as sessions_module
from openenv_gym.servers.openenv.sessions import Sessions
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.tools import ToolResult, tool

PIXEL = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


class Bench(Environment[CallToolAction, Observation, State]):
    """Tools of every kind."""

    tool_timeout = 20.0
    enough: threading.Event
    """Ends every wait."""

    @tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool
    def count(self) -> int:
        return self.state.step_count + 1

    @tool
    async def wait(self, seconds: float) -> str:
        until = time.monotonic() + seconds
        while not self.enough.is_set() and time.monotonic() < until:
            await asyncio.sleep(0.002)
        return "waited"

    @tool
    def fail(self, why: str) -> None:
        raise ValueError(why)

    @tool
    def picture(self) -> Any:
        return ToolResult(content=[PIXEL], data="png", meta={"size": 1})

    @tool
    def learn(self) -> str:
        def learned() -> str:
            return "new"

        assert self.tool_table is not None
        self.tool_table.add(learned)
        return "learned"


class Toolless(Environment[Any, Observation, State]):
    def reset(self, **options: Any) -> Observation:
        return Observation()


class LocalPeer:
    """A peer whose environment is here, on a thread of its own."""

    limit = 4
    active = 0
    broken: OpenEnvError | None = None
    kind: type[Environment[Any, Any, Any]] = Bench
    opened: list[LocalPeer]

    def __init__(self) -> None:
        self.ended: asyncio.Future[OpenEnvError] = asyncio.get_running_loop().create_future()
        self.resets = 0
        self.asked: list[str] = []
        self.offered = False
        self.begun = 0
        self._executor = ThreadPoolExecutor(1)
        self._player = Player(self.kind())

    @classmethod
    async def open(cls, pool: Any, **options: Any) -> LocalPeer:
        if cls.broken is not None:
            raise cls.broken
        if cls.active >= cls.limit:
            raise CapacityError("Server at capacity", active=cls.active, max=cls.limit)
        cls.active += 1
        peer = cls()
        cls.opened.append(peer)
        return peer

    @property
    def has_tools(self) -> bool:
        return self._player.has_tools

    async def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.resets += 1
        return await self._do(self._player.reset, seed)

    async def ask(self, topic: str, arguments: dict[str, Any] | None = None) -> Any:
        self.asked.append(topic)
        return await self._do(self._player.ask, topic, arguments or {})

    def offer(self, unclaimed: bool) -> None:
        self.offered = unclaimed

    async def close(self) -> None:
        if not self.ended.done():
            self.die(SessionLostError("the session was closed"))

    def die(self, reason: OpenEnvError) -> None:
        type(self).active -= 1
        self.ended.set_result(reason)
        self._executor.submit(self._player.close)
        self._executor.shutdown()

    def hold(self, enough: threading.Event) -> None:
        """Keep the environment's thread until ``enough``."""
        self._executor.submit(enough.wait, 20.0)

    async def _do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        if self.ended.done():
            raise copy.copy(self.ended.result())

        def begin() -> Any:
            self.begun += 1
            return work(*arguments)

        return await asyncio.get_running_loop().run_in_executor(self._executor, begin)


class Scene:
    """An application with ``/mcp`` alone."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, kind: type[Environment[Any, Any, Any]] = Bench
    ) -> None:
        self.peers: Any = type("Peers", (LocalPeer,), {"kind": kind, "opened": []})
        monkeypatch.setattr(sessions_module, "Peer", self.peers)
        self.enough = threading.Event()
        monkeypatch.setattr(Bench, "enough", self.enough, raising=False)
        self.sessions = Sessions(None)  # type: ignore[arg-type]
        self.endpoint = McpEndpoint(self.sessions, ServerSettings(), "bench:Bench")
        self.app = Starlette(routes=self.endpoint.routes())

    def client(self) -> TestClient:
        return TestClient(self.app)


def call(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
