"""What does the machine itself allow? A bare blocking ping-pong of a few bytes between two processes.

The floor that the step benchmarks divide by. The other end runs in a process of its own, pinned to its core;
this process is pinned while it measures.

    python -m benchmarks.pingpong [--size BYTES] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

__all__ = ["PingPong", "cores", "percentiles", "pinned", "tcp", "unix"]


class PingPong(NamedTuple):
    """Round-trip times in nanoseconds."""

    p50: float
    p99: float


def tcp(
    here: int, there: int, size: int = 40, rounds: int = 20_000, back: int = 0, lanes: int = 0
) -> PingPong:
    """Measure over loopback TCP, this process on core ``here``, its peer on core ``there``.

    Args:
        here: Core of this process.
        there: Core of its peer.
        size: How many bytes go there.
        rounds: How often.
        back: How many bytes come back; 0: as many.
        lanes: How many lanes of CartPole's own vector class the peer steps before it answers.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp:{listener.getsockname()[1]}"
        return _measure(listener, address, here, there, (size, back or size), rounds, lanes)


def unix(here: int, there: int, size: int = 40, rounds: int = 20_000, back: int = 0) -> PingPong:
    """Measure over a Unix socket; arguments as for :func:`tcp`."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder, "s"))
        listener.bind(path)
        listener.listen()
        return _measure(listener, f"unix:{path}", here, there, (size, back or size), rounds)


def percentiles(times: Sequence[int]) -> PingPong:
    """Return median and 99th percentile."""
    ordered = sorted(times)
    return PingPong(statistics.median(ordered), ordered[len(ordered) * 99 // 100])


def cores() -> tuple[int, int]:
    """Return two cores this process may use; the same one twice when there is no other."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this process on one core for a while."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measure(
    listener: socket.socket,
    address: str,
    here: int,
    there: int,
    sizes: tuple[int, int],
    rounds: int,
    lanes: int = 0,
) -> PingPong:
    numbers = ["--core", str(there), "--size", str(sizes[0]), "--back", str(sizes[1]), "--lanes", str(lanes)]
    peer = subprocess.Popen([sys.executable, __file__, "--answer", address, *numbers])
    try:
        sock, _ = listener.accept()
        with sock, pinned(here):
            return _play(sock, bytes(sizes[0]), sizes[1], rounds)
    finally:
        if peer.wait() != 0:
            raise RuntimeError(f"the answering process failed with exit code {peer.returncode}")


def _play(sock: socket.socket, message: bytes, back: int, rounds: int) -> PingPong:
    _no_delay(sock)
    buffer = bytearray(max(4096, back))
    send, receive, clock = sock.sendall, sock.recv_into, perf_counter_ns
    times = []
    for _ in range(rounds + rounds // 10):
        begun = clock()
        send(message)
        missing = back
        while missing:
            missing -= receive(buffer)
        times.append(clock() - begun)
    return percentiles(times[rounds // 10 :])


def _answer(address: str, core: int, size: int, back: int, lanes: int) -> None:
    os.sched_setaffinity(0, {core})
    work = _stepping(lanes) if lanes else None
    kind, _, place = address.partition(":")
    if kind == "tcp":
        sock = socket.create_connection(("127.0.0.1", int(place)))
    else:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(place)
    with sock:
        _no_delay(sock)
        buffer, message = bytearray(max(4096, size)), bytes(back)
        missing = size
        while count := sock.recv_into(buffer):
            missing -= count
            if not missing:
                if work is not None:
                    work()
                sock.sendall(message)
                missing = size


def _stepping(lanes: int) -> Callable[[], object]:
    """Return what steps lanes of CartPole's own vector class."""
    import gymnasium as gym  # late: a bare ping-pong needs nothing of it
    import numpy as np

    envs = gym.make_vec("CartPole-v1", num_envs=lanes, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    return partial(envs.step, np.arange(lanes) % 2)


def _no_delay(sock: socket.socket) -> None:
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def main() -> None:
    """Print the floor on one core and on two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--back", type=int, default=0, help="bytes that come back, if others")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    parser.add_argument("--lanes", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        _answer(options.answer, options.core, options.size, options.back, options.lanes)
        return
    first, second = cores()
    for name, measure in (("TCP", tcp), ("Unix", unix)):
        for label, other in (("one core", first), ("two cores", second)):
            p50, p99 = measure(first, other, options.size, options.rounds, options.back)
            print(f"{name:5} {label:10} p50 {p50 / 1000:7.1f} µs   p99 {p99 / 1000:7.1f} µs")


if __name__ == "__main__":
    main()
