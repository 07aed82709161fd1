"""What a process does to itself before it runs environments."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from openenv_gym.servers import processes

_PATIENCE = 20.0


@pytest.fixture(autouse=True)
def _same_streams() -> Iterator[None]:
    """Leave the random streams of this process as they were."""
    mine, numpys = random.getstate(), np.random.get_state()
    yield
    random.setstate(mine)
    np.random.set_state(numpys)


def test_every_fork_gets_its_own_random_streams() -> None:
    drawn = []
    for _ in range(3):
        random.seed(1)
        np.random.seed(1)
        processes.reseed()
        drawn.append((random.random(), float(np.random.random())))
    assert len({first for first, _ in drawn}) == 3
    assert len({second for _, second in drawn}) == 3


def test_numpy_is_not_imported_for_it() -> None:
    text = (
        "import sys; sys.modules['openenv_gym'] = type(sys)('openenv_gym');"
        "import runpy; m = runpy.run_path(sys.argv[1]); m['reseed'](); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text, processes.__file__], check=True, timeout=_PATIENCE)


@contextmanager
def _child(body: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """Run ``body`` in a fork; give its pid and a descriptor to read what it writes."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            body(write)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    try:
        yield pid, read
    finally:
        os.close(read)
        os.waitpid(pid, 0)


def _read(fd: int) -> bytes:
    assert select.select([fd], [], [], _PATIENCE)[0]
    return os.read(fd, 100)


def test_children_are_listed_until_they_are_reaped() -> None:
    def body(write: int) -> None:
        assert processes.children() == set()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert processes.children() == {pid}
        os.waitpid(pid, 0)
        assert processes.children() == set()
        os.write(write, b"right")

    with _child(body) as (_, fd):
        assert _read(fd) == b"right"


def test_a_process_without_its_parent_ends_at_once() -> None:
    def body(write: int) -> None:
        os.write(write, b"before ")
        processes.die_with_parent(1 if os.getppid() != 1 else 2)
        os.write(write, b"after")

    with _child(body) as (_, fd):
        assert _read(fd) == b"before "
        assert _read(fd) == b""


@pytest.mark.parametrize("outlive", [False, True])
def test_a_process_dies_with_its_parent_unless_that_was_taken_back(outlive: bool) -> None:
    def body(write: int) -> None:
        processes.adopt_orphans()
        middle = os.fork()
        if middle == 0:
            _middle(write, outlive)
        os.waitpid(middle, 0)
        code = os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1])
        os.write(write, f"ended with {code}".encode())

    def _middle(write: int, outlive: bool) -> None:
        ready, tell = os.pipe()
        parent = os.getpid()
        if os.fork() == 0:
            processes.die_with_parent(parent)
            if outlive:
                processes.outlive_parent()
            os.write(tell, b"x")
            # Who is to die does not look: it could see that its parent is gone just before the signal comes.
            until = time.monotonic() + _PATIENCE
            while os.getppid() == parent if outlive else time.monotonic() < until:
                select.select([], [], [], 0.01)
            os._exit(5)
        os.read(ready, 1)
        os._exit(0)

    with _child(body) as (_, fd):
        assert _read(fd) == (b"ended with 5" if outlive else b"ended with -9")


def test_orphans_are_adopted() -> None:
    def body(write: int) -> None:
        processes.adopt_orphans()
        middle = os.fork()
        if middle == 0:
            orphan = os.fork()
            if orphan == 0:
                signal.pause()
            os.write(write, str(orphan).encode() + b" ")
            os._exit(0)
        os.waitpid(middle, 0)
        [orphan] = processes.children()
        os.kill(orphan, signal.SIGKILL)
        assert os.waitpid(orphan, 0)[0] == orphan
        os.write(write, str(orphan).encode())

    with _child(body) as (_, fd):
        first = _read(fd)
        while first.count(b" ") == 0 or first.endswith(b" "):
            first += _read(fd)
        left, right = first.split()
        assert left == right


def test_a_process_knows_whether_it_adopts() -> None:
    def body(write: int) -> None:
        seen = [processes.adopts_orphans()]
        for adopt in (True, False):
            processes.adopt_orphans(adopt)
            seen.append(processes.adopts_orphans())
        os.write(write, repr(seen).encode())

    with _child(body) as (_, fd):
        assert _read(fd) == b"[False, True, False]"


def test_children_are_ended_with_what_they_leave() -> None:
    def sleeper() -> int:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        return pid

    def body(write: int) -> None:
        processes.adopt_orphans()
        told, tell = os.pipe()
        spared, middle = sleeper(), os.fork()
        if middle == 0:
            os.write(tell, b"%d" % sleeper())
            signal.pause()
        os.read(told, 100)  # the grandchild is there
        processes.end_children({spared})
        assert processes.children() == {spared}
        processes.end_children()
        assert processes.children() == set()
        os.write(write, b"right")

    with _child(body) as (_, fd):
        assert _read(fd) == b"right"


def test_nothing_happens_where_the_system_has_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(processes.ctypes, "CDLL", lambda name: 1 / 0)
    processes.adopt_orphans()
    assert not processes.adopts_orphans()
    processes.outlive_parent()
    processes.die_with_parent(os.getppid())
