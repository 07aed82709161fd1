"""Field bugs about messages: big ones, compressed ones, and the limits on both sides."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym.env import RemoteEnv
from openenv_gym.errors import MessageTooLargeError
from openenv_gym.protocol.messages import SUBPROTOCOL
from openenv_gym.testing.compare import digest
from tests.conformance.serving import Cell, serve

from .conftest import ANY_ENV

Remote = Callable[..., RemoteEnv]
MIB = 1 << 20
SIZES = [
    *(MIB * size + more for size in (1, 4, 16) for more in (0, 1)),
    pytest.param(64 * MIB + 1, marks=pytest.mark.full),
    pytest.param(255 * MIB, marks=pytest.mark.full),
]
CELLS = [
    Cell("thread", "handover", "unix"),
    Cell("process", "asgi", "tcp"),
    Cell("process", "handover", "unix"),
]

TOO_LARGE = r"message of 20\d{5} bytes exceeds the limit of 1048576 bytes;.*OPENENV_MAX_MESSAGE_SIZE"


def roundtrip(env: RemoteEnv) -> None:
    action = np.random.default_rng(4).integers(0, 256, env.action_space.shape, np.uint8)
    observation, _, _, _, info = env.step(action)
    assert observation.shape == env.observation_space.shape
    assert info["digest"] == digest(action)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore")
def test_f043_big_observations_and_actions_pass(remote: Remote, size: int) -> None:
    for sizes in ({"size": size, "action_size": 1}, {"size": 1, "action_size": size}):
        env = remote("BigEnv", **sizes)
        first, _ = env.reset(seed=3)
        assert np.array_equal(first, np.random.default_rng(3).integers(0, 256, sizes["size"], np.uint8))
        roundtrip(env)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_f043_a_message_over_the_limit_is_a_typed_error_and_the_session_lives(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(ANY_ENV, cell, tmp_path, max_message_size=MIB) as url:
        env = RemoteEnv(base_url=url, env_kwargs={"name": "BigEnv", "size": 1, "action_size": 2 * MIB})
        env.reset()
        with pytest.raises(MessageTooLargeError, match=TOO_LARGE):
            env.step(env.action_space.sample())
        assert env.count == 0  # nothing was executed, and the session is the same
        env.reset()
        env.close()

    monkeypatch.setenv("OPENENV_MAX_MESSAGE_SIZE", "1MiB")
    with serve(ANY_ENV, cell, tmp_path) as url:
        env = RemoteEnv(base_url=url, env_kwargs={"name": "BigInfoEnv", "size": 2 * MIB})
        env.reset()
        with pytest.raises(MessageTooLargeError, match=TOO_LARGE):
            env.step(0)
        assert env.count == 1  # it was executed, and the session is the same
        env.close()


def test_f046_a_big_message_is_noted_once(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "openenv_gym.client")
    env = remote("BigEnv", size=8 * MIB)
    env.reset()
    env.step(env.action_space.sample())
    (record,) = caplog.records
    text = record.getMessage()
    assert record.levelno == logging.WARNING
    assert ANY_ENV in text
    assert str(8 * MIB)[:4] in text
    assert str(256 * MIB) in text


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_f044_compression_is_not_negotiated_unless_both_want_it(cell: Cell, tmp_path: Path) -> None:
    offer = "permessage-deflate; client_max_window_bits"
    with serve(ANY_ENV, cell, tmp_path) as url:
        assert "sec-websocket-extensions" not in handshake(url, offer)
    with serve(ANY_ENV, cell, tmp_path, compression="deflate") as url:
        assert "permessage-deflate" in handshake(url, offer)["sec-websocket-extensions"]
        assert "sec-websocket-extensions" not in handshake(url, None)


def test_f044_compression_helps_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_COMPRESSION", "deflate")
    with serve(ANY_ENV, CELLS[0], tmp_path, compression="deflate") as url:
        env = RemoteEnv(base_url=url, env_kwargs={"name": "BigInfoEnv", "size": MIB})
        env.reset()
        assert env.step(0)[4]["blob"] == b"\x01" * MIB
        env.close()


def handshake(url: str, extensions: str | None) -> dict[str, str]:
    """Return the headers of the answer to a handshake, names in lower case."""
    if url.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(url.removeprefix("unix:"))
    else:
        host, port = url.removeprefix("ws://").split(":")
        sock = socket.create_connection((host, int(port)))
    lines: dict[str, Any] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
        "Sec-WebSocket-Extensions": extensions,
    }
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    with sock, sock.makefile("rb") as answers:
        sock.sendall(f"GET /ws HTTP/1.1\r\n{text}\r\n".encode())
        assert answers.readline().startswith(b"HTTP/1.1 101 ")
        pairs = (line.decode().partition(":") for line in iter(answers.readline, b"\r\n"))
        return {name.lower(): value.strip() for name, _, value in pairs}
