"""Step lanes of frames side by side through OpenEnv's client.

``python frames_client.py PORT LANES RUNS SECONDS`` prints one JSON list: frames per second of all lanes in
each run. Every frame becomes an array, as what trains on it wants.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
from openenv.core import GenericEnvClient


def frame_of(result: Any) -> np.ndarray[Any, Any]:
    observation = result.observation
    return np.array(observation["screen"], np.uint8).reshape(observation["screen_shape"])


async def measure(port: int, lanes: int, runs: int, seconds: float) -> list[float]:
    rates = []
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(GenericEnvClient(base_url=f"http://127.0.0.1:{port}"))
            for _ in range(lanes)
        ]
        await asyncio.gather(*(client.reset() for client in clients))
        for _ in range(runs):
            count, begun = 0, time.perf_counter()
            while (taken := time.perf_counter() - begun) < seconds:
                results = await asyncio.gather(*(client.step({"action": 1}) for client in clients))
                np.stack([frame_of(result) for result in results])
                count += lanes
            rates.append(count / taken)
    return rates


if __name__ == "__main__":
    port, lanes, runs, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    print(json.dumps(asyncio.run(measure(port, lanes, runs, seconds))))
