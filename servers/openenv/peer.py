"""A peer: one session of a worker, spoken to from the server's event loop.

JSON clients, HTTP and MCP have no session implementation of their own. A peer is a client of the binary
protocol with the face ``typed``, over a socket pair; the worker serves it as it serves every other client.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openenv_gym.errors import (
    DeadlineExceededError,
    OpenEnvError,
    RemoteProtocolError,
    SessionLostError,
    ValidationError,
    ValueNotCarriedError,
    from_wire,
)
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_first
from openenv_gym.protocol.reader import FrameReader
from openenv_gym.protocol.session import Session, Side
from openenv_gym.protocol.values import pack

from ..pool import Arrival

if TYPE_CHECKING:
    from ..pool import Pool

__all__ = ["Outcome", "Peer"]

_NO_KEY = bytes(4)
_TERMINATED, _TRUNCATED = 1, 2
_CLOSE_PATIENCE = 5.0
"""Seconds that ``env.close()`` is waited for; afterwards the session ends by itself."""
_ASK_AGAIN, _ASK_LONGEST = 0.01, 5.0


@dataclass(frozen=True)
class Outcome:
    """What an environment answered to ``reset`` or ``step``.

    Attributes:
        observation: Its fields. Values are Python's and numpy's.
        reward: ``None``: there is none.
        terminated, truncated: How the episode ended, if it did.
        metadata: What goes with the observation.
    """

    observation: dict[str, Any]
    reward: Any = None
    terminated: bool = False
    truncated: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Return whether the episode is over."""
        return self.terminated or self.truncated


class Peer:
    """One session; :meth:`open` makes one.

    Calls take turns. A call that is cancelled before its turn is not carried out. One that has begun is given
    up, not undone: the environment carries it out, its result is dropped, and only then it is the next call's
    turn. Every call raises what the worker reports, as a typed error; once the session has
    ended, every call raises why.

    Attributes:
        welcome: What the worker said of the environment: ``schemas``, ``capabilities``, spaces.
        ended: Done once the session has ended, with the reason.
    """

    welcome: m.Welcome

    def __init__(self, pool: Pool) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[OpenEnvError] = loop.create_future()
        self._pool = pool
        self._wire = Session(Side.CLIENT, pool.settings.max_message_size)
        self._session = secrets.token_hex(16)
        self._token = secrets.token_bytes(16)
        self._lock = asyncio.Lock()
        self._waiter: asyncio.Future[Any] | None = None
        self._inquiry: asyncio.Task[None] | None = None
        self._line = _Line(self._heard, self._lost)

    @classmethod
    async def open(cls, pool: Pool, *, env_kwargs: Any = None, patience: float = 0.0) -> Peer:
        """Return a new session; its environment is built and not yet reset.

        Args:
            pool: Where sessions come from.
            env_kwargs: Constructor arguments beside the server's own.
            patience: Seconds to wait for a free slot.

        Raises:
            CapacityError: There is no free slot.
            ConstructionError: The environment could not be built.
            OpenEnvError: Another reason for which there is no session.
        """
        peer = cls(pool)
        try:
            peer.welcome = await peer._open(env_kwargs, patience)
        except BaseException:
            peer.drop()
            raise
        return peer

    @property
    def has_tools(self) -> bool:
        """Whether the environment has tools."""
        return "tools" in self.welcome.capabilities

    async def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> Outcome:
        """Begin an episode.

        Args:
            seed: Its seed.
            options: The other keyword arguments of ``reset``, ``episode_id`` among them.
            timeout: See :meth:`step`.
        """
        seeds = None if seed is None else [_packed(seed, "$.seed")]
        packed = _packed(options, "$") if options else None
        return _outcome(await self._timed("reset", timeout, lambda number: m.Reset(number, seeds, packed)))

    async def step(self, action: dict[str, Any], *, timeout: float | None = None) -> Outcome:
        """Take a step.

        Args:
            action: The fields of an action; ``type`` tells tool actions from others.
            timeout: Seconds after which the session is given up, since a call that began cannot be taken
                back.

        Raises:
            ValidationError: A field is wrong; nothing was executed.
            DeadlineExceededError: It took longer than ``timeout``; the session has ended, unless another
                request kept this one from beginning.
        """
        packed = _packed(action, "$")
        return _outcome(await self._timed("step", timeout, lambda number: m.Step(number, packed)))

    async def state(self) -> dict[str, Any]:
        """Return the fields of the environment's state."""
        (state,) = (await self._request(m.State)).values
        return dict(state)

    async def ask(self, topic: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return what the environment answers to a question beside stepping.

        Args:
            topic: ``"metadata"``, ``"tools/list"``, ``"tools/call"``, ``"tasks/..."``.
            arguments: Its arguments by name.

        Raises:
            UnsupportedError: The environment has no such thing.
        """
        packed = {name: _packed(value, f"$.{name}") for name, value in (arguments or {}).items()}
        (answer,) = (await self._request(lambda number: m.Ask(number, topic, packed))).values
        return answer

    def offer(self, unclaimed: bool) -> None:
        """Say whether the session would yield its slot to a newcomer when the server is full."""
        self._pool.offer(self._session, unclaimed)

    async def close(self) -> None:
        """End the session. A call that still runs ends first, which is not waited for.

        Raises:
            RemoteEnvironmentError: The environment's ``close()`` raised. The session has ended all the same.
        """
        try:
            if not (self.ended.done() or self._lock.locked()):
                async with asyncio.timeout(_CLOSE_PATIENCE):
                    await self._request(m.Close)
                self._end(SessionLostError("the session was closed"))
        except (TimeoutError, SessionLostError):
            pass
        finally:
            self.drop()

    def drop(self) -> None:
        """End the session without waiting."""
        record = self._pool.records.living.get(self._session)
        if not self.ended.done():
            reason = SessionLostError("the session was closed by its client")
            if record is not None and record.ending is None:
                self._pool.end(record, reason)
            self._end(reason)
        if self._inquiry is not None:
            self._inquiry.cancel()
        self._line.close()

    # -- the conversation

    async def _open(self, env_kwargs: Any, patience: float) -> m.Welcome:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            await _connect(self._line, ours)
            hello = m.Hello(
                session=self._session,
                token=self._token,
                env_kwargs=pack(env_kwargs, "env_kwargs") if env_kwargs else None,
                slot_timeout=patience,
                limits=m.Limits(message=self._wire.max_message),
                client="openenv-gateway",
                face="typed",
            )
            raw = self._wire.send(hello)
            await self._pool.admit(decode_first(raw), raw, Arrival(theirs))  # type: ignore[arg-type]
        reply = await self._await(self._expect())
        if not isinstance(reply, m.Welcome):
            raise RemoteProtocolError(f"a worker answered 'hello' with {type(reply).__name__}")
        return reply

    async def _timed(self, name: str, timeout: float | None, make: Callable[[int], m.Request]) -> Any:
        begun = False

        def begin(number: int) -> m.Request:
            nonlocal begun
            begun = True
            return make(number)

        try:
            async with asyncio.timeout(timeout):
                return await self._request(begin)
        except TimeoutError:
            if not begun:
                raise DeadlineExceededError(
                    f"the {name} could not begin within {timeout:g} s, for another request of the session"
                    " still runs; nothing was executed",
                    operation=name,
                    deadline=timeout,
                ) from None
            error = DeadlineExceededError(
                f"the {name} took longer than {timeout:g} s and the session was given up; reset() starts a"
                " new one",
                operation=name,
                deadline=timeout,
            )
        record = self._pool.records.living.get(self._session)
        if record is not None and record.ending is None:
            self._pool.condemn(record, error)
        self._end(error)
        raise copy.copy(error)

    async def _request(self, make: Callable[[int], m.Request]) -> Any:
        await self._lock.acquire()
        waiter = None
        try:
            if self.ended.done():
                raise copy.copy(self.ended.result())
            payload = self._wire.send(make(self._wire.next_id()))
            waiter = self._expect()
            self._line.send(payload)
            return await self._await(waiter)
        except asyncio.CancelledError:
            if waiter is not None and waiter.cancelled():
                waiter = self._expect()
            raise
        finally:
            if waiter is None or waiter.done():
                self._lock.release()
            else:
                waiter.add_done_callback(self._dropped)

    def _dropped(self, waiter: asyncio.Future[Any]) -> None:
        waiter.exception()  # or asyncio complains that nobody looked at it
        self._lock.release()

    def _expect(self) -> asyncio.Future[Any]:
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    async def _await(self, waiter: asyncio.Future[Any]) -> Any:
        try:
            reply = await waiter
        finally:
            self._waiter = None
        if isinstance(reply, m.Error):
            raise from_wire(reply.code, reply.message, reply.details)
        return reply

    def _heard(self, payload: bytes | bytearray) -> None:
        reply = self._wire.receive(payload)
        if reply is None:  # answers a call that was given up
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)
        if isinstance(reply, m.Error) and not reply.alive:
            self._end(from_wire(reply.code, reply.message, reply.details))

    def _lost(self) -> None:
        if not self.ended.done():
            self._inquiry = asyncio.get_running_loop().create_task(self._inquire())

    async def _inquire(self) -> None:
        """Find out how the session ended whose connection the worker, or its end, has closed."""
        reason: OpenEnvError = SessionLostError("the worker closed the session's connection without a word")
        try:
            async with asyncio.timeout(_ASK_LONGEST):
                while True:
                    self._pool.records.find(self._session, self._token)
                    await asyncio.sleep(_ASK_AGAIN)
        except OpenEnvError as exc:
            reason = exc
        except TimeoutError:
            pass
        self._end(reason)

    def _end(self, reason: OpenEnvError) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(copy.copy(reason))


class _Line(asyncio.Protocol):
    """The peer's end of the socket pair: frames of a client, masked with zeros, which changes nothing."""

    def __init__(self, heard: Callable[[bytes | bytearray], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._reader = FrameReader(client=True)
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        reader, view = self._reader, memoryview(data)
        while view:
            count = min(len(view), len(reader.target))
            reader.target[:count] = view[:count]
            reader.arrived = count
            view = view[count:]
            while (event := reader.next()) is not None:
                if not isinstance(event, frames.Frame):
                    self._heard(event)
                elif event.opcode == frames.CLOSE:
                    self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def send(self, payload: bytes) -> None:
        """Send a message; on a line that is lost, nothing: its loss is being told already."""
        if self._transport is not None:
            head = frames.header(frames.FIN | frames.BINARY, len(payload), True)
            self._transport.write(b"".join((head, _NO_KEY, payload)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _connect(line: _Line, sock: socket.socket) -> None:
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    unix = getattr(socket, "AF_UNIX", None)
    connect = loop.create_unix_connection if sock.family == unix else loop.create_connection
    try:
        await connect(lambda: line, sock=sock)
    except BaseException:
        sock.close()
        raise


def _packed(value: Any, path: str) -> Any:
    """Return what a client sent as the worker gets it; what cannot be sent on is the client's fault."""
    try:
        return pack(value, path)
    except ValueNotCarriedError as exc:
        raise ValidationError(exc.message, path=path) from None


def _outcome(reply: Any) -> Outcome:
    (reward,) = reply.rewards or [None]
    flags = reply.flags[0] if reply.flags else 0
    metadata = reply.infos[0] if reply.infos else {}
    return Outcome(
        dict(reply.observations),
        reward,
        bool(flags & _TERMINATED),
        bool(flags & _TRUNCATED),
        metadata or {},
    )
