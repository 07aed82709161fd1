"""What workers print is kept and passed on, and nobody who does not read it stops the server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from openenv_gym.servers.printed import Printed

from .wire import LOOPS, run


class _Terminal:
    """Standard error as a pipe that the test reads."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.got = b""

    def fileno(self) -> int:
        return self.write

    def fill(self) -> int:
        """Leave no room in it; return the size of what is there."""
        os.set_blocking(self.write, False)
        size = 0
        try:
            while True:
                size += os.write(self.write, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(self.write, True)
            return size

    def take(self) -> bytes:
        """Return everything that came so far."""
        try:
            while data := os.read(self.read, 65536):
                self.got += data
        except BlockingIOError:
            pass
        return self.got


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Terminal]:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "__stderr__", terminal)
    yield terminal
    os.close(terminal.read)
    os.close(terminal.write)


def _story(tell: Callable[[Printed, int], Awaitable[None]], new_loop: Any) -> None:
    async def main() -> None:
        read, write = os.pipe()
        printed = Printed(read)
        await tell(printed, write)
        os.close(write)
        printed.close()
        printed.close()

    run(main, new_loop)


@LOOPS
def test_lines_are_kept_and_passed_on(new_loop: Any, terminal: _Terminal) -> None:
    async def tell(printed: Printed, worker: int) -> None:
        os.write(worker, b"one\ntw")
        os.write(worker, b"o\nthree")
        while terminal.take() != b"one\ntwo\nthree":
            await asyncio.sleep(0)
        assert list(printed.lines) == ["one", "two"]

    _story(tell, new_loop)


@LOOPS
def test_nothing_waits_for_a_terminal_that_takes_nothing(new_loop: Any, terminal: _Terminal) -> None:
    async def tell(printed: Printed, worker: int) -> None:
        full = terminal.fill()
        os.write(worker, b"line\n" * 1000)
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not printed.lines
        assert len(terminal.take()) == full
        while not terminal.take().endswith(b"." + b"line\n" * 1000):
            await asyncio.sleep(0.01)
        assert list(printed.lines) == ["line"] * 50

    _story(tell, new_loop)


@LOOPS
def test_last_words_are_kept_even_if_nobody_takes_them(new_loop: Any, terminal: _Terminal) -> None:
    async def tell(printed: Printed, worker: int) -> None:
        full = terminal.fill()
        os.write(worker, b"last words\n")
        await asyncio.sleep(0.01)
        printed.close()
        assert list(printed.lines) == ["last words"]
        assert len(terminal.take()) == full

    _story(tell, new_loop)


@LOOPS
def test_a_terminal_that_is_gone_is_no_obstacle(new_loop: Any, terminal: _Terminal) -> None:
    async def tell(printed: Printed, worker: int) -> None:
        os.close(terminal.read)
        terminal.read = os.open(os.devnull, os.O_RDONLY)
        os.write(worker, b"one\n")
        while not printed.lines:
            await asyncio.sleep(0)

    _story(tell, new_loop)
