"""A worker that dies while it writes, or answers pings while it works, leaves no stream that misleads."""

from __future__ import annotations

import os
import random
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import take_settings
from openenv_gym.client.sync import Connection
from openenv_gym.errors import WorkerCrashedError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.frames import PING, PONG, Frame, frame, masked_message
from tests.support.proxy import How, Plan, Policy, Proxy
from tests.support.serverproc import ServerProcess, eventually, serving

from .raw import RawConnection, hello, upgrade
from .table import Aftermath
from .witness import TARGET

_SIZES = (300, 70_000, 8 << 20)
_LARGER_THAN_ANY_BUFFER = 64 << 20
_HOWS: tuple[How, ...] = ("rst", "fin")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    options = {"unix": ("--uds", str(tmp_path / "s.sock")), "pumped": ("--handover", "off"), "tcp": ()}
    more = ("--sessions-per-worker", "1", "--resume-grace", "1", *options[request.param])
    with serving(TARGET, *more, log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        yield server
        aftermath.check([], killed=True)


_HANDED_OVER = pytest.mark.parametrize("server", ["tcp", "unix"], indirect=True)
_EVERYWHERE = pytest.mark.parametrize("server", ["tcp", "unix", "pumped"], indirect=True)


def _open(url: str, path: Path) -> Connection:
    return Opener(take_settings({"base_url": url, "path": str(path)}), None).open(patient=False)


def _kill(path: Path) -> None:
    file = Path(f"{path}.pid")
    assert eventually(lambda: file.exists() and file.read_text() != "")
    os.kill(int(file.read_text()), signal.SIGKILL)


def _check(values: list[Any], size: int) -> None:
    data, checksum = values
    assert len(data) == size
    assert zlib.crc32(data) == checksum


@_EVERYWHERE
@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.full, id="all")])
def test_a_worker_dies_in_the_middle_of_a_frame(server: ServerProcess, kills: int, tmp_path: Path) -> None:
    for number in range(kills):
        size, how, path = _SIZES[number % 3], _HOWS[number // 3 % 2], tmp_path / f"count{number}"
        held = Plan(down=Policy(cut_frame=2, where="middle", how="freeze"))
        with Proxy(server.url, [held]) as proxy:
            connection = _open(proxy.url, path)

            def die(proxy: Proxy = proxy, path: Path = path, how: How = how) -> None:
                proxy.link(0).cut.wait(20.0)
                _kill(path)
                proxy.link(0).drop(how)

            killer = threading.Thread(target=die)
            killer.start()
            with pytest.raises(WorkerCrashedError, match="SIGKILL"):
                connection.request(m.Call, "blob", [size], {})
            killer.join()
            assert connection.over


@_EVERYWHERE
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.full, id="all")])
def test_a_worker_dies_at_any_time(server: ServerProcess, kills: int, tmp_path: Path) -> None:
    rng = random.Random(7)
    for number in range(kills):
        size, path = _SIZES[number % 3], tmp_path / f"count{number}"
        connection = _open(server.url, path)
        killer = threading.Timer(rng.uniform(0.0, 0.02), _kill, [path])
        killer.start()
        try:
            while True:  # until it is killed
                _check(connection.request(m.Call, "blob", [size], {}).values[0], size)
        except WorkerCrashedError as exc:
            assert exc.details["signal"] == "SIGKILL"
        killer.join()
        assert connection.over


def _session(url: str, path: Path) -> RawConnection:
    """Return a connection that takes little at a time, with an open session."""
    connection = RawConnection(url, receive_buffer=4096)
    connection.send(upgrade() + hello(env_kwargs={"path": str(path)}))
    connection.upgraded()
    assert isinstance(connection.receive(), m.Welcome)
    return connection


def _flood(connection: RawConnection, pings: list[bytes]) -> None:
    for payload in pings:
        connection.send(frame(PING, payload, masked=True))


@_HANDED_OVER
@pytest.mark.parametrize("work", [0.0, 2.5], ids=["while it writes", "while it works"])
def test_pings_are_answered_between_frames(server: ServerProcess, work: float, tmp_path: Path) -> None:
    rng = random.Random(3)
    pings = [rng.randbytes(rng.randint(0, 125)) for _ in range(3000)]
    with _session(server.url, tmp_path / "count") as connection:
        connection.send(masked_message(encode(m.Call(1, "blob", [8 << 20, work]))))
        sender = threading.Thread(target=_flood, args=(connection, pings))
        sender.start()
        pongs, (reply,) = _read(connection)
        sender.join()
        connection.send(masked_message(encode(m.Call(2, "bump"))))
        more, (answer,) = _read(connection)
        _check(reply.values[0], 8 << 20)
        assert answer.values == [2]
        left = iter(pings)  # a pong that the client did not take in time may be missing
        assert all(payload in left for payload in pongs + more), "a pong answers no ping, or comes late"


def _read(connection: RawConnection) -> tuple[list[bytes], list[Any]]:
    """Return the pongs up to the next message, and that."""
    pongs = []
    while isinstance(event := connection.receive(), Frame):
        assert event.opcode == PONG
        pongs.append(event.payload)
    return pongs, [event]


def _past_pongs(stream: bytes) -> bytes:
    """Return what follows the pongs that come first when the worker took long to make its reply."""
    while stream.startswith(b"\x8a"):
        stream = stream[2 + int.from_bytes(stream[1:2], "big") :]
    return stream


@_HANDED_OVER
def test_a_stream_that_ends_in_a_frame_holds_nothing_else(server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "count"
    with _session(server.url, path) as connection:
        connection.send(masked_message(encode(m.Call(1, "blob", [_LARGER_THAN_ANY_BUFFER]))))
        _flood(connection, [b"%d" % number for number in range(50)])
        stream = b""
        while not _past_pongs(stream):
            stream += connection.sock.recv(1000)
        _kill(path)
        with suppress(ConnectionResetError):
            while part := connection.sock.recv(1 << 20):
                stream += part
    data = _past_pongs(stream)
    assert data[:2] == b"\x82\x7f"
    assert 2 < len(data) < _LARGER_THAN_ANY_BUFFER
