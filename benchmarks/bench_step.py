"""What does one step of a remote CartPole cost, and what do many at once yield?

Measured side by side in every run: the floor (a blocking ping-pong over TCP and Unix sockets), the local
``env.step``, ``RemoteEnv.step`` over every transport and isolation mode, bare and through ``gym.make``'s
wrappers, and, with ``--openenv-python``, the same environment through OpenEnv's own client and server. Client
and server share one core, then have one each. The bars compare medians of ratios within a run, so that a slow
machine or a busy minute changes little.

    python -m benchmarks.bench_step [--quick] [--only one] [--openenv-python PATH] [--json FILE] [--strict]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from dataclasses import dataclass
from typing import Any

from . import pingpong
from .harness import (
    ROOT,
    Bar,
    cores,
    machine,
    medians,
    peer_serving,
    percentile,
    progress,
    report,
    run_child,
    serving,
    table,
)

Row = dict[str, float]
Rates = dict[str, dict[str, list[float]]]
Placement = tuple[list[int], list[int]]

HAND_OVER, PUMP = "hand-over", "ASGI pump"
SESSIONS = (1, 2, 8, 32)


@dataclass(frozen=True)
class Way:
    """One way to reach an environment."""

    path: str
    unix: bool
    isolation: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The row's name."""
        return f"{self.path}, {'Unix' if self.unix else 'TCP'}, {self.isolation}"

    @property
    def env(self) -> dict[str, str]:
        """What the server's environment must hold."""
        return {} if self.path == HAND_OVER else {"OPENENV_HANDOVER": "0"}


MODES = {
    "worker": ("--workers", "1"),
    "own process": ("--workers", "1", "--sessions-per-worker", "1"),
    "thread": ("--workers", "0"),
}
WAYS = [
    Way(path, unix, isolation, options)
    for path in (HAND_OVER, PUMP)
    for unix in (False, True)
    for isolation, options in MODES.items()
]
TCP, UNIX, LOCAL = "ping-pong, TCP", "ping-pong, Unix", "local env.step"
MAIN = f"{HAND_OVER}, TCP, worker"
PUMPED = f"{PUMP}, TCP, worker"


class Peer:
    """CartPole through OpenEnv's own client and server."""

    def __init__(self, python: str, steps: int) -> None:
        self._python, self._steps = python, steps

    def serve(self, on: list[int]) -> contextlib.AbstractContextManager[str]:
        """Run its server; give the port."""
        return peer_serving(self._python, "server.py", on)

    def measure(self, port: str, on: list[int]) -> dict[str, Row]:
        """Return the figures of its blocking and of its asyncio client."""
        rows = {}
        for kind in ("sync", "async"):
            args = [str(ROOT / "benchmarks" / "peer_openenv" / "client.py"), port, str(self._steps), kind]
            times = run_child(args, python=self._python, on=on)
            rows[f"OpenEnv, {kind}"] = {
                "p50": percentile(times, 0.5) * 1e6,
                "p99": percentile(times, 0.99) * 1e6,
            }
        return rows


def floor(place: Placement, steps: int) -> dict[str, Row]:
    """Return the ping-pong's figures and those of the local step."""
    here, there = place[0][0], place[1][0]
    rows = {}
    for name, play in ((TCP, pingpong.tcp), (UNIX, pingpong.unix)):
        p50, p99 = play(here, there, rounds=steps)
        rows[name] = {"p50": p50 / 1e3, "p99": p99 / 1e3}
    rows[LOCAL] = run_child(["-m", "benchmarks.step_client", "--steps", str(steps)], on=place[0])
    return rows


def one_run(place: Placement, urls: dict[str, str], steps: int) -> dict[str, Row]:
    """Measure every row once."""
    rows = floor(place, steps)
    for name, url in urls.items():
        rows[name] = run_child(["-m", "benchmarks.step_client", url, "--steps", str(steps)], on=place[0])
    return rows


def latency(
    place: Placement, ways: list[Way], peer: Peer | None, runs: int, steps: int
) -> list[dict[str, Row]]:
    """Return the rows of each run, with client and servers on the given cores."""
    found = []
    with contextlib.ExitStack() as stack:
        urls = {}
        for way in ways:
            server = serving("CartPole-v1", *way.options, unix=way.unix, on=place[1], env=way.env)
            urls[way.name], _ = stack.enter_context(server)
        port = stack.enter_context(peer.serve(place[1])) if peer else None
        for number in range(runs):
            progress(f"cores {place[0]} and {place[1]}, run {number + 1} of {runs}")
            rows = one_run(place, urls, steps)
            if peer and port:
                rows |= peer.measure(port, place[0])
            found.append(rows)
    return found


def throughput(windows: int, seconds: float, sessions: tuple[int, ...]) -> Rates:
    """Return steps per second in each window, with polling and without, for each number of sessions."""
    found = {}
    with contextlib.ExitStack() as stack:
        servers = [serving("CartPole-v1", env={"OPENENV_POLL": state}) for state in ("1", "0")]
        urls = [stack.enter_context(server)[0] for server in servers]
        for count in sessions:
            progress(f"throughput of {count} sessions")
            numbers = ["--sessions", str(count), "--windows", str(windows), "--seconds", str(seconds)]
            rates = run_child(["-m", "benchmarks.step_client", *urls, *numbers])
            found[f"{count} sessions"] = {"on": rates["1"], "off": rates["0"]}
    return found


def ratio(runs: list[dict[str, Row]], above: str, below: str, key: str = "p50") -> float:
    """Return the median over the runs of one row's figure by another's."""
    return statistics.median(rows[above][key] / rows[below][key] for rows in runs)


def bars(one: list[dict[str, Row]], two: list[dict[str, Row]], many: Rates) -> list[Bar]:
    """Compare with what is asked for; a placement that was not measured has no bar."""
    found = []
    if one:
        found.append(Bar("hand-over / TCP ping-pong, one core", ratio(one, MAIN, TCP), 4))
        found.append(Bar("ASGI pump / TCP ping-pong, one core", ratio(one, PUMPED, TCP), 16))
    if two:
        found.append(Bar("hand-over / TCP ping-pong, two cores", ratio(two, MAIN, TCP), 0.6))
    for name, runs in (("one core", one), ("two cores", two)):
        if runs and any(row.startswith("OpenEnv") for row in runs[0]):
            # The quicker of its two clients is the fair one.
            value = min(ratio(runs, f"OpenEnv, {kind}", MAIN) for kind in ("sync", "async"))
            found.append(Bar(f"OpenEnv / hand-over, {name}", value, 12, at_least=True))
    for name, rates in many.items():
        value = statistics.median(on / off for on, off in zip(rates["on"], rates["off"], strict=True))
        found.append(Bar(f"throughput with polling / without, {name}", value, 0.9, at_least=True))
    return found


def show(title: str, runs: list[dict[str, Row]]) -> None:
    """Print the medians of one placement."""
    if not runs:
        return
    rows = []
    for name in runs[0]:
        middle = medians([run[name] for run in runs])
        figures = [f"{middle[key]:.1f}" if key in middle else "" for key in _COLUMNS]
        rows.append([name, *figures, f"{ratio(runs, name, TCP):.2f}"])
    head = ["", "p50", "p99", "wrapped p50", "wrapped p99", "p50 / TCP"]
    print(f"\n{title}, microseconds\n{table(head, rows)}")


_COLUMNS = ("p50", "p99", "wrapped_p50", "wrapped_p99")


def show_throughput(many: Rates) -> None:
    """Print the medians of the throughput."""
    rows = []
    for name, rates in many.items():
        on, off = statistics.median(rates["on"]), statistics.median(rates["off"])
        rows.append([name, f"{on:,.0f}", f"{off:,.0f}"])
    if rows:
        print(f"\nsteps per second on all cores\n{table(['', 'polling', 'no polling'], rows)}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="how often every row is measured")
    parser.add_argument("--steps", type=int, default=4000, help="steps in each measurement")
    parser.add_argument("--windows", type=int, default=20, help="throughput windows with polling and without")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a window")
    parser.add_argument("--quick", action="store_true", help="one short run of the main rows: does it work?")
    parser.add_argument("--only", choices=("one", "two", "many"), help="one core, two cores, or throughput")
    parser.add_argument("--openenv-python", metavar="PATH", help="interpreter that has the package openenv")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare."""
    args = arguments()
    ways = WAYS
    sessions: tuple[int, ...] = SESSIONS
    if args.quick:
        args.runs, args.steps, args.windows, sessions = 1, 500, 1, (1, 2)
        ways = [way for way in WAYS if way.name in (MAIN, PUMPED)]
    peer = Peer(args.openenv_python, max(args.steps // 4, 300)) if args.openenv_python else None
    have = cores()
    one: list[dict[str, Row]] = []
    two: list[dict[str, Row]] = []
    many: Rates = {}
    if args.only in (None, "one"):
        one = latency(([have[0]], [have[0]]), ways, peer, args.runs, args.steps)
    if args.only in (None, "two") and len(have) > 1:
        two = latency(([have[0]], [have[1]]), ways, peer, args.runs, args.steps)
    if args.only in (None, "many"):
        many = throughput(args.windows, args.seconds, sessions)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    show("client and server on one core", one)
    show("client and server on two cores", two)
    show_throughput(many)
    found = bars(one, two, many)
    figures: dict[str, Any] = {"one core": one, "two cores": two, "throughput": many}
    report(f"bars (medians of ratios, {args.runs} runs)", figures, found, args.json)
    return int(args.strict and not all(bar.passed for bar in found))


if __name__ == "__main__":
    sys.exit(main())
