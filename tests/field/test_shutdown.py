"""A server that is told to stop lets its sessions finish, within bounds, and tells every client."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.frames import CLOSE, Frame, masked_message, parse_close
from tests.faults.raw import RawConnection, hello, upgrade
from tests.faults.witness import TARGET
from tests.support.faultenvs import notes
from tests.support.serverproc import ServerProcess, eventually, serving

_SESSIONS = 8


def _open(server: ServerProcess, path: Path) -> RawConnection:
    connection = RawConnection(server.url)
    connection.send(upgrade())
    connection.upgraded()
    connection.send(hello(env_kwargs={"path": str(path)}))
    assert isinstance(connection.receive(), m.Welcome)
    return connection


def _end(connection: RawConnection) -> tuple[list[object], int]:
    """Return the messages up to the end of the connection, and the code it was closed with."""
    messages: list[object] = []
    while not isinstance(event := connection.receive(), Frame) or event.opcode != CLOSE:
        messages.append(event)
    return messages, parse_close(event.payload)[0]


@pytest.mark.parametrize(
    ("workers", "handover"),
    [("2", "on"), ("1", "off"), *(pytest.param("0", way, marks=pytest.mark.full) for way in ("on", "off"))],
)
@pytest.mark.parametrize(("work", "patience", "finishes"), [(1.0, "20", True), (600.0, "4", False)])
def test_f058_sigterm_with_eight_sessions_one_in_a_long_step(
    work: float, patience: str, finishes: bool, workers: str, handover: str, tmp_path: Path
) -> None:
    path = tmp_path / "count"
    options = ("--workers", workers, "--handover", handover, "--drain-timeout", patience)
    with serving(TARGET, *options, log=tmp_path / "log") as server:
        connections = [_open(server, path) for _ in range(_SESSIONS)]
        connections[0].send(masked_message(encode(m.Call(1, "blob", [10, work]))))
        assert eventually(lambda: "m" in notes(path))
        server.signal(signal.SIGTERM)
        with ThreadPoolExecutor(_SESSIONS) as pool:
            ends = list(pool.map(_end, connections))
        assert server.wait() == 0
        for connection in connections:
            connection.close()
    assert [code for _, code in ends] == [1001] * _SESSIONS
    for messages, _ in ends:
        assert isinstance(messages[-1], m.Error)
        assert (messages[-1].code, messages[-1].alive) == ("server_draining", False)
    assert [type(message) for message in ends[0][0]] == ([m.Value, m.Error] if finishes else [m.Error])
    assert notes(path).count("c") == (_SESSIONS if finishes else _SESSIONS - 1)
