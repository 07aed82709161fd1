"""Workers as the parent sees them: cells, messages that wait, the log that they leave, and their end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from openenv_gym.errors import CapacityError
from openenv_gym.servers import control as c
from openenv_gym.servers.board import Board, Operation
from openenv_gym.servers.workers import ProcessWorker, ThreadWorker, Worker

from .wire import LOOPS, run


class _Scene:
    """A process worker without a process: the test holds the ends that it would have."""

    def __init__(self) -> None:
        self.received: list[tuple[Worker, c.Message]] = []
        self.closed = False
        self.worker = ProcessWorker(
            7, Board.shared(4), 4, lambda worker, message: self.received.append((worker, message))
        )
        control, self.board, self.log, self.spare = self.worker.handover
        self.link = c.ControlSocket(socket.socket(fileno=control))
        self.link.sock.setblocking(False)

    async def message(self) -> tuple[c.Message, list[int]]:
        """Return the next message to the worker."""
        while (item := self.link.take()) is None:
            try:
                assert self.link.fill()
            except BlockingIOError:
                await asyncio.sleep(0)
        return item

    async def logged(self, last: str) -> None:
        """Wait until the line ``last`` was read."""
        while last not in self.worker.log:
            await asyncio.sleep(0)

    def close(self) -> None:
        """Have the parent forget the worker, once."""
        if not self.closed:
            self.worker.close()
            self.closed = True

    def leave(self) -> None:
        """End as a process would: every descriptor is closed."""
        self.link.close()
        os.close(self.board)
        os.close(self.spare)
        if self.log >= 0:
            os.close(self.log)


def _story(tell: Callable[[_Scene], Awaitable[None]], new_loop: Any = asyncio.new_event_loop) -> None:
    async def main() -> None:
        scene = _Scene()
        await tell(scene)
        scene.leave()
        scene.close()

    run(main, new_loop)


def test_cells_are_taken_and_given_back() -> None:
    worker = Worker(0, Board(2), 2)
    first, second = worker.take_place(), worker.take_place()
    assert {first, second} == {0, 1}
    worker.board.cells[first] = Operation.VACANT
    worker.give_place(first)
    assert worker.take_place() == first
    assert worker.board.cells[first] == Operation.IDLE


def test_there_are_no_more_cells_than_places() -> None:
    worker = Worker(0, Board(1), 1)
    place = worker.take_place()
    worker.late["a"] = place
    with pytest.raises(CapacityError, match="1 calls that overran .*--workers 1") as caught:
        worker.take_place()
    assert caught.value.details["option"] == "workers"
    worker.give_late_place("b")
    with pytest.raises(CapacityError):
        worker.take_place()
    worker.give_late_place("a")
    worker.give_late_place("a")
    assert worker.take_place() == place
    with pytest.raises(CapacityError):
        worker.take_place()


def test_threads_get_their_messages_at_once_and_cannot_be_killed() -> None:
    got: list[tuple[c.Message, list[int]]] = []
    worker = ThreadWorker(0, Board(1), 1, lambda message, fds: got.append((message, fds)))
    worker.send(c.Attach("a" * 32, b""), (5,))
    worker.kill()
    assert got == [(c.Attach("a" * 32, b""), [5])]
    assert (worker.alive, worker.killable) == (True, False)


@LOOPS
def test_messages_go_both_ways(new_loop: Any) -> None:
    async def tell(scene: _Scene) -> None:
        read, write = os.pipe()
        scene.worker.send(c.Attach("a" * 32, b"x"), [write])
        message, [fd] = await scene.message()
        assert message == c.Attach("a" * 32, b"x")
        os.close(fd)
        assert os.read(read, 1) == b""  # nobody else holds the other end
        os.close(read)
        scene.link.post(c.Detached("a" * 32))
        scene.link.post(c.Attached("a" * 32))
        while len(scene.received) < 2:
            await asyncio.sleep(0)
        assert scene.received == [
            (scene.worker, c.Detached("a" * 32)),
            (scene.worker, c.Attached("a" * 32)),
        ]

    _story(tell, new_loop)


@LOOPS
def test_messages_wait_for_a_worker_that_does_not_read(new_loop: Any) -> None:
    async def tell(scene: _Scene) -> None:
        messages = [c.Attach(f"{number:032}", bytes(100_000)) for number in range(20)]
        for message in messages:
            scene.worker.send(message)
        assert [(await scene.message())[0] for _ in messages] == messages
        scene.worker.send(c.Describe(1))
        assert (await scene.message())[0] == c.Describe(1)

    _story(tell, new_loop)


@LOOPS
def test_a_worker_that_is_gone_is_not_spoken_to(new_loop: Any) -> None:
    async def tell(scene: _Scene) -> None:
        scene.link.sock.close()
        read, write = os.pipe()
        scene.worker.send(c.Attach("a" * 32, b""), [write])
        assert not scene.worker.alive
        scene.close()
        assert os.read(read, 1) == b""
        os.close(read)

    _story(tell, new_loop)


@LOOPS
def test_the_end_of_a_worker_is_noticed(new_loop: Any) -> None:
    async def tell(scene: _Scene) -> None:
        scene.link.post(c.Detached("a" * 32))
        scene.link.sock.close()
        while scene.worker.alive:
            await asyncio.sleep(0)
        assert scene.received == [(scene.worker, c.Detached("a" * 32))]

    _story(tell, new_loop)


@LOOPS
def test_the_last_lines_are_kept_and_all_are_passed_on(
    new_loop: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async def tell(scene: _Scene) -> None:
        os.write(scene.log, b"".join(b"line %d\n" % number for number in range(120)))
        await scene.logged("line 119")
        assert list(scene.worker.log) == [f"line {number}" for number in range(70, 120)]

    _story(tell, new_loop)
    assert capfd.readouterr().err.splitlines() == [f"line {number}" for number in range(120)]


def test_lines_may_come_in_pieces_and_hold_anything(capfd: pytest.CaptureFixture[str]) -> None:
    async def tell(scene: _Scene) -> None:
        for piece in (b"one ", b"li", b"ne\n\nbad \xff byte", b"\n", b"x" * 3000 + b"\n", b"unfinished"):
            os.write(scene.log, piece)
            await asyncio.sleep(0)
        await scene.logged("x" * 2000)
        assert list(scene.worker.log) == ["one line", "", "bad \ufffd byte", "x" * 2000]

    _story(tell)


def test_what_a_worker_printed_last_is_read_at_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    async def tell(scene: _Scene) -> None:
        os.write(scene.log, b"first\nlast words\n")
        scene.close()
        assert list(scene.worker.log) == ["first", "last words"]

    _story(tell)
    assert capfd.readouterr().err == "first\nlast words\n"


def test_the_log_may_end_before_the_worker_does() -> None:
    async def tell(scene: _Scene) -> None:
        os.write(scene.log, b"last\n")
        os.close(scene.log)
        scene.log = -1
        await scene.logged("last")
        for _ in range(5):
            await asyncio.sleep(0)
        assert scene.worker.alive

    _story(tell)


@LOOPS
def test_a_worker_that_floods_its_log_does_not_keep_the_loop(
    new_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = threading.Event()

    def flood(log: int) -> None:
        while not enough.is_set():
            os.write(log, b"x" * 65535 + b"\n")

    async def tell(scene: _Scene) -> None:
        with open(os.devnull, "w") as nowhere:
            monkeypatch.setattr(sys, "__stderr__", nowhere)
            thread = threading.Thread(target=flood, args=(scene.log,))
            thread.start()
            for _ in range(50):
                await asyncio.sleep(0)
            enough.set()
            while thread.is_alive():
                await asyncio.sleep(0)
            assert len(scene.worker.log) <= 50
            scene.close()
            monkeypatch.undo()

    _story(tell, new_loop)


def test_killing_ends_the_process_and_all_that_it_started() -> None:
    text = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True);"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, process_group=0)
    assert process.stdout is not None
    child = os.pidfd_open(int(process.stdout.readline()))

    async def tell(scene: _Scene) -> None:
        scene.worker.kill()
        assert not scene.worker.killable
        scene.worker.pid = process.pid
        assert scene.worker.killable
        scene.worker.kill()
        assert process.wait() == -signal.SIGKILL
        scene.worker.kill()

    _story(tell)
    assert select.select([child], [], [], 20.0)[0]
    os.close(child)
    process.stdout.close()


@LOOPS
def test_a_worker_that_talks_nonsense_is_killed(new_loop: Any) -> None:
    async def tell(scene: _Scene) -> None:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
        scene.worker.pid = child.pid
        scene.link.post(c.Detached("a"))
        scene.link.sock.send(b"\x01\0\0\0\0\xc1")
        scene.link.post(c.Detached("b"))
        while scene.worker.alive:
            await asyncio.sleep(0)
        assert scene.received == [(scene.worker, c.Detached("a"))]
        assert "cannot read what the worker says" in scene.worker.log[-1]
        assert child.wait(20) == -signal.SIGKILL
        assert child.stdin is not None
        child.stdin.close()

    _story(tell, new_loop)
