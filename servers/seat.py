"""A seat: one session with its environment, its connection and the one thread that runs both.

Strategy. All I/O on the connection happens under ``io``. The session's thread holds it except while the
environment runs; then the attendant may take it to answer pings. So a socket has one reader and one writer at
any moment, without a queue between them.

What other threads may do to it stands in :mod:`.connected`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from openenv_gym.errors import (
    MessageTooLargeError,
    OpenEnvError,
    ProtocolError,
    RemoteProtocolError,
    ServerConnectionError,
    SessionLostError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.session import Session, Side
from openenv_gym.protocol.states import Phase
from openenv_gym.transport.channel import Channel

from .board import Operation
from .connected import Connected
from .processes import FORKS, end_stray_fork
from .replies import error_reply
from .stages import Desk, Plan, Stage

__all__ = ["Seat"]

_LOG = logging.getLogger("openenv_gym.server")
# Plain numbers: access through an Enum class runs Python code, and this is the step path.
_OTHER = int(Operation.OTHER)
_MOST_TICKS = 1 << 19
_OPERATIONS: dict[type, int] = {
    m.Step: int(Operation.STEP),
    m.Reset: int(Operation.RESET),
    m.Close: int(Operation.CLOSE),
}


class Seat(Connected):
    """One session.

    Args:
        session: The session's id.
        hello: Its first message, encoded.
        local: See :class:`Desk`.
        channel: The client's connection, from which ``hello`` was read.
        cell: Writes this session's cell of the board.
        report: Tells the parent ``opened``, ``detached``, ``attached``, ``measured``, ``ended``, and the host
            ``left``.
        plan: How the seats of this host work.
        slow: See :class:`Desk`.
    """

    def __init__(
        self,
        session: str,
        hello: bytes,
        local: bool,
        channel: Channel,
        *,
        cell: Callable[[int], None],
        report: Callable[..., None],
        plan: Plan,
        slow: bool | None = None,
    ) -> None:
        super().__init__(channel, Session(Side.SERVER, plan.limits.message), report)
        self.session = session
        self.plan = plan
        self._hello = hello
        self._desk = Desk(local, slow, partial(report, "measured"), self._tick)
        self._cell = cell
        self.count = 0
        self._operation = 0
        self._ticks = 0
        self._many = False
        self._stage: Stage | None = None
        self._stage_answer: Callable[[Any], m.Reply] = _no_stage
        self._welcome: m.Welcome | None = None
        self._kept: Any = None
        self._vacated = False
        self._born = FORKS.count

    # -- the session's thread

    def run(self) -> None:
        """Serve the session until it ends; the body of the session's thread."""
        self.io.acquire()
        try:
            if self._open():
                while self._converse():
                    pass
        except BaseException as exc:
            _LOG.exception("session %s failed", self.session)
            failed = SessionLostError(f"the session failed at the server ({exc!r}), whose log says more")
            self._last_words = self._last_words or error_reply(failed, alive=False)
        finally:
            self._leave()

    def _open(self) -> bool:
        """Build the environment and say welcome; return whether the session lives."""
        if self._ending is not None:
            self._farewell()
            return False
        try:
            hello, stage, facts = self._run(Operation.CONSTRUCTION, self._construct)
        except BaseException as exc:
            self._last_words = error_reply(exc, alive=False, construction=True)
            self._farewell()
            return False
        self._hello = b""
        self._many = hello.lanes > 1
        self._stage = stage
        self._stage_answer = stage.answer
        self._report("opened", facts.pop("about", None))
        self._welcome = m.Welcome(
            session=self.session,
            token=hello.token,
            lanes=hello.lanes,
            limits=self.plan.limits,
            server=self.plan.server,
            **facts,
        )
        if not self._arrivals:
            try:
                self._say(self._welcome)
            except MessageTooLargeError as exc:
                self._last_words = error_reply(exc, alive=False)
                self._farewell()
                return False
        return True

    def _construct(self) -> tuple[m.Hello, Stage, dict[str, Any]]:
        hello: m.Hello = self._wire.receive(self._hello)  # may take long: its maps may be an adversary's
        return hello, *self.plan.build(hello, self._desk)

    def _converse(self) -> bool:
        """Serve one connection; return whether the session may go on with another."""
        try:
            while self._ending is None and not self._arrivals:
                channel = self.channel
                if channel is None:
                    break
                self._exchange(channel)
                if self._vacated:
                    break
        except (OSError, ServerConnectionError, ProtocolError) as exc:
            _LOG.debug("session %s lost its connection: %s", self.session, exc)
        if self._ending is not None:
            self._farewell()
            return False
        return self._next_connection()

    def _exchange(self, channel: Channel) -> None:
        """Read requests and answer them until something changes."""
        if self._many:
            channel.be_patient()
        receive, answer, send, wire = channel.recv, self._answer, channel.send, self._wire
        while True:
            try:
                request = wire.receive(receive())
            except (RemoteProtocolError, MessageTooLargeError) as exc:
                if channel.closed:
                    raise
                self._say(error_reply(exc, alive=True))
                continue
            reply = answer(request)
            if type(request) is m.Close:
                self._vacate()  # before the reply: who has that may count on the slot
            if self._arrivals:  # the reply is kept; the new connection will ask for it
                return
            try:
                data = wire.answer(reply)
            except OpenEnvError as exc:
                self._kept = reply = error_reply(exc, request.id, alive=True)
                data = wire.send(reply)
            if isinstance(data, tuple):
                channel.send_pieces(data)
            else:
                send(data)
            if self._many and self._stage is not None:
                self._stage.spent = None
            if self._vacated or self._ending is not None:
                return

    def _answer(self, request: Any) -> m.Reply:
        """Carry out a request, or repeat the kept reply of a request that was carried out before."""
        kept = self._kept
        if kept is not None and kept.id == request.id:
            reply: m.Reply = kept
            return reply
        work = self._close_as_asked if type(request) is m.Close else self._stage_answer
        try:
            reply = self._run(_OPERATIONS.get(type(request), _OTHER), work, request)
        except BaseException as exc:
            reply = error_reply(exc, request.id, alive=type(request) is not m.Close)
        self._kept = reply
        return reply

    def _run(self, operation: int, work: Callable[..., Any], *args: Any) -> Any:
        """Run ``work`` as an operation that the board shows, with ``io`` released."""
        self.count += 1
        self.busy = True
        self._operation = operation
        self._cell(self.count * 16 + operation)
        self.io.release()
        try:
            return work(*args)
        finally:
            if FORKS.count != self._born:
                end_stray_fork()
            self.io.acquire()
            self.count += 1
            self._cell(self.count * 16)
            self.busy = False

    def _tick(self) -> None:
        """Give the cell another value of the same count, which the attendant goes by."""
        self._ticks = (self._ticks + 1) % _MOST_TICKS
        self._cell(((self._ticks << 40) + self.count) * 16 + self._operation)

    def _next_connection(self) -> bool:
        """Wait within the grace time to be resumed; return whether that happened."""
        if self._vacated and not self._arrivals:
            return False
        self._drop_channel()
        self._wire.disconnect()
        if not self._arrivals:
            self._report("detached")
        while not self._arrivals and self._ending is None:
            if not self._changed.wait(self.plan.grace):
                self._ending = SessionLostError(
                    f"the connection was lost and not resumed within {self.plan.grace:g} s"
                )
            self._changed.clear()
        if self._ending is not None:
            self._farewell()
            return False
        while len(self._arrivals) > 1:
            self._arrivals.popleft().abort()
        self.channel = self._arrivals.popleft()
        return self._resume(self.channel)

    def _resume(self, channel: Channel) -> bool:
        """Answer the ``resume`` that the parent checked."""
        self._wire.phase = Phase.RESUMING
        if self._kept is None and self._welcome is not None:  # the first one may have been lost
            reply: m.Reply = self._welcome
        else:
            reply = m.Resumed(self.session, self._kept.id if self._kept is not None else 0)
        self._report("attached")
        with contextlib.suppress(OSError, ServerConnectionError):
            channel.send(self._wire.send(reply))
        return True

    def _leave(self) -> None:
        """Close what is still open, and free the slot."""
        self._vacate()
        self._left = True
        for channel in (self.channel, *self._arrivals):
            if channel is not None and not channel.closed:
                with contextlib.suppress(OSError, OpenEnvError):
                    channel.close(timeout=0.0)
        self.channel = None
        self._report("left")
        self.io.release()

    def _vacate(self) -> None:
        """Close the environment and free the slot; the cell may be another session's from here on."""
        if self._vacated:
            return
        try:
            self._run(Operation.CLOSE, self._close_stage)
        except BaseException:
            _LOG.exception("env.close() of session %s raised", self.session)
        self._vacated = True
        self._cell(Operation.VACANT)
        self._cell = _nowhere
        self._report("ended", self._last_words)

    def _close_stage(self) -> None:
        stage, self._stage, self._stage_answer = self._stage, None, _no_stage
        if stage is not None:
            stage.close()

    def _close_as_asked(self, request: m.Close) -> m.Closed:
        self._close_stage()
        return m.Closed(request.id)


def _no_stage(request: Any) -> m.Reply:
    raise RemoteProtocolError("there is no environment: it is not built yet, or closed")


def _nowhere(value: int) -> None:
    """Be the cell of a session that has none any more."""
