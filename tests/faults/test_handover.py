"""The hand-over of a connection loses no byte, whatever comes in which segment."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.frames import PING, PONG, Frame, frame, masked_message
from tests.support.serverproc import serving

from .raw import RawConnection, cuts, hello, upgrade
from .table import Aftermath
from .witness import TARGET

_AT_ONCE = 8
#: Sizes of an argument that lets ``hello`` outgrow every buffer on its way.
_SIZES = (0, 0, 0, 0, 120, 5_000, 70_000, 300_000)


def _together(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    connection.send(upgrade() + first + rest)
    connection.upgraded()


def _after_the_answer(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    connection.send(upgrade())
    connection.upgraded()
    connection.send(first + rest)


def _split(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    data = upgrade() + first + rest
    connection.send(data, cuts(rng, len(data), rng.randint(2, 40)))
    connection.upgraded()


def _byte_by_byte(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    head = upgrade()
    connection.send(head + first + rest, range(len(head) - 3, len(head) + 20))
    connection.upgraded()


def _one_by_one(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    for data in (upgrade(), first, rest):
        connection.send(data)
    connection.upgraded()


def _half_with_the_head(connection: RawConnection, rng: random.Random, first: bytes, rest: bytes) -> None:
    cut = rng.randint(1, len(first) - 1)
    connection.send(upgrade() + first[:cut])
    connection.upgraded()
    time.sleep(rng.choice((0.0, 0.002)))
    connection.send(first[cut:] + rest)


_WAYS: tuple[Callable[[RawConnection, random.Random, bytes, bytes], None], ...] = (
    _together,
    _after_the_answer,
    _split,
    _byte_by_byte,
    _one_by_one,
    _half_with_the_head,
)


def _receive(connection: RawConnection, count: int) -> tuple[list[Any], list[bytes]]:
    """Return so many messages and pongs, each in their order."""
    messages: list[Any] = []
    pongs: list[bytes] = []
    for _ in range(count):
        event = connection.receive()
        if isinstance(event, Frame):
            assert event.opcode == PONG
            pongs.append(event.payload)
        else:
            messages.append(event)
    return messages, pongs


def _connect(url: str, number: int) -> None:
    rng = random.Random(number)
    filler = rng.randbytes(rng.choice(_SIZES))
    pings = [rng.randbytes(rng.randint(0, 125)) for _ in range(rng.randint(0, 3))]
    rest = [frame(PING, payload, masked=True) for payload in pings]
    rest.insert(rng.randint(0, len(pings)), masked_message(encode(m.Reset(1))))
    first = hello(env_kwargs={"filler": filler} if filler else None)
    with RawConnection(url) as connection:
        _WAYS[number % len(_WAYS)](connection, rng, first, b"".join(rest))
        messages, pongs = _receive(connection, 2 + len(pings))
        assert [type(message) for message in messages] == [m.Welcome, m.Observation]
        assert pongs == pings
        expected = {"total": 0} | ({"crc": zlib.crc32(filler)} if filler else {})
        assert messages[1].infos == [expected]
        connection.send(masked_message(encode(m.Call(2, "bump"))))
        assert connection.receive().values == [1]
        connection.send(masked_message(encode(m.Close(3))))
        assert connection.receive() == m.Closed(3)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("connects", [250, pytest.param(2500, marks=pytest.mark.full, id="all")])
@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize("uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_no_byte_is_lost(uvloop: bool, unix: bool, connects: int, tmp_path: Path) -> None:
    place = ("--uds", str(tmp_path / "s.sock")) if unix else ("--port", "0")
    with serving(TARGET, *place, "--workers", "2", uvloop=uvloop, log=tmp_path / "log") as server:
        aftermath = Aftermath(server, tmp_path)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            running = [pool.submit(_connect, server.url, number) for number in range(connects)]
            for future in running:
                future.result()
        aftermath.check([])
        assert server.log() == ""
