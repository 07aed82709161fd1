"""The measured side of bench_vector: steps the lanes of one environment in several ways, by turns.

``python -m benchmarks.vector_client CASE LANES WAY ...`` prints JSON: for each way its lane steps per second
in each window. ``--latency URL`` prints how long a batch step takes instead, in microseconds: of the
environment's own vector class here, and of the same class behind URL.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import sys
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from openenv_gym.protocol.codec import encode
from openenv_gym.protocol.messages import Step, Transition
from openenv_gym.protocol.values import pack

__all__ = ["CASES", "Envs", "build", "frame_sizes"]

Envs = gym.vector.VectorEnv[Any, Any, Any]

#: Names of cases, and the environment of each; a module before the colon registers it.
CASES = {
    "CartPole": "CartPole-v1",
    "Frames": "benchmarks.vector_envs:bench/Frames-v0",
    "Mixed": "benchmarks.vector_envs:bench/Mixed-v0",
    "Words": "benchmarks.vector_envs:bench/Words-v0",
    "Pong": "ale_py:ALE/Pong-v5",
}
WARM_UP = 0.2


def build(env_id: str, lanes: int, way: str) -> Envs:
    """Return lanes of an environment.

    Args:
        env_id: A Gymnasium id, with a module before it that registers it.
        lanes: How many.
        way: ``sync``, ``async`` (with shared memory), ``vector`` (its own class): all local; ``N workers``,
            ``N servers`` (of one worker each), ``served`` (its own class, served).
    """
    local = {"sync": "sync", "async": "async", "vector": "vector_entry_point"}.get(way)
    if local is not None:
        return gym.make_vec(env_id, num_envs=lanes, vectorization_mode=local)
    number, _, unit = way.partition(" ")
    options: dict[str, Any] = {"provider_kwargs": {"workers": 1}}
    if way == "served":
        options["lanes"] = "native"
    elif unit.startswith("worker"):
        options["provider_kwargs"]["workers"] = int(number)
    else:
        options["servers"] = int(number)
    return gym.make_vec("openenv/Gym-v0", env_id=env_id, num_envs=lanes, **options)


def rates(env_id: str, lanes: int, ways: list[str], runs: int, seconds: float) -> dict[str, list[float]]:
    """Return lane steps per second of each way in each run. The ways take turns, so a drift falls on all."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    with contextlib.ExitStack() as stack:
        # First those that fork, while there is little to copy.
        envs = {way: build(env_id, lanes, way) for way in sorted(ways, key=lambda way: way != "async")}
        for each in envs.values():
            stack.callback(each.close)
            each.action_space.seed(0)
            each.reset(seed=0)
            _count(each, WARM_UP)
        gc.collect()
        for _ in range(runs):
            for way in ways:
                found[way].append(lanes * _count(envs[way], seconds))
    return found


def _count(envs: Envs, seconds: float) -> float:
    """Return batch steps per second."""
    actions = [envs.action_space.sample() for _ in range(8)]
    clock, count = time.perf_counter, 0
    begun = now = clock()
    while now - begun < seconds:
        envs.step(actions[count & 7])
        count += 1
        now = clock()
    return count / (now - begun)


def latency(env_id: str, lanes: int, url: str, steps: int) -> dict[str, float]:
    """Return the median time of a batch step in microseconds, local and served, measured by turns."""
    local = build(env_id, lanes, "vector")
    served = gym.make_vec("openenv/Gym-v0", env_id=env_id, num_envs=lanes, lanes="native", base_url=url)
    times: dict[str, list[float]] = {"local": [], "served": []}
    actions = [local.action_space.sample() for _ in range(8)]
    for each in (local, served):
        each.reset(seed=0)
    gc.disable()
    for _ in range(10):
        for name, each in (("local", local), ("served", served)):
            for number in range(steps // 10 + 50):
                begun = time.perf_counter()
                each.step(actions[number & 7])
                taken = time.perf_counter() - begun
                if number >= 50:
                    times[name].append(taken * 1e6)
    gc.enable()
    local.close()
    served.close()
    return {name: statistics.median(values) for name, values in times.items()}


def frame_sizes(lanes: int) -> tuple[int, int]:
    """Return how many bytes a batch step of CartPole's own class takes on the wire, there and back."""
    rewards = pack(np.zeros(lanes, np.float32), "rewards")
    request = encode(Step(1000, bytes(8 * lanes)))
    reply = encode(Transition(1000, bytes(16 * lanes), [rewards], bytes(lanes)))
    return _framed(request, masked=True), _framed(reply, masked=False)


def _framed(payload: bytes, masked: bool) -> int:
    size = len(payload)
    return size + (2 if size < 126 else 4 if size < 65536 else 10) + 4 * masked


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("lanes", type=int)
    parser.add_argument("ways", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--latency", metavar="URL")
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    import openenv_gym  # noqa: F401

    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # Gymnasium's, about environments that are as they shall be here
    if args.latency:
        found: Any = latency(CASES[args.case], args.lanes, args.latency, args.steps)
    else:
        found = rates(CASES[args.case], args.lanes, args.ways, args.runs, args.seconds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
