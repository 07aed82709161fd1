"""How quick are many lanes, and how much of their time does it take that they are remote?

Measured by turns in every run: the lanes of an environment in Gymnasium's own vector classes, or in its own,
and the same lanes in servers here, of one worker and of two. CartPole is all overhead, frames are all
transport; Pong is a real game. The bars compare medians of ratios within a run. With ``--openenv-python``
frames also go through OpenEnv's client and server.

    python -m benchmarks.bench_vector [--quick] [--only CASE] [--openenv-python PATH] [--plot FILE]
                                      [--json FILE] [--strict]
"""

from __future__ import annotations

import argparse
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
    progress,
    report,
    run_child,
    serving,
    table,
)
from .vector_client import frame_sizes

__all__ = ["CASES", "Case", "Rates", "bars", "ratio"]

#: Lane steps per second of each way in each run.
Rates = dict[str, list[float]]
#: Microseconds of one run, by what they were measured of.
Row = dict[str, float]
SYNC, ASYNC, ONE, TWO, OWN, SERVED = "sync", "async", "1 worker", "2 workers", "vector", "served"
OPENENV = "OpenEnv"
#: One worker or two, whichever is quicker.
BEST = "1 or 2 workers"


@dataclass(frozen=True)
class Case:
    """An environment, how many lanes of it, and in which ways they are stepped, the local one first."""

    env: str
    lanes: int
    ways: tuple[str, ...]

    @property
    def name(self) -> str:
        """The row's name."""
        own = ", its own class" if self.ways[0] == OWN else ""
        return f"{self.env}, {self.lanes} lanes{own}"


CASES = [
    Case("CartPole", 8, (SYNC, ASYNC, ONE, TWO)),
    Case("CartPole", 64, (SYNC, ASYNC, ONE, TWO, "2 servers", "4 servers")),
    Case("CartPole", 256, (SYNC, ONE, TWO)),
    Case("CartPole", 1024, (SYNC, ONE, TWO)),
    Case("CartPole", 64, (OWN, SERVED)),
    Case("CartPole", 1024, (OWN, SERVED)),
    Case("Frames", 8, (SYNC, ASYNC, ONE, TWO)),
    Case("Pong", 8, (SYNC, ASYNC, ONE, TWO)),
    Case("Pong", 8, (OWN, SERVED)),
    Case("Mixed", 8, (SYNC, ASYNC, ONE, TWO)),
    Case("Words", 8, (SYNC, ONE, TWO)),
]
LATENCY_LANES = (64, 1024)


def measure(case: Case, runs: int, seconds: float) -> Rates:
    """Return the rates of one case."""
    progress(case.name)
    numbers = ["--runs", str(runs), "--seconds", str(seconds)]
    args = ["-m", "benchmarks.vector_client", case.env, str(case.lanes), *case.ways, *numbers]
    found: Rates = run_child(args)
    return found


def measure_openenv(python: str, case: Case, runs: int, seconds: float) -> list[float]:
    """Return the rates of frames through OpenEnv's client and server."""
    progress(f"{case.name}, OpenEnv")
    client = str(ROOT / "benchmarks" / "peer_openenv" / "frames_client.py")
    with peer_serving(python, "frames_server.py") as port:
        args = [client, port, str(case.lanes), str(runs), str(seconds)]
        rates: list[float] = run_child(args, python=python)
        return rates


def measure_native(lanes: int, runs: int, steps: int) -> list[Row]:
    """Return microseconds of a batch step on one core, local and served, of a ping-pong, and of both as one.

    The last is the floor: the same class stepped by a process that does nothing else between two messages. It
    lies above the sum of the others, since two processes that share a core take each other's caches.
    """
    core, found = cores()[0], []
    there, back = frame_sizes(lanes)
    options = ("--workers", "1", "--max-sessions", str(lanes), "--max-lanes", str(lanes))
    with serving("CartPole-v1", *options, on=[core]) as (url, _):
        for number in range(runs):
            progress(f"{lanes} native lanes on one core, run {number + 1} of {runs}")
            args = ["CartPole", str(lanes), "--latency", url, "--steps", str(steps)]
            row: Row = run_child(["-m", "benchmarks.vector_client", *args], on=[core])
            row["ping-pong"] = pingpong.tcp(core, core, there, steps, back).p50 / 1e3
            row["behind a ping-pong"] = pingpong.tcp(core, core, there, steps, back, lanes).p50 / 1e3
            found.append(row)
    return found


def ratio(rates: Rates, above: str, below: str) -> float:
    """Return the median over the runs of one way's rate by another's."""
    return statistics.median(a / b for a, b in zip(rates[above], rates[below], strict=True))


def with_best(rates: Rates) -> Rates:
    """Return rates with those of the better number of workers in each run, too."""
    remote = [rates[way] for way in (ONE, TWO) if way in rates]
    return rates | ({BEST: list(map(max, zip(*remote, strict=True)))} if remote else {})


def bars(found: dict[str, Rates], native: dict[str, list[Row]], several_cores: bool = True) -> list[Bar]:
    """Compare with what is asked for; what was not measured has no bar."""
    wanted = [
        ("CartPole, 64 lanes", ONE, SYNC, 1.0),
        ("CartPole, 64 lanes", TWO if several_cores else "", SYNC, 1.3),
        ("CartPole, 64 lanes", BEST, ASYNC, 8.0),
        ("Pong, 8 lanes, its own class", SERVED, OWN, 0.95),
        ("Frames, 8 lanes", BEST, ASYNC, 1.5),
        ("Frames, 8 lanes", BEST, OPENENV, 200.0),
    ]
    known = {name: with_best(rates) for name, rates in found.items()}
    made = [
        Bar(f"{name}: {above} / {below}", ratio(known[name], above, below), limit, at_least=True)
        for name, above, below, limit in wanted
        if {above, below} <= known.get(name, {}).keys()
    ]
    for lanes, runs in native.items():
        costs = [(row["served"] - row["local"]) / row["ping-pong"] for row in runs]
        name = f"CartPole, {lanes} lanes, its own class, one core: (served - local) / ping-pong"
        made.append(Bar(name, statistics.median(costs), 3))
    return made


def show(found: dict[str, Rates]) -> None:
    """Print the medians, and by how much each way differs from the local one."""
    rows = []
    for name, rates in found.items():
        local = next(iter(rates))
        for way, values in rates.items():
            times = "" if way == local else f"{ratio(rates, way, local):.3g}"
            rows.append([name if way == local else "", way, f"{statistics.median(values):,.0f}", times])
    print(f"\nlane steps per second\n{table(['', '', 'median', 'of the first'], rows)}")


def show_native(native: dict[str, list[Row]]) -> None:
    """Print the medians of a batch step."""
    rows = []
    for lanes, runs in native.items():
        middle = medians(runs)
        rows += [[f"{lanes} lanes, {name}", f"{value:.1f}"] for name, value in middle.items()]
    if rows:
        print(f"\na batch step of CartPole's own class on one core, microseconds\n{table(['', 'p50'], rows)}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of each measurement")
    parser.add_argument("--steps", type=int, default=2000, help="batch steps timed on one core in each run")
    parser.add_argument("--quick", action="store_true", help="one short run of some cases: does it work?")
    parser.add_argument(
        "--only", metavar="CASE", help="cases whose name begins like this; 'native': one core"
    )
    parser.add_argument("--openenv-python", metavar="PATH", help="interpreter that has the package openenv")
    parser.add_argument("--plot", metavar="FILE", help="draw the results there (.svg or .png)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    return parser.parse_args()


def chosen(only: str | None, quick: bool) -> list[Case]:
    """Return the cases to measure."""
    cases = [case for case in CASES if only is None or case.name.startswith(only)]
    return [case for case in cases if case.lanes <= 64 and case.env != "Pong"] if quick else cases


def main() -> int:
    """Measure, print, compare."""
    args = arguments()
    if args.quick:
        args.runs, args.seconds, args.steps = 1, 0.1, 200
    found = {}
    for case in chosen(args.only, args.quick):
        found[case.name] = measure(case, args.runs, args.seconds)
        if case.env == "Frames" and args.openenv_python:
            rates = measure_openenv(args.openenv_python, case, args.runs, max(args.seconds, 1.0))
            found[case.name][OPENENV] = rates
    native = {}
    for lanes in LATENCY_LANES if args.only in (None, "native") else ():
        native[f"{lanes:,}"] = measure_native(lanes, args.runs, args.steps)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    show(found)
    show_native(native)
    made = bars(found, native, several_cores=len(cores()) > 1)
    figures: dict[str, Any] = {"lane steps per second": found, "one core": native}
    report(f"bars (medians of ratios, {args.runs} runs)", figures, made, args.json)
    if args.plot:
        from .vector_plot import draw  # late: matplotlib is needed for this alone

        draw(found, args.plot)
    return int(args.strict and not all(bar.passed for bar in made))


if __name__ == "__main__":
    sys.exit(main())
