"""A connection's first message is read to its last byte and no further, and says which session it is for."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from openenv_gym.errors import CapacityError, DeadlineExceededError, OpenEnvError
from openenv_gym.protocol import frames
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_request, encode
from openenv_gym.protocol.deflate import deflate
from openenv_gym.servers import arrivals as module
from openenv_gym.servers.arrivals import Arrivals, offers_ours, refusal
from openenv_gym.servers.board import Board
from openenv_gym.servers.pool import Arrival
from openenv_gym.servers.records import Record, Records
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.workers import Worker

from .wire import LOOPS, SESSION, TOKEN, heard, hello, message, read_all, run

_ANSWER = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
_CLOSE = (frames.CLOSE, (1013).to_bytes(2, "big") + b"refused")
_NEXT = message(m.Reset(1))


class _Pool:
    """Takes connections and notes what came with them."""

    def __init__(self, refusal: OpenEnvError | None = None) -> None:
        self.records = Records()
        self.refusal = refusal
        self.admitted: list[tuple[m.Hello, bytes, Arrival]] = []
        self.attached: list[tuple[Record, Arrival]] = []
        self.taken: list[socket.socket] = []

    async def admit(self, hello: m.Hello, raw: bytes, arrival: Arrival) -> None:
        if self.refusal is not None:
            raise self.refusal
        whole = decode_request(raw)
        assert isinstance(whole, m.Hello)
        assert (hello.session, hello.token) == (whole.session, whole.token)
        self.admitted.append((whole, raw, arrival))
        self._take(arrival)

    def attach(self, record: Record, arrival: Arrival) -> None:
        self.attached.append((record, arrival))
        self._take(arrival)

    def _take(self, arrival: Arrival) -> None:
        sock = socket.socket(fileno=arrival.sock.detach())
        sock.setblocking(False)
        self.taken.append(sock)

    def add(self, **fields: Any) -> Record:
        record = Record(SESSION, TOKEN, Worker(0, Board(1), 1), 0, hello(), **fields)
        self.records.living[SESSION] = record
        return record


class _Scene:
    """A connection that arrived, and its client's end."""

    def __init__(self, pool: _Pool | None = None, *, unread: bytes = b"", deflated: bool = False) -> None:
        self.pool = pool or _Pool()
        self.client, theirs = socket.socketpair()
        for sock in (self.client, theirs):
            sock.setblocking(False)
        self.arrival = Arrival(theirs, unread, deflated)
        self.arrivals = Arrivals(self.pool, ServerSettings())  # type: ignore[arg-type]
        self.arrivals.welcome(self.arrival, _ANSWER)

    async def taken(self) -> bytes:
        """Wait until the pool has the connection; return what the worker would read first."""
        while not self.pool.taken:
            await asyncio.sleep(0)
        self.client.shutdown(socket.SHUT_WR)
        return self.arrival.unread + await read_all(self.pool.taken[0])

    async def replies(self) -> list[Any]:
        """Return what the client hears until the end."""
        data = await read_all(self.client)
        assert data.startswith(_ANSWER)
        return heard(data.removeprefix(_ANSWER))

    def close(self) -> None:
        for sock in (self.client, *self.pool.taken):
            sock.close()


@LOOPS
@pytest.mark.parametrize("beyond", [b"", _NEXT, _NEXT * 3], ids=["alone", "one more", "three more"])
def test_the_first_message_may_come_in_any_two_pieces(new_loop: Any, beyond: bytes) -> None:
    first = hello(env_kwargs={"text": "x" * 200})
    stream = message(first) + beyond

    async def story() -> None:
        for cut in range(len(stream) + 1):
            scene = _Scene(unread=stream[:cut])
            await asyncio.sleep(0)
            scene.client.send(stream[cut:])
            assert await scene.taken() == beyond
            [(admitted, raw, _)] = scene.pool.admitted
            assert (admitted, raw) == (first, encode(first))
            scene.close()

    run(story, new_loop)


@LOOPS
def test_the_first_message_may_come_byte_by_byte(new_loop: Any) -> None:
    stream = message(hello()) + _NEXT

    async def story() -> None:
        scene = _Scene()
        for at in range(len(stream)):
            scene.client.send(stream[at : at + 1])
            await asyncio.sleep(0)
        assert await scene.taken() == _NEXT
        scene.close()

    run(story, new_loop)


@pytest.mark.parametrize("size", [100, 125, 126, 127, 65535, 65536, 70000, 1 << 20])
def test_first_messages_of_every_length(size: int) -> None:
    padding = size
    while len(encode(first := hello(client="x" * padding))) > size:
        padding -= 1
    assert len(encode(first)) == size

    async def story() -> None:
        scene = _Scene()
        await asyncio.get_running_loop().sock_sendall(scene.client, message(first) + _NEXT)
        assert await scene.taken() == _NEXT
        assert scene.pool.admitted[0][0] == first
        scene.close()

    run(story)


def test_a_compressed_first_message() -> None:
    packed = deflate(encode(hello()))
    frame = bytes(frames.header(0xC2, len(packed), True)) + bytes(4) + packed

    async def story() -> None:
        scene = _Scene(deflated=True)
        scene.client.send(frame + _NEXT)
        assert await scene.taken() == _NEXT
        [(admitted, raw, arrival)] = scene.pool.admitted
        assert (admitted, raw, arrival.deflate) == (hello(), encode(hello()), True)
        scene.close()

    run(story)


def _refused(frame: bytes, *, deflated: bool = False, pool: _Pool | None = None) -> m.Error:
    """Return why the connection with this first frame is refused; there must be no other answer."""
    found: list[m.Error] = []

    async def story() -> None:
        scene = _Scene(pool, deflated=deflated)
        scene.client.send(frame)
        scene.client.shutdown(socket.SHUT_WR)
        error, close = await scene.replies()
        assert (error.alive, close) == (False, _CLOSE)
        assert scene.pool.taken == []
        found.append(error)
        scene.close()

    run(story)
    return found[0]


_PLAIN = encode(hello())


@pytest.mark.parametrize(
    ("frame", "deflated"),
    [
        pytest.param(bytes(frames.plain_message(_PLAIN)), False, id="unmasked"),
        pytest.param(b"\x81" + message(hello())[1:], False, id="text"),
        pytest.param(b"\x02" + message(hello())[1:], False, id="a part"),
        pytest.param(b"\x80" + message(hello())[1:], False, id="continued"),
        pytest.param(b"\x89\x80\0\0\0\0", False, id="a ping"),
        pytest.param(b"\xc2" + message(hello())[1:], False, id="compressed, not agreed on"),
        pytest.param(b"\xa2" + message(hello())[1:], True, id="another reserved bit"),
        pytest.param(b"\xc2\x84" + bytes(4) + b"\xff\xff\xff\xff", True, id="wrongly compressed"),
        pytest.param(b"\x82\x81\0\0\0\0\xc1", False, id="no message"),
        pytest.param(message(m.Reset(1)), False, id="no hello"),
        pytest.param(message(m.Close(1)), False, id="a close"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", False, id="no frame"),
    ],
)
def test_what_is_no_first_message_is_refused(frame: bytes, deflated: bool) -> None:
    assert _refused(frame, deflated=deflated).code == "protocol"


@pytest.mark.parametrize("length", [(1 << 20) + 1, 1 << 40, (1 << 64) - 1])
def test_a_length_over_the_limit_is_refused_before_anything_is_kept(length: int) -> None:
    error = _refused(b"\x82\xff" + length.to_bytes(8, "big"))
    assert error.code == "message_too_large"
    assert (error.details["size"], error.details["limit"]) == (length, 1 << 20)


def test_a_compressed_message_may_not_grow_over_the_limit() -> None:
    packed = deflate(bytes(2 << 20))
    frame = bytes(frames.header(0xC2, len(packed), True)) + bytes(4) + packed
    assert _refused(frame, deflated=True).code == "message_too_large"


def test_what_the_pool_refuses_is_told() -> None:
    pool = _Pool(CapacityError("full; wait", active=2, max=2))
    error = _refused(message(hello()), pool=pool)
    assert (error.code, error.message, error.details) == ("capacity", "full; wait", {"active": 2, "max": 2})


@LOOPS
def test_the_words_of_a_refusal_arrive_although_the_client_has_sent_more(new_loop: Any) -> None:
    async def story() -> None:
        scene = _Scene(_Pool(CapacityError("full")))
        scene.client.send(message(hello()) + bytes(10_000))
        error, close = await scene.replies()
        assert (error.code, close) == ("capacity", _CLOSE)
        scene.close()

    run(story, new_loop)


@pytest.mark.parametrize("said", [b"", b"\x82", message(hello())[:-1]], ids=["none", "some", "most"])
def test_a_client_that_does_not_say_what_it_wants_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)

    async def story() -> None:
        scene = _Scene()
        scene.client.send(said)
        error, close = await scene.replies()
        assert (error.code, close) == ("timeout", _CLOSE)
        assert "0.02 s" in error.message
        scene.close()

    run(story)


@pytest.mark.parametrize("said", [b"", b"\x82", message(hello())[:-1]], ids=["none", "some", "most"])
def test_a_client_that_leaves_is_let_go_without_a_word(said: bytes) -> None:
    async def story() -> None:
        scene = _Scene()
        scene.client.send(said)
        scene.client.shutdown(socket.SHUT_WR)
        assert await scene.replies() == []
        assert scene.pool.admitted == []
        scene.close()

    run(story)


def test_a_client_that_is_gone_already_is_no_failure() -> None:
    async def story() -> None:
        scene = _Scene()
        scene.client.close()
        while scene.arrival.sock.fileno() >= 0:
            await asyncio.sleep(0)

    run(story)


def test_a_session_is_resumed_after_a_sign_of_life() -> None:
    async def story() -> None:
        pool = _Pool()
        record = pool.add()
        scene = _Scene(pool)
        scene.client.send(message(m.Resume(session=SESSION, token=TOKEN)) + _NEXT)
        assert await scene.taken() == _NEXT
        assert pool.attached == [(record, scene.arrival)]
        pool.taken[0].close()
        assert await scene.replies() == [(frames.PONG, b"")]
        scene.close()

    run(story)


def test_an_unknown_session_is_lost() -> None:
    error = _refused(message(m.Resume(session=SESSION, token=TOKEN)))
    assert (error.code, "does not know" in error.message) == ("session_lost", True)


@pytest.mark.parametrize("ended", [False, True])
def test_a_session_is_resumed_with_its_token_alone(ended: bool) -> None:
    pool = _Pool()
    pool.add()
    if ended:
        pool.records.end(SESSION, None)
    error = _refused(message(m.Resume(session=SESSION, token=b"x" * 16)), pool=pool)
    assert error.code == "authentication"


@pytest.mark.parametrize("ended", [False, True])
def test_who_resumes_a_session_that_is_over_hears_how_it_ended(ended: bool) -> None:
    pool = _Pool()
    pool.add(ending=DeadlineExceededError("too long", operation="step", deadline=2.0))
    if ended:
        pool.records.end(SESSION, None)
    error = _refused(message(m.Resume(session=SESSION, token=TOKEN)), pool=pool)
    assert (error.code, error.message) == ("deadline_exceeded", "too long")
    assert error.details == {"operation": "step", "deadline": 2.0}


@pytest.mark.parametrize(
    ("offered", "ours"),
    [
        ((m.SUBPROTOCOL,), True),
        (("json", m.SUBPROTOCOL), True),
        ((f"json, {m.SUBPROTOCOL}",), True),
        ((f"{m.SUBPROTOCOL},json",), True),
        ((), False),
        (("json", f"{m.SUBPROTOCOL}2"), False),
    ],
)
def test_our_subprotocol_is_found_among_others_however_they_are_listed(
    offered: tuple[str, ...], ours: bool
) -> None:
    assert offers_ours({"subprotocols": list(offered)}) is ours


def test_the_refusal_of_a_handshake_is_a_whole_http_answer() -> None:
    head, _, body = refusal(CapacityError("full", active=1)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == b'{"code": "capacity", "message": "full", "details": {"active": 1}}'
