"""What does the WebSocket channel add to a bare ping-pong of the same bytes?

Two processes echo messages over a channel each, on one core and on two, with and without polling before
blocking; the bare TCP ping-pong is measured just before. Bars: at most 1.9 times the bare ping-pong on
one core, and with polling at most 0.5 times the bare one on two cores.

    python -m benchmarks.bench_channel [--size BYTES] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from time import monotonic, perf_counter_ns

from openenv_gym.transport import Channel, ChannelClosed, tune

from . import pingpong


def channel(here: int, there: int, poll: bool, size: int, rounds: int) -> pingpong.PingPong:
    """Measure over loopback TCP, this process the client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-m", "benchmarks.bench_channel", "--echo", port, "--core", str(there)]
        peer = subprocess.Popen(command + ["--poll"] * poll)
        sock, _ = listener.accept()
    tune(sock, 20.0)
    end = Channel(sock, client=True, poll=poll)
    send, receive, clock = end.send, end.recv, perf_counter_ns
    message, times = bytes(size), []
    with pingpong.pinned(here):
        for _ in range(rounds + rounds // 10):
            begun = clock()
            send(message)
            receive(monotonic() + 60.0, 30.0)
            times.append(clock() - begun)
    end.close()
    if peer.wait() != 0:
        raise RuntimeError(f"the echoing process failed with exit code {peer.returncode}")
    return pingpong.percentiles(times[rounds // 10 :])


def _echo(port: int, core: int, poll: bool) -> None:
    os.sched_setaffinity(0, {core})
    sock = socket.create_connection(("127.0.0.1", port))
    tune(sock, 20.0)
    end = Channel(sock, client=False, poll=poll)
    send, receive = end.send, end.recv
    try:
        while True:
            send(receive())
    except ChannelClosed as exc:
        if exc.close_code != 1000:
            raise


def main() -> None:
    """Print round trips and their ratios to the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--echo", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--poll", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        _echo(options.echo, options.core, options.poll)
        return
    first, second = pingpong.cores()
    for label, other in (("one core", first), ("two cores", second)):
        floor = pingpong.tcp(first, other, options.size, options.rounds).p50
        print(f"{label:10} bare      {floor / 1000:7.1f} µs")
        for poll in (False, True):
            p50, p99 = channel(first, other, poll, options.size, options.rounds)
            name = "polling" if poll else "blocking"
            print(
                f"{label:10} {name:8} {p50 / 1000:8.1f} µs   p99 {p99 / 1000:7.1f} µs   {p50 / floor:5.2f} x"
            )


if __name__ == "__main__":
    main()
