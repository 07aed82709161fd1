"""A network that fails on purpose: a TCP or Unix-socket proxy that cuts, delays, freezes, or loses frames.

::

    with Proxy(server_url, plans=[Plan(down=Policy(cut_frame=3, where="before"))]) as proxy:
        env = gym.make("openenv/Remote-v0", base_url=proxy.url)

The first connection follows ``plans[0]``, the next ``plans[1]``; those after the last plan pass unharmed, so
a client that comes back after a fault gets through. ``up`` is the direction from client to server.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from .wsmeter import FrameMeter, Piece

__all__ = ["PASS", "Link", "Plan", "Policy", "Proxy", "random_plan"]

How = Literal["rst", "fin", "freeze", "stall"]
Where = Literal["before", "middle", "after"]
Sides = Literal["both", "client", "server"]
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Policy:
    """What happens to one direction of a connection.

    Attributes:
        cut_bytes: Cut after exactly this many bytes.
        cut_frame: Cut at this data frame (1 is the first; 0 the handshake); control frames do not count.
        where: Cut before the frame, in its middle, or after its last byte.
        how: ``"rst"`` resets, ``"fin"`` closes in order, ``"freeze"`` forwards nothing more, either way;
            ``"stall"`` does so for ``stall`` seconds and then goes on as if nothing had been.
        stall: See ``how``.
        sides: Whose connection is cut; the other one is frozen, as when only one end notices.
        delay: Seconds, or the bounds of random ones, that every piece is held back.
        swallow: Opcodes of control frames that are not forwarded.
        segment: Forward at most so many bytes at a time (0: as they come).
    """

    cut_bytes: int | None = None
    cut_frame: int | None = None
    where: Where = "after"
    how: How = "rst"
    stall: float = 0.1
    sides: Sides = "both"
    delay: float | tuple[float, float] = 0.0
    swallow: frozenset[int] = frozenset()
    segment: int = 0


@dataclass(frozen=True)
class Plan:
    """What happens to a connection."""

    up: Policy = field(default_factory=Policy)
    down: Policy = field(default_factory=Policy)


PASS = Plan()


def random_plan(rng: random.Random, frames: int) -> Plan:
    """Return a plan with one fault, somewhere in the first ``frames`` data frames of either direction."""
    wheres: tuple[Where, ...] = ("before", "middle", "after")
    hows: tuple[How, ...] = ("rst", "fin", "freeze")
    policy = Policy(cut_frame=rng.randint(0, frames), where=rng.choice(wheres), how=rng.choice(hows))
    return Plan(up=policy) if rng.random() < 0.5 else Plan(down=policy)


class Link:
    """One connection through the proxy.

    Attributes:
        forwarded: Bytes let through, by direction (``"up"``, ``"down"``).
        frames: Data frames begun, by direction.
        controls: Control frames seen, by direction: a list of opcodes.
        cut: Set when the fault has happened.
    """

    def __init__(self, client: socket.socket, server: socket.socket, plan: Plan, rng: random.Random) -> None:
        self.client, self.server, self.plan = client, server, plan
        self.forwarded = {"up": 0, "down": 0}
        self.frames = {"up": 0, "down": 0}
        self.controls: dict[str, list[int]] = {"up": [], "down": []}
        self.cut = threading.Event()
        self._ended = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._stalled: set[str] = set()
        self._rng = rng
        self._lock = threading.Lock()
        self._pumps = 2
        self._threads = [
            threading.Thread(target=self._pump, args=("up", client, server, plan.up), name="proxy-up"),
            threading.Thread(target=self._pump, args=("down", server, client, plan.down), name="proxy-down"),
        ]

    def start(self) -> None:
        """Begin to forward."""
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether something may still come through."""
        return any(thread.is_alive() for thread in self._threads)

    def freeze(self) -> None:
        """Forward nothing more, without closing anything."""
        self._open.clear()

    def thaw(self) -> None:
        """Go on where :meth:`freeze` stopped."""
        self._open.set()

    def drop(self, how: How = "rst", sides: Sides = "both") -> None:
        """Cut the connection now."""
        if how == "freeze" or sides != "both":
            self.freeze()
        if how != "freeze":
            for name, sock in (("client", self.client), ("server", self.server)):
                if sides in ("both", name):
                    _end(sock, how)
        if how != "freeze" and sides == "both":
            self._finish()
        self.cut.set()

    def close(self) -> None:
        """End the connection, however it stands, and wait for its threads."""
        self._finish()
        for sock in (self.client, self.server):
            _end(sock, "fin")
        for thread in self._threads:
            thread.join()

    def _finish(self) -> None:
        self._ended.set()
        self._open.set()

    def _pump(self, way: str, source: socket.socket, target: socket.socket, policy: Policy) -> None:
        meter = FrameMeter()
        try:
            while not self._ended.is_set() and (data := source.recv(_CHUNK)):
                for piece in meter.feed(data):
                    self.frames[way] = meter.number
                    if not self._forward(way, piece, target, policy):
                        return
            self._open.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self._open.wait()
            _end(target, "rst")
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._pumps -= 1
            if not self._pumps:
                self.client.close()
                self.server.close()

    def _forward(self, way: str, piece: Piece, target: socket.socket, policy: Policy) -> bool:
        """Let a piece through as far as the policy allows; return whether the direction goes on."""
        if piece.control and piece.start == 0:
            self.controls[way].append(piece.opcode or 0)
        if piece.opcode in policy.swallow:
            return True
        end = None if way in self._stalled else _limit(piece, policy, self.forwarded[way])
        data = piece.data if end is None else piece.data[:end]
        self._wait(policy)
        self._open.wait()
        if self._ended.is_set():
            return False
        if end is not None and policy.how == "freeze":
            self.freeze()  # before the answer to what goes through now can come back
        step = policy.segment or len(data) or 1
        for at in range(0, len(data), step):
            target.sendall(data[at : at + step])
        self.forwarded[way] += len(data)
        if end is None:
            return True
        if policy.how == "stall":
            self._stalled.add(way)
            self._stall(policy.stall)
            rest = piece._replace(data=piece.data[end:], start=piece.start + end)
            return not rest.data or self._forward(way, rest, target, policy)
        if policy.how == "rst" and target.family != socket.AF_UNIX:
            _drain(target)
        self.drop(policy.how, policy.sides)
        return False

    def _stall(self, seconds: float) -> None:
        self.freeze()
        self.cut.set()
        self._ended.wait(seconds)
        self.thaw()

    def _wait(self, policy: Policy) -> None:
        if policy.delay:
            low, high = policy.delay if isinstance(policy.delay, tuple) else (policy.delay, policy.delay)
            self._ended.wait(self._rng.uniform(low, high))


class Proxy:
    """Listens on loopback (or on the Unix socket ``path``) and forwards to ``target``.

    Args:
        target: ``ws://host:port``, ``http://host:port``, ``unix:/path`` or ``(host, port)``.
        plans: What happens to the first connections, or a function of the connection's number (from 0).
        seed: Of the random delays.
        path: Listen on a Unix socket at this path instead.

    Attributes:
        links: Every connection so far.
        refuse: While true, new connections are reset at once.
    """

    def __init__(
        self,
        target: str | tuple[str, int],
        plans: Sequence[Plan] | Callable[[int], Plan] = (),
        seed: int = 0,
        path: str | None = None,
    ) -> None:
        self._target = _address(target)
        self._plans = plans
        self._seed = seed
        self._path = path
        self.links: list[Link] = []
        self.refuse = False
        self._listener = _listen(path)
        self._thread = threading.Thread(target=self._accept, name="proxy-accept")
        self._thread.start()

    @property
    def url(self) -> str:
        """The ``base_url`` that leads through this proxy."""
        return f"unix:{self._path}" if self._path else f"ws://127.0.0.1:{self._listener.getsockname()[1]}"

    def follow(self, plans: Sequence[Plan]) -> None:
        """Take other plans, for the connections that are to come."""
        self._plans = plans

    def link(self, number: int = -1, timeout: float = 10.0) -> Link:
        """Return a connection, by default the newest; wait until there is one."""
        end = time.monotonic() + timeout
        while len(self.links) < (number + 1 if number >= 0 else 1):
            if time.monotonic() > end:
                raise TimeoutError(f"no connection {number} came within {timeout} s")
            time.sleep(0.002)
        return self.links[number]

    def freeze(self) -> None:
        """Stop forwarding on every connection."""
        self._each(Link.freeze)

    def thaw(self) -> None:
        """Forward again."""
        self._each(Link.thaw)

    def drop(self, how: How = "rst") -> None:
        """Cut every connection now."""
        self._each(lambda link: link.drop(how))

    def close(self) -> None:
        """End everything and leave no thread, socket or socket file behind."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._each(Link.close)
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _each(self, act: Callable[[Link], None]) -> None:
        for link in list(self.links):
            act(link)

    def _plan(self, number: int) -> Plan:
        if callable(self._plans):
            return self._plans(number)
        return self._plans[number] if number < len(self._plans) else PASS

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = None if self.refuse else _dial(self._target)
            if server is None:
                _end(client, "rst")
                client.close()
                continue
            _nodelay((client, server))
            number = len(self.links)
            rng = random.Random(f"{self._seed}/{number}")
            link = Link(client, server, self._plan(number), rng)
            self.links.append(link)  # whoever hears from the server finds the connection here
            link.start()


def _limit(piece: Piece, policy: Policy, before: int) -> int | None:
    """Return how many bytes of the piece come through before the cut; ``None``: no cut in this piece."""
    if policy.cut_bytes is not None and policy.cut_bytes <= before + len(piece.data):
        return max(0, policy.cut_bytes - before)
    if piece.control or policy.cut_frame is None or piece.number != policy.cut_frame:
        return None
    if piece.number == 0 and piece.opcode is None and before:
        return None
    if policy.where == "after":
        return len(piece.data) if piece.last else None
    stop = 0 if policy.where == "before" else piece.size // 2
    return max(0, stop - piece.start) if stop <= piece.start + len(piece.data) else None


def _end(sock: socket.socket, how: How) -> None:
    """Reset or close one socket; the kernel object lives on until the last thread has let go of it."""
    with contextlib.suppress(OSError):
        if how != "rst" or sock.family == socket.AF_UNIX or not _disconnect(sock):
            sock.shutdown(socket.SHUT_RDWR)


def _disconnect(sock: socket.socket) -> bool:
    """Reset a TCP connection by connecting it to nowhere.

    Unlike close() with a zero linger this acts at once, even while another thread waits on the socket.
    """
    unspecified = struct.pack("H14x", socket.AF_UNSPEC)
    return bool(ctypes.CDLL(None).connect(sock.fileno(), unspecified, len(unspecified)) == 0)


def _drain(sock: socket.socket, timeout: float = 5.0) -> None:
    """Wait until the peer's kernel has everything, as a reset throws away what is still queued here."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        queued = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
        if queued == 0:
            return
        time.sleep(0.0005)


def _nodelay(socks: Iterable[socket.socket]) -> None:
    for sock in socks:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _address(target: str | tuple[str, int]) -> str | tuple[str, int]:
    if isinstance(target, tuple):
        return target
    if target.startswith("unix:"):
        return target.removeprefix("unix:")
    parts = urlsplit(target)
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"{target!r} names no host and port")
    return parts.hostname, parts.port


def _listen(path: str | None) -> socket.socket:
    if path is None:
        return socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1024)
    return listener


def _dial(target: str | tuple[str, int]) -> socket.socket | None:
    try:
        if isinstance(target, tuple):
            return socket.create_connection(target)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(target)
        return sock
    except OSError:
        return None
