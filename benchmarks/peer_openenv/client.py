"""Time CartPole steps through OpenEnv's client: ``python client.py PORT STEPS [sync|async]``.

Prints one JSON list: the seconds of each step. An episode that is over is reset outside the clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from openenv.core import GenericEnvClient

WARM_UP = 200


def time_sync(port: int, steps: int) -> list[float]:
    times = []
    with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
        client.reset(seed=0)
        for number in range(WARM_UP + steps):
            start = time.perf_counter()
            result = client.step({"action": number % 2})
            times.append(time.perf_counter() - start)
            if result.done:
                client.reset()
    return times[WARM_UP:]


async def time_async(port: int, steps: int) -> list[float]:
    times = []
    async with GenericEnvClient(base_url=f"http://127.0.0.1:{port}") as client:
        await client.reset(seed=0)
        for number in range(WARM_UP + steps):
            start = time.perf_counter()
            result = await client.step({"action": number % 2})
            times.append(time.perf_counter() - start)
            if result.done:
                await client.reset()
    return times[WARM_UP:]


if __name__ == "__main__":
    port, steps, kind = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or ["sync"])[0]
    print(json.dumps(time_sync(port, steps) if kind == "sync" else asyncio.run(time_async(port, steps))))
