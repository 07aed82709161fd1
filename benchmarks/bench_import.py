"""What does the plugin cost a training process before the first step?

Three numbers: what ``import openenv_gym`` adds to ``import gymnasium``; how long ``gym.make`` of the embedded
Echo takes until its first ``reset`` has returned (both in fresh processes); how many distributions a client
install brings (read from the metadata of what is installed here, extras left out).

    python -m benchmarks.bench_import [--quick] [--runs 15] [--json FILE] [--strict]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .harness import Bar, machine, report, run_child

IMPORT = """
import json, time
import gymnasium
start = time.perf_counter()
import openenv_gym
print(json.dumps(time.perf_counter() - start))
"""

FIRST_RESET = """
import json, time
import gymnasium, openenv_gym
start = time.perf_counter()
env = gymnasium.make("openenv/Echo-v0")
env.reset(seed=0)
took = time.perf_counter() - start
env.close()
print(json.dumps(took))
"""


def timed(program: str, runs: int) -> list[float]:
    """Return what ``program`` printed in each of ``runs`` fresh processes, in seconds."""
    # The first run may compile byte code, which happens once per installation.
    return [float(run_child(["-c", program])) for _ in range(runs + 1)][1:]


def distributions(name: str) -> set[str]:
    """Return the distributions that installing ``name`` brings along."""
    found: set[str] = set()
    waiting = [(name, "")]
    while waiting:
        current, extra = waiting.pop()
        for text in metadata.requires(current) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                key = canonicalize_name(needed.name)
                waiting += [(key, extra) for extra in ({""} | needed.extras) if key not in found]
        found.add(canonicalize_name(current))
    return found - {canonicalize_name(name)}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="fresh processes for each number")
    parser.add_argument("--quick", action="store_true", help="three processes each: does it work?")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare."""
    args = arguments()
    runs = 3 if args.quick else args.runs
    imports, resets = timed(IMPORT, runs), timed(FIRST_RESET, runs)
    installed = sorted(distributions("openenv-gym"))
    bars = [
        Bar("import openenv_gym after gymnasium, ms", statistics.median(imports) * 1e3, 60),
        Bar("gym.make of the embedded Echo to first reset, s", statistics.median(resets), 1),
        Bar("distributions of a client install", len(installed), 15),
    ]
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"\nimport: {min(imports) * 1e3:.1f} to {max(imports) * 1e3:.1f} ms in {runs} processes")
    print(f"first reset: {min(resets):.3f} to {max(resets):.3f} s in {runs} processes")
    print(f"distributions: {', '.join(installed)}")
    figures: dict[str, Any] = {"import": imports, "first reset": resets, "distributions": installed}
    report(f"bars (medians of {runs} processes)", figures, bars, args.json)
    return int(args.strict and not all(bar.passed for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
