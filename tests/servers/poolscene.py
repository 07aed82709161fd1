"""A pool on a crew that does nothing by itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from openenv_gym.errors import CapacityError
from openenv_gym.protocol.codec import encode
from openenv_gym.servers import control as c
from openenv_gym.servers import pool as module
from openenv_gym.servers.board import Board
from openenv_gym.servers.pool import Arrival, Pool
from openenv_gym.servers.records import Record
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.servers.workers import Worker

from .wire import hello, run

__all__ = ["PLACES", "FakeWorker", "Scene", "tell_story"]

PLACES = 3


class FakeWorker(Worker):
    """Notes what it is sent; the sockets stay open until the test lets go of them."""

    def __init__(self, number: int, killable: bool) -> None:
        super().__init__(number, Board(PLACES), PLACES)
        self.sent: list[c.Message] = []
        self.fds: list[int] = []
        self.kills = 0
        self._killable = killable

    @property
    def killable(self) -> bool:
        return self._killable

    def send(self, message: c.Message, fds: Any = ()) -> None:
        self.sent.append(message)
        self.fds += fds

    def kill(self) -> None:
        self.kills += 1


class _Crew:
    """Has the workers that the test gives it; says to the pool what the test wants said."""

    def __init__(self, settings: Any, target: Any, received: Any, ended: Any) -> None:
        self.received, self.ended = received, ended
        self.workers: list[FakeWorker] = []
        self.failure: BaseException | None = None
        self.relieved: list[Worker] = []
        self.count = 1
        self.sessions_per_worker = settings.sessions_per_worker

    async def open(self) -> None:
        pass

    async def drain(self, timeout: float) -> None:
        pass

    async def place(self, fellows: Callable[[Worker], int] = lambda worker: 0) -> Worker:
        if self.failure is not None:
            raise self.failure
        return min(self.workers, key=fellows)

    def relieve(self, worker: Worker) -> None:
        self.relieved.append(worker)


class Scene:
    """A pool on a crew that does nothing by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, killable: bool = False, **settings: Any) -> None:
        monkeypatch.setattr(module, "Crew", _Crew)
        self.pool = Pool(ServerSettings(**{"max_sessions": 2, **settings}), resolve("CartPole-v1"))
        self.crew: Any = self.pool._crew
        self.worker = FakeWorker(0, killable)
        self.crew.workers.append(self.worker)
        self._clients: list[socket.socket] = []

    def arrival(self) -> Arrival:
        ours, theirs = socket.socketpair()
        self._clients.append(ours)
        return Arrival(theirs)

    async def admit(self, name: str, **fields: Any) -> Record:
        """Have the session ``name`` admitted; return what is known of it."""
        asked = hello(name, **fields)
        arrival = self.arrival()
        try:
            await self.pool.admit(asked, encode(asked), arrival)
        except BaseException:
            assert arrival.sock.fileno() >= 0, "who refuses leaves the socket to the caller"
            arrival.sock.close()
            raise
        assert arrival.sock.fileno() == -1
        return self.pool.records.living[name]

    def say(self, message: c.Message) -> None:
        self.crew.received(self.worker, message)

    @property
    def active(self) -> int:
        active = self.pool.capacity()["active"]
        assert isinstance(active, int)
        return active

    def free(self) -> int:
        """Return how many cells can be had."""
        taken = []
        with pytest.raises(CapacityError):
            while True:
                taken.append(self.worker.take_place())
        for place in taken:
            self.worker.give_place(place)
        return len(taken)

    def close(self) -> None:
        for sock in self._clients:
            sock.close()
        for worker in self.crew.workers:
            for fd in worker.fds:
                os.close(fd)


def tell_story(
    monkeypatch: pytest.MonkeyPatch, tell: Callable[[Scene], Awaitable[None]], **settings: Any
) -> None:
    async def main() -> None:
        scene = Scene(monkeypatch, **settings)
        await tell(scene)
        scene.close()

    run(main)
