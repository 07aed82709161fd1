"""A small server on a real socket that does what a script says: cut here, say nothing there."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from websockets.server import ServerProtocol

from openenv_gym.errors import SessionLostError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.session import Session, Side
from openenv_gym.protocol.states import Phase
from openenv_gym.transport.channel import Channel

#: Where a script can cut a connection, in the order of an exchange.
POINTS = ("accepted", "upgraded", "opener", "answered", "request", "executed", "half", "replied")


class Cut(Exception):
    """The script cuts the connection."""


class Life:
    """What the server knows of one session."""

    def __init__(self, hello: m.Hello) -> None:
        self.hello = hello
        self.wire = Session(Side.SERVER)
        self.wire.receive(encode(hello))
        self.welcomed = False
        self.kept: Any = None
        self.steps = 0
        self.closed = False


class ScriptedServer:
    """Speaks the protocol, one connection at a time.

    Args:
        script: Points at which to cut, in order; each is used once. ``"kill"`` forgets all sessions as well.
        welcome: Fields of ``welcome``.
        greeting: More headers of the handshake's response.
        answer: Makes the reply to a request; the default counts steps.

    Attributes:
        executed: How often each request was executed, by session and id.
        seen: The kinds of messages received.
    """

    def __init__(
        self,
        script: Iterable[str] = (),
        *,
        welcome: dict[str, Any] | None = None,
        answer: Callable[[Any, Life], Any] | None = None,
        subprotocol: str = m.SUBPROTOCOL,
        greeting: dict[str, str] | None = None,
    ) -> None:
        self.script = deque(script)
        self.sessions: dict[str, Life] = {}
        self.executed: dict[tuple[str, int], int] = {}
        self.seen: list[str] = []
        self.paths: list[str] = []
        self.headers: list[Any] = []
        self.hold = threading.Event()
        self.hold.set()
        self._welcome = welcome or {}
        self._answer = answer or count_steps
        self._subprotocol = subprotocol
        self._headers = greeting or {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="scripted", daemon=True)
        self._stopping = False
        self._current: socket.socket | None = None

    @property
    def base_url(self) -> str:
        return f"ws://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self.hold.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_now()
        self._thread.join(10)

    def cut_now(self) -> None:
        """End the connection that is open now."""
        if self._current is not None:
            with contextlib.suppress(OSError):
                self._current.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while not self._stopping:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._current = sock
            with contextlib.suppress(Cut, OSError, Exception) if self._stopping else contextlib.suppress(Cut):
                self._connection(sock)
            sock.close()

    def _point(self, name: str) -> None:
        if self.script and self.script[0] == name:
            self.script.popleft()
            if self.script and self.script[0] == "kill":
                self.script.popleft()
                self.sessions.clear()
            raise Cut

    def _connection(self, sock: socket.socket) -> None:
        self._point("accepted")
        channel = self._handshake(sock)
        self._point("upgraded")
        try:
            life = self._open(channel)
            while life is not None and not life.closed:
                self._exchange(channel, life, sock)
        except Exception as exc:
            if type(exc).__name__ != "ChannelClosed":
                raise

    def _handshake(self, sock: socket.socket) -> Channel:
        protocol = ServerProtocol(subprotocols=[self._subprotocol])  # type: ignore[list-item]
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(4096)
            if not data:
                raise Cut
            head += data
        end = head.index(b"\r\n\r\n") + 4
        protocol.receive_data(head[:end])
        (request,) = protocol.events_received()
        self.paths.append(request.path)  # type: ignore[union-attr]
        self.headers.append(request.headers)  # type: ignore[union-attr]
        response = protocol.accept(request)  # type: ignore[arg-type]
        response.headers.update(self._headers)
        protocol.send_response(response)
        sock.sendall(b"".join(protocol.data_to_send()))
        return Channel(sock, client=False, initial=head[end:])

    def _open(self, channel: Channel) -> Life | None:
        frame = bytes(channel.recv())
        opener = Session(Side.SERVER).receive(frame)
        self.seen.append(type(opener).__struct_config__.tag)
        self._point("opener")
        if isinstance(opener, m.Hello):
            life = self.sessions[opener.session] = Life(opener)
            reply: Any = self._greeting(life)
        else:
            life = self.sessions.get(opener.session)  # type: ignore[assignment]
            if life is None or life.hello.token != opener.token:
                lost = SessionLostError("the server does not know this session")
                channel.send(encode(m.Error(lost.code, lost.message)))
                return None
            life.wire.phase = Phase.RESUMING
            last = 0 if life.kept is None else life.kept.id
            reply = (
                self._greeting(life) if life.kept is None else m.Resumed(session=opener.session, last=last)
            )
        data = life.wire.send(reply)
        self._point("answered")
        channel.send(data)
        return life

    def _greeting(self, life: Life) -> m.Welcome:
        hello = life.hello
        return m.Welcome(session=hello.session, token=hello.token, **self._welcome)

    def _exchange(self, channel: Channel, life: Life, sock: socket.socket) -> None:
        request = life.wire.receive(bytes(channel.recv()))
        self.seen.append(type(request).__struct_config__.tag)
        self._point("request")
        if life.kept is None or life.kept.id != request.id:
            key = (life.hello.session, request.id)
            self.executed[key] = self.executed.get(key, 0) + 1
            self.hold.wait(10)
            life.kept = self._answer(request, life)
        self._point("executed")
        data = life.wire.send(life.kept)
        self._half(sock, data)
        channel.send(data)
        life.closed = isinstance(request, m.Close)
        self._point("replied")

    def _half(self, sock: socket.socket, data: bytes) -> None:
        if self.script and self.script[0] == "half":
            frame = (
                bytes([0x82, len(data)]) if len(data) < 126 else b"\x82\x7e" + struct.pack(">H", len(data))
            )
            sock.sendall((frame + data)[: (len(data) + 4) // 2])
            self._point("half")


def count_steps(request: Any, life: Life) -> Any:
    """Answer with the number of steps so far as the reward."""
    match request:
        case m.Step():
            life.steps += 1
            return m.Transition(request.id, None, struct.pack("<d", life.steps), b"\0")
        case m.Reset():
            life.steps = 0
            return m.Observation(request.id)
        case m.Close():
            return m.Closed(request.id)
        case m.Render():
            return m.Frames(request.id, ["frame"])
        case _:
            return m.Value(request.id, [None])


@contextlib.contextmanager
def interrupt_when(
    condition: Callable[[], bool], handler: Callable[[int, Any], Any] = signal.default_int_handler
) -> Iterator[None]:
    """Have this thread call ``handler``, which by default raises KeyboardInterrupt, in the midst of its work.

    It does so once ``condition`` holds and it has had time to wait again.
    """
    me = threading.get_ident()

    def watch() -> None:
        while not condition():
            time.sleep(0.001)
        time.sleep(0.2)
        signal.pthread_kill(me, signal.SIGINT)

    previous = signal.signal(signal.SIGINT, handler)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal.signal(signal.SIGINT, previous)
