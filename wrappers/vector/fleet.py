"""The sessions that hold the lanes of a vector environment: where they are, how they open, how they end."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from openenv_gym import __version__
from openenv_gym.client.deadline import time_left
from openenv_gym.client.opening import Offer, Opener
from openenv_gym.client.split import SplitConnection
from openenv_gym.client.sync import CLOSE_TIMEOUT
from openenv_gym.errors import (
    CapacityError,
    EnvironmentMismatchError,
    OpenEnvError,
    ServerConnectionError,
    SessionLostError,
    StartupError,
)
from openenv_gym.protocol.messages import Welcome
from openenv_gym.protocol.specs import from_spec
from openenv_gym.protocol.values import pack

from .arguments import Arguments
from .failures import numbered
from .times import LaneWatch

__all__ = ["Fleet", "Part", "cores", "openers_of"]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 2.0
#: After so many steps without a loss a session's earlier losses are forgotten.
_STEADY = 100


class Part:
    """The lanes of one session.

    Args:
        opener: Opens the session.
        first: The first of its lanes.
        count: How many there are.

    Attributes:
        lanes: Its lanes.
        connection: The session, or ``None`` when it is lost.
        losses: How often in a row it was lost.
        cause: How it was lost the last time.
        watch: Takes what replies say of their times; ``None``: nobody.
    """

    __slots__ = (
        "_steady",
        "cause",
        "connection",
        "count",
        "first",
        "lanes",
        "losses",
        "opener",
        "stop",
        "watch",
    )

    def __init__(self, opener: Opener, first: int, count: int) -> None:
        self.opener = opener
        self.first = first
        self.count = count
        self.stop = first + count
        self.lanes = range(first, first + count)
        self.connection: SplitConnection | None = None
        self.losses = 0
        self.cause: BaseException | None = None
        self.watch: LaneWatch | None = None
        self._steady = 0

    @property
    def server(self) -> str:
        """Return the server's address, without secrets."""
        return "" if self.opener.endpoint is None else str(self.opener.endpoint)

    @property
    def host(self) -> object:
        """Return what all parts on the same server have in common."""
        return self.opener.provider or self.server

    def post(self, kind: Callable[..., Any], *args: Any) -> None:
        """Send a request; see :meth:`SplitConnection.post`."""
        connection = self.connection
        if connection is None:
            raise SessionLostError(
                "the session is lost; reset its lanes to start a new one", server=self.server
            )
        try:
            connection.post(kind, *args)
        except BaseException as exc:
            self._failed(exc)
            raise

    def collect(self, patience: float | None = None) -> Any:
        """Return the reply to what was posted; see :meth:`SplitConnection.collect`."""
        assert self.connection is not None
        try:
            reply = self.connection.collect(patience)
        except BaseException as exc:
            self._failed(exc)
            raise
        if self.watch is not None:
            self.watch.note(self.first, self.count, reply)
        return reply

    def check(self) -> None:
        """Let go of a session that turns out to be lost; nothing is executed for it."""
        if self.connection is None:
            return
        try:
            self.connection.check()
        except (SessionLostError, ServerConnectionError) as exc:
            self.lose(exc)

    def lose(self, cause: BaseException) -> None:
        """Let go of the session."""
        connection, self.connection = self.connection, None
        self.losses += 1
        self.cause = cause
        self._steady = 0
        if connection is not None:
            connection.drop()

    def give_up(self) -> None:
        """Give up an interrupted request, or a session whose opening was interrupted."""
        connection = self.connection
        if connection is None or connection.over:
            return
        if hasattr(connection, "wire"):
            connection.wire.abandon()
        else:
            self.lose(SessionLostError("its opening was interrupted", server=self.server))

    def stepped(self) -> None:
        """Note a step that went well; after enough of them the losses before are forgotten."""
        self._steady += 1
        if self._steady >= _STEADY:
            self.losses = 0

    def _failed(self, exc: BaseException) -> None:
        if self.connection is not None and self.connection.over:
            self.lose(exc)
        self.opener.forward()


class Fleet:
    """All parts of a vector environment.

    Args:
        openers: One for each server.
        arguments: What the vector environment was told.

    Attributes:
        parts: The parts, in the order of their lanes.
        welcome: What the first session said.
        crowded: Whether as many sessions run on this machine as this process may use cores of it.

    Raises:
        OpenEnvError: A session could not be opened; none is left open.
    """

    welcome: Welcome

    def __init__(self, openers: Sequence[Opener], arguments: Arguments) -> None:
        self._arguments = arguments
        self._spaces: Any = None
        self._group = secrets.token_hex(8)
        self.parts: list[Part] = []
        self.crowded = False
        try:
            self.parts = self._planned(openers)
            here = [part for part in self.parts if part.opener.endpoint is None or part.opener.endpoint.local]
            self.crowded = len(here) >= cores()
            for part in self.parts:
                part.connection = self._begin(part, patient=False)
            for part in self.parts:
                self._complete(part)
        except Exception:
            self.close()
            raise
        except BaseException:  # an interrupt waits for nothing
            self.discard()
            raise
        finally:
            for opener in [*openers, *(part.opener for part in self.parts)]:
                opener.forget()

    def begin(self, parts: Iterable[Part]) -> dict[int, OpenEnvError]:
        """Ask for new sessions for parts that lost theirs; return by first lane what went wrong.

        A part that was lost several times in a row waits first.
        """
        failures: dict[int, OpenEnvError] = {}
        lost = [part for part in parts if part.connection is None]
        pauses = [_FIRST_PAUSE * 2 ** min(part.losses, 10) for part in lost if part.losses > 1]
        time.sleep(min(max(pauses, default=0.0), _LONGEST_PAUSE))
        gone: dict[Any, OpenEnvError] = {}  # not asked again, since each attempt takes its time
        for part in lost:
            exc = gone.get(part.host)
            if exc is None:
                try:
                    part.connection = self._begin(part, patient=True)
                    continue
                except OpenEnvError as raised:
                    exc = raised
                if isinstance(exc, ServerConnectionError | StartupError):
                    gone[part.host] = exc
            part.lose(exc)
            failures[part.first] = exc
        return failures

    def complete(self, parts: Iterable[Part]) -> dict[int, OpenEnvError]:
        """Wait until the sessions of ``parts`` are open; return by first lane what went wrong."""
        failures: dict[int, OpenEnvError] = {}
        for part in parts:
            try:
                self._complete(part)
            except OpenEnvError as exc:
                part.lose(exc)
                failures[part.first] = exc
        return failures

    def close(self, deadline: float | None = None) -> None:
        """End all sessions, side by side. Raises nothing but interrupts, after which it waits for nothing.

        Args:
            deadline: When to stop waiting for them (``time.monotonic()``).
        """
        living = [(part.server, part.connection) for part in self.parts if part.connection is not None]
        for part in self.parts:
            part.connection = None
        left = time_left(deadline)
        unreachable: set[str] = set()  # not asked again, since each attempt takes its time
        try:
            for end in (
                lambda c: c.begin_close(CLOSE_TIMEOUT if left is None else left),
                SplitConnection.close,
            ):
                for server, connection in living:
                    if server in unreachable:
                        connection.drop()
                    else:
                        end(connection)
                    if connection.unreachable:
                        unreachable.add(server)
        except BaseException:
            for _, connection in living:
                connection.discard()
            raise

    def discard(self) -> bool:
        """Let go of all sessions without waiting; return whether there were any. Never raises."""
        connections = [part.connection for part in self.parts if part.connection is not None]
        living = [connection for connection in connections if not connection.over]
        for connection in living:
            connection.discard()
        return bool(living)

    # -- inside

    def _begin(self, part: Part, *, patient: bool) -> SplitConnection:
        connection = part.opener.begin(patient=patient)
        connection.crowded = self.crowded
        return connection

    def _complete(self, part: Part) -> None:
        assert part.connection is not None
        try:
            part.opener.complete(part.connection)
        except OpenEnvError as exc:
            numbered(exc, part.lanes)
            raise
        welcome = part.connection.welcome
        found = welcome.observation_space, welcome.action_space
        if self._spaces is None:
            self._spaces, self.welcome = found, welcome
        elif found != self._spaces and list(map(from_spec, found)) != list(map(from_spec, self._spaces)):
            raise EnvironmentMismatchError(
                f"{part.server} hosts an environment with other spaces than the first session has; all lanes"
                " must be alike",
                server=part.server,
            )

    def _planned(self, openers: Sequence[Opener]) -> list[Part]:
        """Start the servers, ask what they offer, and spread the lanes over them and their workers."""
        arguments = self._arguments
        for opener in openers:
            opener.launch()
        shares = _shares(arguments.num_envs, len(openers))
        offers = [opener.survey() for opener in openers]
        for opener, offer, share in zip(openers, offers, shares, strict=True):
            _check_room(opener, offer, share)
        parts, first = [], 0
        for opener, offer, share in zip(openers, offers, shares, strict=True):
            for count in _shares(share, self._sessions(offer, share)):
                parts.append(Part(opener.variant(**self._hello(opener, first, count)), first, count))
                first += count
        return parts

    def _sessions(self, offer: Offer | None, lanes: int) -> int:
        """Return in how many sessions the lanes of one server are kept."""
        if self._arguments.native:
            return 1
        if self._arguments.lanes_per_worker is not None:
            return -(-lanes // self._arguments.lanes_per_worker)
        return min(1 if offer is None else offer.workers, lanes)

    def _hello(self, opener: Opener, first: int, count: int) -> dict[str, Any]:
        arguments = self._arguments
        limits = msgspec.structs.replace(
            opener.hello.limits,
            episode=arguments.max_episode_steps or 0,
            threads=min(arguments.lane_threads, count),
        )
        fields: dict[str, Any] = {
            "capabilities": [*opener.hello.capabilities, "lanes"],
            "lanes": count,
            "autoreset": "any" if arguments.autoreset is None else arguments.autoreset.name.lower(),
            "native": arguments.native,
            "limits": limits,
            "group": self._group,
        }
        if arguments.lane_kwargs is not None:
            chosen = enumerate(arguments.lane_kwargs[first : first + count], first)
            fields["env_kwargs"] = [pack(each, f"env_kwargs[{lane}]") for lane, each in chosen]
        return fields


def cores() -> int:
    """Return on how many cores this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _shares(total: int, parts: int) -> list[int]:
    """Return ``total`` in ``parts`` shares that differ by one at most, the larger ones first."""
    return [len(share) for share in np.array_split(np.empty(total, np.bool_), parts)]


def _check_room(opener: Opener, offer: Offer | None, lanes: int) -> None:
    """Refuse before anything is built what the server has no room for."""
    if offer is None:
        return
    room = offer.maximum if opener.hello.slot_timeout else offer.free
    if lanes > room:
        server = str(opener.endpoint)
        cure = (
            "or name more servers" if lanes > offer.maximum else "name more servers, or wait by slot_timeout"
        )
        raise CapacityError(
            f"{server} has room for {room} more lanes (of {offer.maximum}), and {lanes} were asked for;"
            f" nothing was built. Raise --max-sessions there, {cure}",
            server=server,
            active=offer.maximum - offer.free,
            max=offer.maximum,
            wanted=lanes,
            option="max_sessions",
        )


def openers_of(
    arguments: Arguments, target: str | None, time_limit: bool, render_mode: str | None
) -> list[Opener]:
    """Return what opens sessions on each server."""
    return [
        Opener(
            settings,
            target,
            time_limit=time_limit,
            render_mode=render_mode,
            client=f"openenv_gym/{__version__}",
            number=number if arguments.numbered else 0,
        )
        for number, settings in enumerate(arguments.servers)
    ]
