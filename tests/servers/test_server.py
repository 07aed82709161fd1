"""A server starts, announces itself, drains and ends; the pool here is a fake."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from openenv_gym.errors import StartupError
from openenv_gym.servers.listening import Listening
from openenv_gym.servers.server import Server, StopRequest, run_loop
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve

from .fakes import FakePool


class _Scene:
    """A server on a fake pool, and the file of its socket."""

    def __init__(self, tmp_path: Path, pool: FakePool | None = None, **settings: Any) -> None:
        self.pool = pool or FakePool()
        self.path = tmp_path / "s.sock"
        self.stop = StopRequest()
        self.ready: asyncio.Event = asyncio.Event()
        self.urls: list[str] = []
        self.settings = ServerSettings(uds=str(self.path), handover=False, **settings)
        self.listening = Listening(self.settings)
        self.server = Server(self.settings, resolve("CartPole-v1"), self.listening, self.pool)  # type: ignore[arg-type]

    async def get(self, path: str) -> httpx.Response:
        transport = httpx.AsyncHTTPTransport(uds=str(self.path))
        options: Any = {"transport": transport, "base_url": "http://localhost", "timeout": 60.0}
        async with httpx.AsyncClient(**options) as client:
            return await client.get(path)

    def announce(self, url: str) -> None:
        self.urls.append(url)
        self.ready.set()

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        """Run the server, and beside it what happens to it."""

        async def both() -> None:
            serving = asyncio.create_task(self.server.serve(self.stop, self.announce))
            telling = asyncio.ensure_future(story())
            await asyncio.gather(serving, telling)

        run_loop(both())

    @property
    def drains(self) -> list[float]:
        return [call[1] for call in self.pool.calls if isinstance(call, tuple)]


def test_it_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)

    async def story() -> None:
        await scene.ready.wait()
        assert (await scene.get("/ready")).json() == {"status": "ready"}
        scene.stop()

    scene.run(story)
    assert scene.urls == [f"unix:{scene.path}"]
    assert scene.pool.calls == ["open", ("drain", 8.0)]
    assert not scene.path.exists()


def test_while_it_starts_it_is_healthy_but_not_ready(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)

    async def story() -> None:
        while "open" not in scene.pool.calls or not getattr(scene.server._uvicorn, "started", False):
            await asyncio.sleep(0.01)
        assert (await scene.get("/health")).status_code == 200
        assert (await scene.get("/ready")).status_code == 503
        assert scene.urls == []
        assert scene.pool.gate is not None
        scene.pool.gate.set()
        await scene.ready.wait()
        scene.stop()

    async def gate() -> None:
        scene.pool.gate = asyncio.Event()
        await story()

    scene.pool.gate = asyncio.Event()
    scene.run(gate)
    assert scene.urls


def test_it_can_be_stopped_while_it_starts(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)
    scene.pool.gate = asyncio.Event()

    async def story() -> None:
        scene.stop()

    scene.run(story)
    assert scene.urls == []
    assert scene.drains == [8.0]


def test_a_stop_that_came_before_the_loop_counts(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)
    scene.pool.gate = asyncio.Event()
    scene.stop()

    async def story() -> None:
        return

    scene.run(story)
    assert scene.drains == [8.0]


def test_a_pool_that_cannot_open_is_the_error(tmp_path: Path) -> None:
    scene = _Scene(tmp_path, FakePool(opening=StartupError("no module")))

    async def story() -> None:
        return

    with pytest.raises(StartupError, match="no module"):
        scene.run(story)
    assert scene.drains == [8.0]
    assert not scene.path.exists()


def test_while_it_drains_nobody_new_gets_in(tmp_path: Path) -> None:
    scene = _Scene(tmp_path, drain_timeout=5.0)

    async def story() -> None:
        scene.pool.running = asyncio.Event()
        await scene.ready.wait()
        scene.stop()
        while not scene.drains:
            await asyncio.sleep(0.01)
        assert not scene.path.exists()
        with pytest.raises(httpx.ConnectError):
            await scene.get("/ready")
        scene.pool.running.set()

    scene.run(story)
    assert scene.drains == [5.0]


def test_a_second_stop_cuts_what_runs(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)

    async def story() -> None:
        scene.pool.running = asyncio.Event()
        await scene.ready.wait()
        scene.stop()
        while not scene.drains:
            await asyncio.sleep(0.01)
        scene.stop()

    scene.run(story)
    assert scene.drains == [8.0, 0.0]


def test_a_stop_may_come_from_another_thread(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)

    async def story() -> None:
        await scene.ready.wait()
        thread = threading.Thread(target=scene.stop)
        thread.start()
        await asyncio.to_thread(thread.join)

    scene.run(story)
    scene.stop()  # after the end it is no error either
    assert scene.drains == [8.0]


def test_it_exits_when_nobody_needs_it(tmp_path: Path) -> None:
    scene = _Scene(tmp_path, exit_when_idle=0.05)
    scene.pool.idle = None

    async def story() -> None:
        await scene.ready.wait()
        scene.pool.idle = 0.0

    scene.run(story)
    assert scene.drains == [8.0]


def test_it_exits_quickly_when_its_owner_is_gone(tmp_path: Path) -> None:
    watched, held = os.pipe()
    scene = _Scene(tmp_path, owner_fd=watched)

    async def story() -> None:
        await scene.ready.wait()
        os.close(held)

    scene.run(story)
    os.close(watched)
    assert scene.drains == [1.0]


def test_it_exits_when_the_process_of_a_pidfd_ends(tmp_path: Path) -> None:
    owner = os.fork()
    if owner == 0:
        os.execvp("sleep", ["sleep", "60"])
    watched = os.pidfd_open(owner)
    scene = _Scene(tmp_path, owner_fd=watched)

    async def story() -> None:
        await scene.ready.wait()
        os.kill(owner, 9)

    scene.run(story)
    os.close(watched)
    os.waitpid(owner, 0)
    assert scene.drains == [1.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"ws_ping_interval": 20.0, "ws_ping_timeout": None, "ws_per_message_deflate": False}),
        (
            {"keepalive": None, "compression": "deflate"},
            {"ws_ping_interval": None, "ws_per_message_deflate": True},
        ),
        ({"max_message_size": 1 << 20}, {"ws_max_size": 1 << 20, "limit_concurrency": None}),
    ],
)
def test_uvicorn_is_told_what_the_settings_say(
    tmp_path: Path, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    scene = _Scene(tmp_path, **settings)
    scene.listening.close()
    config = scene.server._uvicorn.config
    assert {name: getattr(config, name) for name in expected} == expected
