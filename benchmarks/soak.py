"""Does one server carry 2,000 Echo sessions at once, and what does each cost it?

A few client processes open all sessions, then each session takes its steps, all of them in turn; every
observation, reward and info is checked. Memory is that of the whole server process tree (PSS and private
pages) after all sessions have stepped, less what it was with one session. The kernel's socket buffers are not
in it.

    python -m benchmarks.soak [--quick] [--sessions 2000] [--steps 100] [--clients 4] [--json FILE] [--strict]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium as gym

from .harness import Bar, machine, percentile, report, serving

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(items: Iterable[Any], **_: Any) -> Iterable[Any]:
        """Show no progress."""
        return items


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found = [pid]
    for parent in found:
        found.extend(children.get(parent, ()))
    return found


def memory(pid: int) -> dict[str, int]:
    """Return the memory of a process tree in bytes: ``pss`` (shared pages divided) and ``private``."""
    total = {"pss": 0, "private": 0, "processes": 0}
    for process in tree(pid):
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:  # it ended meanwhile, and has none
            continue
        sizes = {
            line.split(":")[0]: int(line.split()[1]) * 1024
            for line in text.splitlines()
            if line.endswith("kB")
        }
        total["pss"] += sizes["Pss"]
        total["private"] += sizes["Private_Clean"] + sizes["Private_Dirty"]
        total["processes"] += 1
    return total


def connect(url: str) -> tuple[gym.Env[Any, Any], float]:
    """Open one session; return it with the seconds until its first observation was there."""
    start = time.perf_counter()
    env = gym.make("openenv/Echo-v0", base_url=url, slot_timeout=60.0, disable_env_checker=True).unwrapped
    _, info = env.reset(seed=0)
    took = time.perf_counter() - start
    if not isinstance(info, dict):
        raise AssertionError(f"reset returned {info!r} as info")
    return env, took


def check(env: gym.Env[Any, Any], text: str) -> float:
    """Take one step, check everything that comes back, and return its seconds."""
    start = time.perf_counter()
    observation, reward, terminated, truncated, info = env.step(text)
    took = time.perf_counter() - start
    right = (text, False, False, len(text))
    got = (observation, terminated, truncated, info["message_length"])
    if got != right or abs(float(reward) - 0.1 * len(text)) > 1e-9:
        raise AssertionError(f"sent {text!r}, got {got} and reward {reward}")
    return took


def client(url: str, name: int, sessions: int, steps: int, pipe: Connection) -> None:
    """Open ``sessions``, report, and, when told, step each of them ``steps`` times."""
    import openenv_gym  # noqa: F401

    shown = name == 0
    opened = [connect(url) for _ in tqdm(range(sessions), desc="connect", disable=not shown)]
    pipe.send([took for _, took in opened])
    pipe.recv()
    times = []
    for step in tqdm(range(steps), desc="step", disable=not shown):
        for number, (env, _) in enumerate(opened):
            times.append(check(env, f"client {name} session {number} step {step}" + "." * (step % 7)))
    pipe.send(times)
    pipe.recv()
    for env, _ in opened:
        env.close()
    pipe.send("closed")


def everyone(pipes: list[Connection], word: str | None = None) -> list[Any]:
    """Tell every client to go on, if there is a word, and collect what they say."""
    if word:
        for pipe in pipes:
            pipe.send(word)
    return [pipe.recv() for pipe in pipes]


def soak(sessions: int, steps: int, clients: int) -> dict[str, Any]:
    """Run it all against a new server and return the figures."""
    context = multiprocessing.get_context("fork")
    with serving("echo", "--max-sessions", str(sessions + 16)) as (url, pid):
        import openenv_gym  # noqa: F401

        first, _ = connect(url)
        check(first, "the one session before")
        before = memory(pid)
        pairs = [context.Pipe() for _ in range(clients)]
        shares = [sessions // clients + (name < sessions % clients) for name in range(clients)]
        processes = [
            context.Process(target=client, args=(url, name, shares[name], steps, theirs))
            for name, (_, theirs) in enumerate(pairs)
        ]
        for process in processes:
            process.start()
        pipes = [ours for ours, _ in pairs]
        for _, theirs in pairs:
            theirs.close()
        connects = [took for took_all in everyone(pipes) for took in took_all]
        begun = time.perf_counter()
        times = [took for took_all in everyone(pipes, "step") for took in took_all]
        seconds = time.perf_counter() - begun
        after = memory(pid)
        everyone(pipes, "close")
        for process in processes:
            process.join()
        first.close()
    return {
        "sessions": len(connects),
        "steps": len(times),
        "steps_per_second": len(times) / seconds,
        "connect_p50_ms": percentile(connects, 0.5) * 1e3,
        "connect_p99_ms": percentile(connects, 0.99) * 1e3,
        "step_p50_ms": percentile(times, 0.5) * 1e3,
        "step_p99_ms": percentile(times, 0.99) * 1e3,
        "pss_per_session": (after["pss"] - before["pss"]) / sessions,
        "private_per_session": (after["private"] - before["private"]) / sessions,
        "server_pss": after["pss"],
        "server_processes": after["processes"],
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=100, help="of each session")
    parser.add_argument("--clients", type=int, default=4, help="client processes")
    parser.add_argument("--quick", action="store_true", help="200 sessions with 20 steps: does it work?")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare."""
    args = arguments()
    if args.quick:
        args.sessions, args.steps = 200, 20
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.environ["TQDM_MININTERVAL"] = "1"
    figures = soak(args.sessions, args.steps, args.clients)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    for name, value in figures.items():
        print(f"  {name}: {value:,.2f}" if isinstance(value, float) else f"  {name}: {value:,}")
    bars = [
        Bar("sessions served at once", figures["sessions"], args.sessions, at_least=True),
        Bar("steps checked and right", figures["steps"], args.sessions * args.steps, at_least=True),
        Bar("server memory per session (PSS), kB", figures["pss_per_session"] / 1e3, 100),
    ]
    report("bars", figures, bars, args.json)
    return int(args.strict and not all(bar.passed for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
