"""The measured side of bench_step: times steps of one environment, or counts those of many at once.

``python -m benchmarks.step_client one [URL]`` or ``... many URL``; prints JSON. Without URL: local CartPole.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym

from .harness import percentile

WARM_UP = 500


def make(url: str | None, wrapped: bool) -> gym.Env[Any, Any]:
    """Return CartPole, local or from a server, inside ``gym.make``'s wrappers or bare."""
    if url is None:
        env = gym.make("CartPole-v1", disable_env_checker=True)
    else:
        import openenv_gym  # noqa: F401

        env = gym.make("remote/CartPole-v1", base_url=url, disable_env_checker=True)
    return env if wrapped else env.unwrapped


def time_steps(env: gym.Env[Any, Any], steps: int) -> list[float]:
    """Return the seconds of each step; episodes that are over are reset outside the clock."""
    env.reset(seed=0)
    times = []
    clock = time.perf_counter
    gc.disable()
    for number in range(WARM_UP + steps):
        start = clock()
        result = env.step(number & 1)
        times.append(clock() - start)
        if result[2] or result[3]:
            env.reset()
    gc.enable()
    return times[WARM_UP:]


def measure(url: str | None, steps: int) -> dict[str, float]:
    """Return p50 and p99 of a step in microseconds, bare and inside ``gym.make``'s wrappers."""
    found: dict[str, float] = {}
    for prefix, wrapped in (("", False), ("wrapped_", True)):
        env = make(url, wrapped)
        times = time_steps(env, steps)
        env.close()
        found |= {f"{prefix}p50": percentile(times, 0.5) * 1e6, f"{prefix}p99": percentile(times, 0.99) * 1e6}
    return found


def _session(url: str, seconds: float, pipe: Connection) -> None:
    env = make(url, wrapped=False)
    env.reset(seed=0)
    pipe.send("ready")
    pipe.recv()
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        _, _, terminated, truncated, _ = env.step(count & 1)
        count += 1
        if terminated or truncated:
            env.reset()
    pipe.send(count)
    env.close()


def throughput(url: str, sessions: int, seconds: float) -> dict[str, float]:
    """Return steps per second of all sessions together; each runs in a process of its own."""
    context = multiprocessing.get_context("fork")
    pairs = [context.Pipe() for _ in range(sessions)]
    workers = [context.Process(target=_session, args=(url, seconds, child)) for _, child in pairs]
    for worker in workers:
        worker.start()
    ours = [parent for parent, _ in pairs]
    for _, child in pairs:
        child.close()  # so that a session that fails ends the measurement instead of hanging it
    for pipe in ours:
        pipe.recv()
    for pipe in ours:
        pipe.send("go")
    total = sum(pipe.recv() for pipe in ours)
    for worker in workers:
        worker.join()
    return {"rate": total / seconds}


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("one", "many"))
    parser.add_argument("url", nargs="?")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    if args.kind == "many":
        found = throughput(args.url, args.sessions, args.seconds)
    else:
        found = measure(args.url, args.steps)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
