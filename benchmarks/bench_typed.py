"""What do types cost a step, and typed clients an import?

One CartPole is served twice in each run, as a ``gymnasium.Env`` and as a typed environment. Steps are taken
by ``RemoteEnv`` from both, and from the typed one by the typed client too. Client and server share one core.

    python -m benchmarks.bench_typed [--quick] [--runs 5] [--json FILE] [--strict]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from .harness import Bar, cores, machine, medians, percentile, report, run_child, serving, table

PLAIN, TYPED = "benchmarks.typed_envs:plain", "benchmarks.typed_envs:TypedCartPole"
WAYS = ("plain, RemoteEnv", "typed, RemoteEnv", "typed, typed client")
WARM_UP = 300
IMPORT = """
import json, time
import msgspec, websockets
start = time.perf_counter()
import openenv_gym.client
openenv_gym.client.EnvClient
print(json.dumps(time.perf_counter() - start))
"""


def stepper(way: str, url: str) -> tuple[Callable[[int], bool], Callable[[], Any], Callable[[], Any]]:
    """Return what takes a step (and says whether the episode is over), what resets, and what closes."""
    if "RemoteEnv" in way:
        import openenv_gym

        env = openenv_gym.RemoteEnv(base_url=url)

        def step(action: int) -> bool:
            result = env.step(action)
            return bool(result[2])

        return step, env.reset, env.close
    from openenv_gym.client import EnvClient
    from openenv_gym.models import State

    from .typed_envs import Pole, Push

    class Client(EnvClient[Push, Pole, State]):
        """The client of the typed CartPole."""

    client = Client(base_url=url).sync()
    return (lambda action: bool(client.step(Push(action)).done)), client.reset, client.close


def measure(way: str, url: str, steps: int) -> dict[str, float]:
    """Return p50 and p99 of a step in microseconds; episodes that are over are reset outside the clock."""
    step, reset, close = stepper(way, url)
    reset()
    times, clock = [], time.perf_counter
    gc.disable()
    for number in range(WARM_UP + steps):
        start = clock()
        done = step(number & 1)
        times.append(clock() - start)
        if done:
            reset()
    close()
    return {name: percentile(times[WARM_UP:], share) * 1e6 for name, share in (("p50", 0.5), ("p99", 0.99))}


def one_run(steps: int) -> dict[str, dict[str, float]]:
    """Return the figures of every way, measured one after the other."""
    core = cores()[:1]
    found = {}
    with serving(PLAIN, on=core) as (plain, _), serving(TYPED, on=core) as (typed, _):
        for way in WAYS:
            url = plain if way.startswith("plain") else typed
            found[way] = run_child(["-m", "benchmarks.bench_typed", "--way", way, url, str(steps)], on=core)
    return found


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--steps", type=int, default=4000, help="steps timed in each run")
    parser.add_argument("--quick", action="store_true", help="does it work?")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare."""
    args = arguments()
    if args.way:
        way, url, steps = args.way
        print(json.dumps(measure(way, url, int(steps))))
        return 0
    runs, steps = (1, 300) if args.quick else (args.runs, args.steps)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    figures = [one_run(steps) for _ in range(runs)]
    imports = [float(run_child(["-c", IMPORT])) for _ in range(3 if args.quick else 15)]
    rows = []
    for way in WAYS:
        row = medians([run[way] for run in figures])
        ratio = statistics.median(run[way]["p50"] / run[WAYS[0]]["p50"] for run in figures)
        rows.append([way, f"{row['p50']:.1f}", f"{row['p99']:.1f}", f"{ratio:.2f}"])
    print(f"\n{table(['a step on one core, microseconds', 'p50', 'p99', '/ plain'], rows)}")
    bars = [
        Bar("typed / plain environment, RemoteEnv", float(rows[1][3]), 2),
        Bar("typed client / plain environment", float(rows[2][3]), 2),
        Bar(
            "import openenv_gym.client after msgspec and websockets, ms", statistics.median(imports) * 1e3, 40
        ),
    ]
    report(f"bars (medians of {runs} runs)", {"runs": figures, "imports": imports}, bars, args.json)
    return int(args.strict and not all(bar.passed for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
