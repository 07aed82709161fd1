"""The faulty network does what its plan says, to the byte."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.proxy import Link, Plan, Policy, Proxy, random_plan
from tests.support.wsmeter import PING, PONG, FrameMeter

HELLO = b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
ANSWER = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


def masked(payload: bytes, opcode: int = 2) -> bytes:
    return bytes([0x80 | opcode, 0x80 | len(payload)]) + b"\0\0\0\0" + payload


def plain(payload: bytes, opcode: int = 2) -> bytes:
    if len(payload) < 126:
        return bytes([0x80 | opcode, len(payload)]) + payload
    return bytes([0x80 | opcode, 126]) + len(payload).to_bytes(2, "big") + payload


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def everything(sock: socket.socket) -> tuple[bytes, str]:
    """Return what arrives until the end, and how it ends."""
    data = b""
    try:
        while part := sock.recv(65536):
            data += part
    except ConnectionResetError:
        return data, "rst"
    except TimeoutError:
        return data, "silence"
    return data, "fin"


class Server:
    """Answers each handshake with ``ANSWER`` and then with the frames it is given; collects what it gets."""

    def __init__(self, frames: bytes, path: str | None = None) -> None:
        self.frames = frames
        self.got: list[tuple[bytes, str]] = []
        if path:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.bind(path)
            self.sock.listen()
        else:
            self.sock = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @property
    def target(self) -> tuple[str, int]:
        host, port = self.sock.getsockname()[:2]
        return host, port

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.sock.accept()
                with peer:
                    self.serve(peer)

    def serve(self, peer: socket.socket) -> None:
        head = b""
        with contextlib.suppress(OSError):
            head = exactly(peer, len(HELLO))
            peer.sendall(ANSWER + self.frames)
        rest, end = everything(peer)
        self.got.append((head + rest, end))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join()


FRAMES = [plain(b"first"), plain(b"pinged", PING), plain(b"x" * 300), plain(b"third")]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(b"".join(FRAMES))
    yield made
    made.close()


def dial(proxy: Proxy) -> socket.socket:
    host, port = proxy.url.removeprefix("ws://").split(":")
    return socket.create_connection((host, int(port)), timeout=20.0)


def attempt(proxy: Proxy) -> tuple[bytes, str]:
    try:
        sock = dial(proxy)
    except ConnectionResetError:
        return b"", "rst"
    with sock:
        return everything(sock)


def talk(server: Server, plan: Plan) -> tuple[bytes, str]:
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO)
        if plan == Plan():
            sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def test_passes_everything(server: Server) -> None:
    with Proxy(server.target) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO + masked(b"a") + masked(b"", PONG) + masked(b"b"))
        sock.shutdown(socket.SHUT_WR)
        assert everything(sock) == (ANSWER + b"".join(FRAMES), "fin")
        link = proxy.link()
    assert server.got == [(HELLO + masked(b"a") + masked(b"", PONG) + masked(b"b"), "fin")]
    assert link.frames == {"up": 2, "down": 3}
    assert link.controls == {"up": [PONG], "down": [PING]}
    assert link.forwarded["down"] == len(ANSWER + b"".join(FRAMES))
    assert not link.alive


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("size", [0, 1, len(ANSWER), len(ANSWER) + 3, len(ANSWER + FRAMES[0])])
def test_cuts_after_exactly_so_many_bytes(server: Server, size: int, how: str) -> None:
    policy = Policy(cut_bytes=size, how=how)  # type: ignore[arg-type]
    data, end = talk(server, Plan(down=policy))
    assert data == (ANSWER + b"".join(FRAMES))[:size]
    assert end == how


@pytest.mark.parametrize(
    ("number", "where", "expected"),
    [
        (0, "before", b""),
        (0, "middle", ANSWER[: len(ANSWER) // 2]),
        (0, "after", ANSWER),
        (1, "before", ANSWER),
        (1, "middle", ANSWER + FRAMES[0][: len(FRAMES[0]) // 2]),
        (1, "after", ANSWER + FRAMES[0]),
        (2, "before", ANSWER + FRAMES[0] + FRAMES[1]),
        (2, "middle", ANSWER + FRAMES[0] + FRAMES[1] + FRAMES[2][: len(FRAMES[2]) // 2]),
        (3, "after", ANSWER + b"".join(FRAMES)),
    ],
)
@pytest.mark.parametrize("segment", [0, 2])
def test_cuts_at_a_frame(server: Server, number: int, where: str, expected: bytes, segment: int) -> None:
    policy = Policy(cut_frame=number, where=where, segment=segment)  # type: ignore[arg-type]
    assert talk(server, Plan(down=policy)) == (expected, "rst")


def test_cuts_what_the_client_sends(server: Server) -> None:
    plan = Plan(up=Policy(cut_frame=2, where="middle", how="fin"))
    frame = masked(b"second")
    answer = ANSWER + b"".join(FRAMES)
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO)
        assert exactly(sock, len(answer)) == answer  # said after the cut, it would reset the connection
        sock.sendall(masked(b"first") + frame)
        assert everything(sock) == (b"", "fin")
    server.close()
    assert server.got == [(HELLO + masked(b"first") + frame[: len(frame) // 2], "fin")]


def test_freeze_closes_nothing(server: Server) -> None:
    plan = Plan(down=Policy(cut_frame=1, where="after", how="freeze"))
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO)
        assert exactly(sock, len(ANSWER + FRAMES[0])) == ANSWER + FRAMES[0]
        assert proxy.link().cut.wait(20)
        sock.settimeout(0.1)
        assert everything(sock) == (b"", "silence")


def test_freeze_lets_no_answer_to_its_last_frame_through(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = Link.drop

    def late(link: Link, *args: Any) -> None:
        time.sleep(0.2)  # long enough for an answer to come through
        drop(link, *args)

    monkeypatch.setattr(Link, "drop", late)
    plan = Plan(up=Policy(cut_frame=0, where="after", how="freeze"))
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO)
        assert proxy.link().cut.wait(20)
        sock.settimeout(0.1)
        assert everything(sock) == (b"", "silence")
    server.close()
    assert [data for data, _ in server.got] == [HELLO]


@pytest.mark.parametrize("where", ["before", "middle", "after"])
@pytest.mark.parametrize("frame", [0, 2])
def test_after_a_stall_everything_comes_through(server: Server, frame: int, where: str) -> None:
    policy = Policy(cut_frame=frame, where=where, how="stall", stall=0.05)  # type: ignore[arg-type]
    sent = HELLO + b"".join(masked(bytes([n])) for n in range(3))
    with Proxy(server.target, [Plan(up=policy)]) as proxy, dial(proxy) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        assert everything(sock) == (ANSWER + b"".join(FRAMES), "fin")
        assert proxy.link().cut.is_set()
    server.close()
    assert server.got == [(sent, "fin")]


def test_plans_can_change(server: Server) -> None:
    with Proxy(server.target) as proxy:
        proxy.follow([Plan(down=Policy(cut_bytes=3))])
        with dial(proxy) as sock:
            sock.sendall(HELLO)
            assert everything(sock) == (ANSWER[:3], "rst")


def test_one_side_only_notices(server: Server) -> None:
    plan = Plan(down=Policy(cut_frame=1, sides="client"))
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO)
        assert everything(sock) == (ANSWER + FRAMES[0], "rst")
        assert proxy.link().cut.wait(20)
        assert server.got == []
    server.close()
    assert [data for data, _ in server.got] == [HELLO]


def test_swallows_control_frames(server: Server) -> None:
    plan = Plan(up=Policy(swallow=frozenset({PONG})), down=Policy(swallow=frozenset({PING})))
    with Proxy(server.target, [plan]) as proxy, dial(proxy) as sock:
        sock.sendall(HELLO + masked(b"", PONG) + masked(b"a"))
        sock.shutdown(socket.SHUT_WR)
        assert everything(sock)[0] == ANSWER + FRAMES[0] + FRAMES[2] + FRAMES[3]
        assert proxy.link().controls == {"up": [PONG], "down": [PING]}
    assert server.got[0][0] == HELLO + masked(b"a")


def test_freeze_and_thaw_by_hand(server: Server) -> None:
    with (
        Proxy(server.target, lambda number: Plan(down=Policy(delay=(0.0, 0.001)))) as proxy,
        dial(proxy) as sock,
    ):
        proxy.link().freeze()
        sock.sendall(HELLO)
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        proxy.thaw()
        sock.settimeout(20)
        assert exactly(sock, len(ANSWER)) == ANSWER
        proxy.drop("rst")
        assert everything(sock)[1] == "rst"


def test_only_planned_connections_fail(server: Server) -> None:
    with Proxy(server.target, [Plan(down=Policy(cut_bytes=0))]) as proxy:
        for expected in (b"", ANSWER):
            with dial(proxy) as sock:
                sock.sendall(HELLO)
                with contextlib.suppress(ConnectionResetError):
                    assert exactly(sock, len(ANSWER)) == expected
        assert proxy.links[0].cut.wait(20)
        assert not proxy.links[1].cut.is_set()


def test_refuses(server: Server) -> None:
    with Proxy(server.target) as proxy:
        proxy.refuse = True
        assert attempt(proxy) == (b"", "rst")
        assert proxy.links == []


def test_refuses_when_the_target_is_gone(server: Server) -> None:
    target = server.target
    server.close()
    with Proxy(target) as proxy:
        assert attempt(proxy) == (b"", "rst")


def test_unix_sockets_on_both_ends(tmp_path: Path) -> None:
    server = Server(FRAMES[0], str(tmp_path / "server"))
    with Proxy(f"unix:{tmp_path / 'server'}", path=str(tmp_path / "proxy")) as proxy:
        assert proxy.url == f"unix:{tmp_path / 'proxy'}"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(tmp_path / "proxy"))
            sock.sendall(HELLO)
            assert exactly(sock, len(ANSWER + FRAMES[0])) == ANSWER + FRAMES[0]
            proxy.drop("rst")
            assert everything(sock)[0] == b""
    server.close()
    assert not (tmp_path / "proxy").exists()


def test_other_http_passes() -> None:
    meter = FrameMeter()
    data = b"HTTP/1.1 503 Service Unavailable\r\n\r\nbody"
    assert b"".join(piece.data for piece in meter.feed(data)) == data
    assert [piece.data for piece in meter.feed(b"more")] == [b"more"]
    assert meter.number == 0


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_meter_is_the_same_however_the_bytes_come(step: int) -> None:
    stream = ANSWER + b"".join(FRAMES) + plain(b"y" * 200)
    meter = FrameMeter()
    pieces = [p for at in range(0, len(stream), step) for p in meter.feed(stream[at : at + step])]
    assert b"".join(piece.data for piece in pieces) == stream
    ends = [(piece.number, piece.opcode, piece.size) for piece in pieces if piece.last]
    sizes = [len(frame) for frame in FRAMES]
    assert ends == [
        (0, None, len(ANSWER)),
        (1, 2, sizes[0]),
        (1, PING, sizes[1]),
        (2, 2, sizes[2]),
        (3, 2, sizes[3]),
        (4, 2, 204),
    ]


def test_random_plans_repeat() -> None:
    plans = [random_plan(random.Random(seed), 5) for seed in range(50)]
    assert plans == [random_plan(random.Random(seed), 5) for seed in range(50)]
    policies = [plan.up if plan.up != Policy() else plan.down for plan in plans]
    assert {policy.how for policy in policies} == {"rst", "fin", "freeze"}
    assert {policy.cut_frame for policy in policies} == set(range(6))
