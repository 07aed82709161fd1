"""What a call returns while an event loop runs: to be awaited, or simply used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, TypeVar

from .line import Call, Line

__all__ = ["Pending", "loop_runs"]

T = TypeVar("T")
#: Beginnings of names that asyncio and debuggers look for; a look must not carry the call out.
_INNER = ("_", "cr_", "gi_", "ag_")


def loop_runs() -> bool:
    """Return whether an event loop of asyncio runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


class Pending(Coroutine[Any, Any, T]):
    """A call that was made while an event loop ran in this thread.

    Awaited, it is carried out on the loop. When it is used without ``await`` (``client.step(a).reward``) it
    is carried out then, and the loop waits meanwhile. Calls made before it come first. One that is dropped
    without either is not carried out, and a RuntimeWarning names it.

    It may be awaited and used more than once, and given to ``asyncio.create_task``.
    """

    def __init__(self, line: Line, call: Call, *, at_last: bool = False) -> None:
        #: Whether it is carried out even when it is dropped.
        self._at_last = at_last
        self._line = line
        self._call = call
        self._looked = False
        self._coroutine: Coroutine[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        """Carry the call out on the running loop; return its result."""
        return self._run().__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine does."""
        if self._coroutine is None:
            self._coroutine = self._run()
        return self._coroutine.send(value)

    def throw(self, *args: Any) -> Any:
        """Raise an exception where it stands, as a coroutine does."""
        if self._coroutine is None:
            self._withdraw()
            self._coroutine = self._run()
        return self._coroutine.throw(*args)

    def close(self) -> None:
        """Give the call up, as a coroutine does. If it is done already, close its result."""
        if self._coroutine is not None:
            self._coroutine.close()
        elif not self._call.done:
            self._withdraw()
        elif hasattr(result := self._now(), "close"):
            result.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_INNER):
            raise AttributeError(f"a pending call has no attribute {name!r}; await it")
        return getattr(self._now(), name)

    def __getitem__(self, key: Any) -> Any:
        result: Any = self._now()
        return result[key]

    def __iter__(self) -> Iterator[Any]:
        result: Any = self._now()
        return iter(result)

    def __len__(self) -> int:
        result: Any = self._now()
        return len(result)

    def __contains__(self, item: Any) -> bool:
        result: Any = self._now()
        return item in result

    def __bool__(self) -> bool:
        return bool(self._now())

    def __repr__(self) -> str:
        return f"<{self._call.name}, {'done' if self._call.done else 'to be awaited'}>"

    def __del__(self) -> None:
        call = self._call
        if self._looked or sys.is_finalizing():
            return
        if call.error is not None:
            warnings.warn(f"{call.name} failed, and nobody looked: {call.error!r}", RuntimeWarning, 2, self)
        elif not call.begun and self._at_last:
            self._line.run(call)
        elif not call.begun:
            self._line.leave(call)
            text = f"{call.name} was never awaited, so it was not carried out"
            warnings.warn(text, RuntimeWarning, 2, self)

    def _run(self) -> Coroutine[Any, Any, T]:
        from .loops import run

        self._looked = True
        return run(self._line, self._call)

    def _withdraw(self) -> None:
        self._looked = True
        if not self._call.begun:
            self._call.advance(error=GeneratorExit())
            self._line.leave(self._call)

    def _now(self) -> T:
        self._looked = True
        result: T = self._line.run(self._call)
        return result
