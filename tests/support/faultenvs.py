"""Environments that are slow, block, crash, or write down what really happened to them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = [
    "BusyEnv",
    "ChildEnv",
    "CounterEnv",
    "CrashEnv",
    "FailingInitEnv",
    "GilEnv",
    "PrintEnv",
    "SleepEnv",
    "SlowCloseEnv",
    "Step",
    "ThreadEnv",
    "live_peak",
    "note",
    "notes",
]

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


def note(path: str, mark: bytes) -> int:
    """Append one byte to the file and return how many it holds now; safe across processes."""
    if not path:
        return 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, mark)
        return os.lseek(file, 0, os.SEEK_CUR)
    finally:
        os.close(file)


def notes(path: str | os.PathLike[str]) -> str:
    """Return what was noted: ``i`` init, ``r`` reset, ``s`` step, ``m`` method, ``w`` set, ``c`` close."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        return file.read()
    return ""


def live_peak(path: str | os.PathLike[str]) -> int:
    """Return the greatest number of environments that were open at one time."""
    live = peak = 0
    for mark in notes(path):
        live += {"i": 1, "c": -1}.get(mark, 0)
        peak = max(peak, live)
    return peak


class CounterEnv(gym.Env[Any, Any]):
    """Counts its own steps and notes every execution in the file ``path``.

    The observation is the number of steps since the reset (int64, shape ()); ``info["total"]`` the number
    since construction.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, path: str = "", pid: bool = False) -> None:
        note(path, b"i")
        self.observation_space = spaces.Box(0, 2**62, (), np.int64)
        self.action_space = spaces.Discrete(1000)
        self._path, self._pid = path, pid
        self._level = 0
        self.count = self.total = 0

    def _result(self) -> tuple[Any, dict[str, Any]]:
        info = {"total": self.total} | ({"pid": os.getpid()} if self._pid else {})
        return np.array(self.count, np.int64), info

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Note the reset and start counting again."""
        note(self._path, b"r")
        super().reset(seed=seed)
        self.count = 0
        return self._result()

    def step(self, action: Any) -> Step:
        """Note the step and count it."""
        note(self._path, b"s")
        self.count += 1
        self.total += 1
        obs, info = self._result()
        return obs, float(self.count), False, False, info

    def bump(self, by: int = 1) -> int:
        """Note the call and return the new total."""
        note(self._path, b"m")
        self.total += by
        return self.total

    @property
    def level(self) -> int:
        """A number whose setting is noted."""
        return self._level

    @level.setter
    def level(self, value: int) -> None:
        note(self._path, b"w")
        self._level = value

    def close(self) -> None:
        """Note the close."""
        note(self._path, b"c")


class SleepEnv(CounterEnv):
    """Sleeps for the given seconds in each call; with ``unit`` a step sleeps ``action * unit`` seconds more.

    The observation of a step is its action.
    """

    def __init__(
        self,
        step: float = 0.0,
        reset: float = 0.0,
        init: float = 0.0,
        close: float = 0.0,
        unit: float = 0.0,
        path: str = "",
    ) -> None:
        super().__init__(path)
        self._sleeps = (step, reset, close, unit)
        time.sleep(init)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Sleep, then reset."""
        time.sleep(self._sleeps[1])
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        """Sleep, then return the action as observation."""
        time.sleep(self._sleeps[0] + int(action) * self._sleeps[3])
        _, reward, terminated, truncated, info = super().step(action)
        return np.array(int(action), np.int64), reward, terminated, truncated, info

    def close(self) -> None:
        """Sleep, then close."""
        time.sleep(self._sleeps[2])
        super().close()


class SlowCloseEnv(SleepEnv):
    """Takes ``seconds`` to close."""

    def __init__(self, seconds: float = 1.0, path: str = "") -> None:
        super().__init__(close=seconds, path=path)


class _HoldingEnv(CounterEnv):
    """Holds something for ``seconds`` in the steps whose number is in ``steps`` (empty: in every one)."""

    def __init__(self, seconds: float = 1.0, steps: tuple[int, ...] = (), path: str = "") -> None:
        super().__init__(path)
        self._seconds, self._steps = seconds, tuple(steps)

    def _hold(self) -> None:
        time.sleep(self._seconds)

    def step(self, action: Any) -> Step:
        """Hold, then count."""
        result = super().step(action)
        if not self._steps or self.count in self._steps:
            self._hold()
        return result


class BusyEnv(_HoldingEnv):
    """Loops in pure Python for ``seconds`` in a step."""

    def _hold(self) -> None:
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass


class GilEnv(_HoldingEnv):
    """Keeps the interpreter's lock for ``seconds`` in a C call in a step."""

    def _hold(self) -> None:
        ctypes.PyDLL(None).usleep(ctypes.c_uint(int(self._seconds * 1e6)))


class ChildEnv(_HoldingEnv):
    """Starts a long-lived child process in its first step, then holds; ``info["child"]`` is its pid."""

    def step(self, action: Any) -> Step:
        """Start the child once, note its pid in ``path`` + ``.pid``, and hold."""
        if self.count == 0:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            self._child = child.pid
            if self._path:
                with open(f"{self._path}.pid", "w", encoding="ascii") as file:
                    file.write(str(child.pid))
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, info | {"child": self._child}


def _raise() -> None:
    raise KeyError("the environment failed")


class CrashEnv(CounterEnv):
    """Ends badly, ``how``, in the ``at``-th call of ``where``: init, reset, step, method, render or close."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}
    WAYS: ClassVar[dict[str, Callable[[], Any]]] = {
        "segfault": lambda: ctypes.string_at(0),
        "abort": os.abort,
        "exit": lambda: os._exit(7),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "exception": _raise,
        "sys_exit": lambda: sys.exit(3),
        "recursion": lambda: CrashEnv.WAYS["recursion"](),
    }

    def __init__(
        self,
        how: str = "exception",
        at: int = 3,
        where: str = "step",
        render_mode: str | None = None,
        path: str = "",
    ) -> None:
        super().__init__(path)
        self.render_mode = render_mode
        self._how, self._at, self._where = how, at, where
        self._calls: dict[str, int] = {}
        self._call("init")

    def _call(self, where: str) -> None:
        self._calls[where] = self._calls.get(where, 0) + 1
        if where == self._where and self._calls[where] == self._at:
            self.WAYS[self._how]()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, or crash."""
        self._call("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        """Step, or crash after the step was noted."""
        result = super().step(action)
        self._call("step")
        return result

    def bump(self, by: int = 1) -> int:
        """Call, or crash."""
        self._call("method")
        return super().bump(by)

    def render(self) -> Any:
        """Render, or crash."""
        self._call("render")
        return f"count {self.count}"

    def close(self) -> None:
        """Close, or crash."""
        super().close()
        self._call("close")


class FailingInitEnv(CounterEnv):
    """Takes ``seconds`` to build and fails every ``every``-th time.

    All processes count the times in the file ``tries``; without it every time fails.
    """

    def __init__(self, seconds: float = 0.0, every: int = 1, tries: str = "", path: str = "") -> None:
        number = note(tries, b"t")
        time.sleep(seconds)
        if number % every == 0:
            raise RuntimeError(f"construction {number} fails on purpose")
        super().__init__(path)


class PrintEnv(CounterEnv):
    """Prints in every call, past ``sys.stdout`` too; ``loud`` lines a step."""

    def __init__(self, loud: int = 1) -> None:
        super().__init__()
        self._loud = loud
        print("built on stdout")
        print("built on stderr", file=sys.stderr)

    def step(self, action: Any) -> Step:
        """Print."""
        for line in range(self._loud):
            print(f"step {self.count} line {line}")
        os.write(1, b"raw stdout\n")
        os.write(2, b"raw stderr \xff\n")
        return super().step(action)


class ThreadEnv(CounterEnv):
    """Fails when a call comes on another thread than the constructor did, or inside a running loop.

    What :meth:`close` saw goes to the file ``path``, as ``close`` has no reply: ``same`` or ``other``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, run_loop: bool = False, path: str = "") -> None:
        super().__init__()
        self.render_mode = render_mode
        self._thread = threading.get_ident()
        self._run_loop, self._path = run_loop, path
        self._check("__init__")

    def _check(self, where: str) -> None:
        if threading.get_ident() != self._thread:
            raise AssertionError(f"{where} came on another thread than __init__")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise AssertionError(f"{where} came inside a running loop")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Check the thread."""
        self._check("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        """Check the thread and, if asked, run a loop of its own."""
        self._check("step")
        if self._run_loop:
            asyncio.run(asyncio.sleep(0))
        return super().step(action)

    def render(self) -> Any:
        """Check the thread."""
        self._check("render")
        return f"step {self.count}"

    def thread(self) -> int:
        """Return the thread's number, after the check."""
        self._check("thread")
        return self._thread

    def close(self) -> None:
        """Write down whether the thread was right."""
        if self._path:
            with open(self._path, "a", encoding="ascii") as file:
                file.write("same\n" if threading.get_ident() == self._thread else "other\n")
