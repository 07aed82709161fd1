"""The measured side of bench_step: times the steps of one environment, or counts those of many at once.

``python -m benchmarks.step_client [URL]`` times steps, local ones without URL; with ``--sessions N`` it takes
two URLs, of a server that polls and of one that does not. Prints JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
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


def _session(urls: dict[str, str], seconds: float, pipe: Connection) -> None:
    envs = {}
    for state, url in urls.items():
        os.environ["OPENENV_POLL"] = state
        envs[state] = make(url, wrapped=False)
        envs[state].reset(seed=0)
    pipe.send("ready")
    while (state := pipe.recv()) != "stop":
        pipe.send(_count_steps(envs[state], seconds))
    for env in envs.values():
        env.close()


def _count_steps(env: gym.Env[Any, Any], seconds: float) -> int:
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        _, _, terminated, truncated, _ = env.step(count & 1)
        count += 1
        if terminated or truncated:
            env.reset()
    return count


def throughput(urls: dict[str, str], sessions: int, windows: int, seconds: float) -> dict[str, list[float]]:
    """Return steps per second of all sessions together in each window, for polling (``"1"``) and without.

    The windows alternate, so that a drift of the machine falls on both. Each session's client is a process.
    """
    context = multiprocessing.get_context("fork")
    pairs = [context.Pipe() for _ in range(sessions)]
    workers = [context.Process(target=_session, args=(urls, seconds, child)) for _, child in pairs]
    for worker in workers:
        worker.start()
    pipes = [parent for parent, _ in pairs]
    for _, child in pairs:
        child.close()  # so that a session that fails ends the measurement instead of hanging it
    _hear(pipes)
    rates: dict[str, list[float]] = {state: [] for state in urls}
    for number in range(2 * windows):
        state = sorted(urls)[number % 2]
        _tell(pipes, state)
        rates[state].append(sum(_hear(pipes)) / seconds)
    _tell(pipes, "stop")
    for worker in workers:
        worker.join()
    return rates


def _tell(pipes: list[Connection], word: str) -> None:
    for pipe in pipes:
        pipe.send(word)


def _hear(pipes: list[Connection]) -> list[Any]:
    return [pipe.recv() for pipe in pipes]


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="*")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    args = parser.parse_args()
    if args.sessions:
        urls = dict(zip(("1", "0"), args.urls, strict=True))
        found: Any = throughput(urls, args.sessions, args.windows, args.seconds)
    else:
        found = measure(args.urls[0] if args.urls else None, args.steps)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
