"""Which call of a vector environment is under way, and what may come next, whatever was interrupted.

Strategy. An interrupt (Ctrl-C, or whatever else a signal handler raises) may come at any time. One that comes
while nothing is under way changes nothing. One that comes in the midst of a call leaves a result that nobody
has seen: all of it is given up, and from then on only a reset is accepted. The interpreter looks for signals
when a function begins, in a loop and after some calls, not between assignments; so what a handler of
exceptions assigns first is assigned. Nor does it when a Python function returns that was called with its
arguments written out; so that is how :meth:`Calls.run` is called, and what it returns is returned at once.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import TimeoutError as WaitTimeout
from numbers import Real
from time import monotonic
from typing import Any

from gymnasium.error import AlreadyPendingCallError

from openenv_gym.client.deadline import deadline_in
from openenv_gym.errors import InterruptedStepError, OpenEnvError

__all__ = ["Calls", "check_timeout", "wait"]


class Calls:
    """Lets one call be made at a time.

    Args:
        give_up: Drop everything that is outstanding. Called once more when they were interrupted themselves.

    Attributes:
        pending: What was sent and not waited for: ``"step"``, ``"reset"`` or nothing.
        interrupted: Whether the result of a call is unknown, so that nothing but a reset may follow.
    """

    __slots__ = ("_give_up", "_running", "interrupted", "pending")

    def __init__(self, *give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._running = ""
        self.pending = ""
        self.interrupted = False

    def check(self, call: str) -> None:
        """Check that nothing is under way.

        Raises:
            AlreadyPendingCallError: Something is.
        """
        self._check_not_within(call)
        if self.pending:
            raise AlreadyPendingCallError(
                f"{call}() came after {self.pending}_async(); call {self.pending}_wait() first", self.pending
            )

    def check_known(self) -> None:
        """Check that no result is unknown.

        Raises:
            InterruptedStepError: One is.
        """
        if self.interrupted:
            raise InterruptedStepError(
                "the last call was interrupted, so its result is unknown; call reset()"
            )

    def prepare_reset(self) -> None:
        """Drop what an interrupt left behind, if it cut short the dropping as well."""
        if self.interrupted:
            self._drop()

    def run(self, name: str, work: Callable[..., Any], *args: Any) -> Any:
        """Return what ``work(*args)`` returns; when that is interrupted, nothing stays outstanding."""
        try:
            self._running = name
            result = work(*args)
            self._running = ""
            return result
        except (OpenEnvError, WaitTimeout):  # an answer, too: what was sent has arrived, or is waited for on
            self._running = ""
            raise
        except BaseException:
            self.interrupted, self._running, self.pending = True, "", ""
            self._drop()
            raise

    def post(self, name: str, work: Callable[..., None], *args: Any) -> None:
        """Do ``work(*args)``, which sends something that :meth:`collect` waits for."""

        def posted() -> None:
            work(*args)
            self.pending = name

        self.run(f"{name}_async", posted)

    def collect(self, work: Callable[[float | None], Any], timeout: float | None) -> Any:
        """Return the result of what was posted.

        Raises:
            multiprocessing.TimeoutError: ``timeout`` is over; it can be waited for again.
            AlreadyPendingCallError: Another call is under way.
            TypeError: ``timeout`` is no number.
        """
        check_timeout(timeout)
        name = self.pending
        self._check_not_within(f"{name}_wait")
        late = f"not all lanes were done within {timeout} s; {name}_wait() waits on"

        def collected() -> Any:
            try:
                result = wait(work, timeout, late)
                self.pending = ""
                return result
            except OpenEnvError:
                self.pending = ""
                raise

        return self.run(f"{name}_wait", collected)

    def _check_not_within(self, call: str) -> None:
        if self._running:
            raise AlreadyPendingCallError(
                f"{call}() came in the midst of {self._running}(); no signal handler and no other thread can"
                " make a call then",
                self._running,
            )

    def _drop(self) -> None:
        for each in self._give_up:
            each()


def check_timeout(timeout: Any) -> None:
    """Check, before anything is waited for, that ``timeout`` is a number of seconds or ``None``.

    Raises:
        TypeError: It is neither.
    """
    if timeout is not None and not isinstance(timeout, Real):
        raise TypeError(f"timeout is {timeout!r}; write seconds, or None to wait as long as it takes")


def wait(work: Callable[[float | None], Any], timeout: float | None, late: str) -> Any:
    """Return what ``work`` returns, which is given a deadline (``time.monotonic()``).

    Raises:
        multiprocessing.TimeoutError: The deadline passed; the message is ``late``.
    """
    deadline = deadline_in(timeout)
    try:
        return work(deadline)
    except TimeoutError as exc:
        if deadline is None or monotonic() < deadline:  # not ours: a signal handler's
            raise
        raise WaitTimeout(late) from exc
