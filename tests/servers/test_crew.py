"""The crew places sessions on workers, explains how workers ended, and outlives its template (a fake)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from openenv_gym.errors import OpenEnvError, StartupError, WorkerCrashedError
from openenv_gym.servers import control as c
from openenv_gym.servers import crew as module
from openenv_gym.servers.crew import Crew
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve
from openenv_gym.servers.workers import ProcessWorker, ThreadWorker, Worker

from .wire import LOOPS, run


class _Template:
    """The other end of the crew's link, and the process object that the crew holds."""

    def __init__(self, arguments: list[str], pass_fds: list[int], env: dict[str, str], **_: Any) -> None:
        self.arguments, self.env = arguments, env
        self.link = c.ControlSocket(socket.socket(fileno=os.dup(pass_fds[0])))
        self.link.sock.setblocking(False)
        self.killed = False

    async def message(self) -> tuple[c.Message, list[int]]:
        """Return the crew's next message."""
        while (item := self.link.take()) is None:
            try:
                assert self.link.fill()
            except BlockingIOError:
                await asyncio.sleep(0)
        return item

    def kill(self) -> None:
        self.killed = True

    def wait(self, timeout: float | None = None) -> int:
        return 0


class _Process:
    """A worker's end of what the template was sent."""

    def __init__(self, number: int, fds: list[int]) -> None:
        self.number = number
        control, self.board, self.log, self.spare = fds
        self.link = c.ControlSocket(socket.socket(fileno=control))

    def leave(self) -> None:
        self.link.close()
        for fd in (self.board, self.log, self.spare):
            os.close(fd)


class _Scene:
    """A crew, its templates, and what it told the pool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.templates: list[_Template] = []
        self.ended: list[tuple[Worker, OpenEnvError]] = []
        self.received: list[tuple[Worker, c.Message]] = []
        self.processes: dict[int, _Process] = {}

        def popen(arguments: list[str], **options: Any) -> _Template:
            self.templates.append(_Template(arguments, **options))
            return self.templates[-1]

        monkeypatch.setattr(module.subprocess, "Popen", popen)
        self.crew = Crew(
            ServerSettings(**{"workers": 2, "max_sessions": 8, **settings}),
            resolve("CartPole-v1"),
            lambda worker, message: self.received.append((worker, message)),
            lambda worker, reason: self.ended.append((worker, reason)),
        )
        self.crew.start()

    @property
    def template(self) -> _Template:
        return self.templates[-1]

    async def open(self) -> None:
        """Start as a pool does, with a template that has no trouble."""
        setup, _ = await self.template.message()
        assert isinstance(setup, c.Setup) and setup.target == "CartPole-v1"
        self.template.link.post(c.Warm())
        await self.crew.open()

    async def place(self, session: str) -> ProcessWorker:
        """Place a session; a new worker is forked at once."""
        worker = await self.crew.place()
        assert isinstance(worker, ProcessWorker)
        if worker.number not in self.processes:
            fork, fds = await self.template.message()
            assert fork == c.Fork(worker.number)
            self.processes[worker.number] = _Process(worker.number, fds)
            self.template.link.post(c.Forked(worker.number, _NOBODY))
            while worker.pid is None:
                await asyncio.sleep(0)
        worker.sessions.add(session)
        worker.served += 1
        worker.lanes = len(worker.sessions)
        return worker

    def release(self, worker: Worker, session: str) -> None:
        """End a session as a pool does."""
        worker.sessions.discard(session)
        worker.lanes = len(worker.sessions)
        self.crew.relieve(worker)

    async def exit(self, number: int, status: int) -> None:
        """Have the template report the end of a worker."""
        self.processes.pop(number).leave()
        count = len(self.ended)
        self.template.link.post(c.Exited(number, status))
        while len(self.ended) == count:
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Drain: every worker leaves when it is told."""
        draining = asyncio.ensure_future(self.crew.drain(5.0))
        await asyncio.sleep(0)
        for number in list(self.processes):
            await self.exit(number, 0)
        await draining
        for template in self.templates:
            template.link.close()


_NOBODY = 2**22 + 1
"""Above every process id that Linux gives."""


def _story(
    monkeypatch: pytest.MonkeyPatch,
    tell: Callable[[_Scene], Awaitable[None]],
    new_loop: Any = asyncio.new_event_loop,
    **settings: Any,
) -> None:
    async def main() -> None:
        scene = _Scene(monkeypatch, **settings)
        await scene.open()
        await tell(scene)
        await scene.end()

    run(main, new_loop)


@LOOPS
def test_sessions_spread_over_workers_and_then_share_them(
    monkeypatch: pytest.MonkeyPatch, new_loop: Any
) -> None:
    async def tell(scene: _Scene) -> None:
        placed = [await scene.place(name) for name in "abcde"]
        assert [worker.number for worker in placed] == [1, 2, 1, 2, 1]
        assert scene.crew.count == 2
        scene.release(placed[1], "b")
        scene.release(placed[1], "d")
        assert (await scene.place("f")).number == 2

    _story(monkeypatch, tell, new_loop)


def test_a_session_avoids_the_workers_of_its_fellows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: _Scene) -> None:
        first, second = [await scene.place(name) for name in "ab"]
        second.lanes = 9
        assert await scene.crew.place() is first
        assert await scene.crew.place(lambda worker: int(worker is first)) is second

    _story(monkeypatch, tell)


def test_no_worker_is_started_while_another_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: _Scene) -> None:
        for _ in range(3):
            worker = await scene.place("a")
            assert worker.number == 1
            scene.release(worker, "a")
        assert scene.crew.count == 1

    _story(monkeypatch, tell, workers=4)


@pytest.mark.parametrize("most", [2, 3])
def test_a_worker_takes_no_more_sessions_than_it_may(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    async def tell(scene: _Scene) -> None:
        placed = [(await scene.place(str(number))).number for number in range(6)]
        assert placed == [number // most + 1 for number in range(6)]
        worker = await scene.place("another")
        scene.release(worker, "another")
        assert (await scene.place("again")).number == worker.number

    _story(monkeypatch, tell, sessions_per_worker=most)


def test_a_session_may_have_a_process_of_its_own_that_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: _Scene) -> None:
        first, second = await scene.place("a"), await scene.place("b")
        assert (first.number, second.number) == (1, 2)
        scene.release(first, "a")
        process = scene.processes[1]
        process.link.sock.settimeout(20.0)
        item = process.link.receive()
        assert item is not None and isinstance(item[0], c.Drain)
        assert (await scene.place("c")).number == 3
        await scene.exit(1, 0)
        assert scene.crew.count == 2

    _story(monkeypatch, tell, sessions_per_worker=1)


def test_a_tainted_worker_gets_no_new_sessions_and_is_killed_when_the_others_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tell(scene: _Scene) -> None:
        killed: list[tuple[int, int]] = []
        first = await scene.place("a")
        await scene.place("b")
        assert await scene.place("c") is first
        first.tainted = True
        assert [(await scene.place(name)).number for name in "de"] == [3, 2]
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda pid, number: killed.append((pid, number)))
            scene.release(first, "a")
            assert killed == []
            scene.release(first, "c")
            assert killed == [(_NOBODY, signal.SIGKILL)]

    _story(monkeypatch, tell)


@pytest.mark.parametrize(
    ("status", "exit_code", "name", "words"),
    [
        (7 << 8, 7, None, "exited with code 7"),
        (0, 0, None, "exited with code 0"),
        (signal.SIGSEGV | 0x80, -11, "SIGSEGV", "was killed by SIGSEGV"),
        (signal.SIGKILL, -9, "SIGKILL", "was killed by SIGKILL"),
        (40, -40, "signal 40", "was killed by signal 40"),
    ],
)
def test_the_end_of_a_worker_is_explained(
    monkeypatch: pytest.MonkeyPatch, status: int, exit_code: int, name: str | None, words: str
) -> None:
    async def tell(scene: _Scene) -> None:
        worker = await scene.place("a")
        os.write(scene.processes[1].log, b"".join(b"line %d\n" % number for number in range(30)))
        await scene.exit(1, status)
        [(who, why)] = scene.ended
        assert who is worker and isinstance(why, WorkerCrashedError)
        assert words in why.message and "reset() starts a new session" in why.message
        assert why.message.endswith("its last lines:\nline 25\nline 26\nline 27\nline 28\nline 29")
        assert (why.details["exit_code"], why.details.get("signal")) == (exit_code, name)
        assert why.details["log"] == [f"line {number}" for number in range(10, 30)]
        assert scene.crew.count == 0
        assert (await scene.place("b")).number == 2

    _story(monkeypatch, tell)


def test_what_workers_say_reaches_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: _Scene) -> None:
        worker = await scene.place("a")
        scene.processes[1].link.post(c.Detached("a"))
        while not scene.received:
            await asyncio.sleep(0)
        assert scene.received == [(worker, c.Detached("a"))]

    _story(monkeypatch, tell)


@LOOPS
@pytest.mark.parametrize("noticed", [True, False])
def test_when_the_template_dies_its_workers_are_explained_and_another_is_started(
    monkeypatch: pytest.MonkeyPatch, new_loop: Any, noticed: bool
) -> None:
    async def tell(scene: _Scene) -> None:
        first = await scene.place("a")
        scene.processes.pop(1).leave()
        dead = scene.template
        dead.link.close()
        if noticed:
            while not scene.ended:
                await asyncio.sleep(0)
        placing = asyncio.ensure_future(scene.crew.place())
        while len(scene.templates) < 2:
            await asyncio.sleep(0)
        second = await placing
        [(who, why)] = scene.ended
        assert who is first and isinstance(why, WorkerCrashedError)
        assert why.details["signal"] == "SIGKILL"
        assert dead.killed
        assert isinstance((await scene.template.message())[0], c.Setup)
        scene.template.link.post(c.Warm())
        fork, fds = await scene.template.message()
        assert fork == c.Fork(second.number)
        scene.processes[second.number] = _Process(second.number, fds)
        scene.template.link.post(c.Forked(second.number, _NOBODY))

    _story(monkeypatch, tell, new_loop)


def _failed_start(monkeypatch: pytest.MonkeyPatch, say: c.Message | None) -> StartupError:
    found: list[StartupError] = []

    async def main() -> None:
        scene = _Scene(monkeypatch)
        opening = asyncio.ensure_future(scene.crew.open())
        await scene.template.message()
        if say is not None:
            scene.template.link.post(say)
        scene.template.link.close()
        with pytest.raises(StartupError) as caught:
            await opening
        found.append(caught.value)
        await scene.crew.drain(0.0)

    run(main)
    return found[0]


def test_an_import_error_is_the_reason_why_the_server_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = 'Traceback:\n  File "x.py"\nImportError: libGL.so.1: cannot open\n'
    error = _failed_start(monkeypatch, c.Warm(trace))
    assert error.message.startswith("CartPole-v1 cannot be imported: ImportError: libGL.so.1: cannot open\n")
    assert trace in error.message
    assert error.details["log"] == trace.splitlines()


def test_what_the_target_lacks_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    error = _failed_start(monkeypatch, c.Warm("'json' has no 'Env'"))
    assert error.message == "CartPole-v1 cannot be served: 'json' has no 'Env'"


def test_a_template_that_ends_while_it_starts_is_the_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ended while it started" in _failed_start(monkeypatch, None).message


@pytest.mark.parametrize(
    ("variable", "token"), [("OPENENV_TOKEN", "secret"), ("MY_TOKEN", "secret"), ("MY_TOKEN", "env:MY_TOKEN")]
)
def test_the_template_is_not_given_the_token(
    variable: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "secret")
    monkeypatch.setenv("OTHER", "public")

    async def tell(scene: _Scene) -> None:
        assert variable not in scene.template.env
        assert scene.template.env["OTHER"] == "public"
        assert "secret" not in " ".join(scene.template.arguments)

    _story(monkeypatch, tell, token=token)


def test_workers_that_do_not_leave_are_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        monkeypatch.setattr(module, "_LAST_MOMENT", 0.0)
        scene = _Scene(monkeypatch)
        await scene.open()
        await scene.place("a")
        killed: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
            draining = asyncio.ensure_future(scene.crew.drain(0.01))
            while not killed:
                await asyncio.sleep(0)
        await scene.exit(1, signal.SIGKILL)
        await draining
        assert "did not finish within 0.01 s" in caplog.text
        for template in scene.templates:
            template.link.close()

    run(main)


def test_a_worker_that_is_condemned_before_it_runs_is_killed_once_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        scene = _Scene(monkeypatch)
        await scene.open()
        worker = await scene.crew.place()
        _, fds = await scene.template.message()
        scene.processes[1] = _Process(1, fds)
        worker.kill()
        killed: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
            scene.template.link.post(c.Forked(1, _NOBODY))
            while not killed:
                await asyncio.sleep(0)
        assert killed == [_NOBODY]
        await scene.end()

    run(main)


def test_without_worker_processes_one_worker_of_threads_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scene = _Scene(monkeypatch, workers=0, sessions_per_worker=1)
        assert scene.templates == []
        await scene.crew.open()
        worker = await scene.crew.place()
        assert isinstance(worker, ThreadWorker)
        worker.sessions.update("abc")
        worker.served, worker.tainted = 3, True
        assert await scene.crew.place() is worker
        worker.sessions.clear()
        scene.crew.relieve(worker)
        assert await scene.crew.place() is worker
        await scene.crew.drain(0.0)

    run(main)
