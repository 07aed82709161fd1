"""On how many threads the lanes of a session run.

Threads pay for environments that wait: for a simulator, a model, a container. The lanes of one that computes
itself run on the session's own thread: other workers have the other cores, and several of its kind at work in
one process may disturb each other (pygame then draws wrong pixels). A lane cannot change its thread, so which
kind it is must be known before it is built: that is what one more environment is tried for, built and closed
before the lanes are.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Mapping
from time import perf_counter, thread_time
from typing import Any

import gymnasium as gym

from openenv_gym.errors import ConfigError

from .access import Access, release

__all__ = ["MOST_THREADS", "TRIAL", "is_slow", "threads_declared"]

_LOG = logging.getLogger("openenv_gym.server")
MOST_THREADS = 256
_STEPS = 8
_SLOW = 1e-3
_SURELY_SLOW = 20e-3
_SLOW_RESET = 0.1
TRIAL = (
    f"while an environment was built and tried (reset and at most {_STEPS} steps with random actions), which"
    " shows whether lanes need threads; lane_threads=N (--lane-threads N on the server) builds them without a"
    " trial"
)
"""When something went wrong, and how to do without."""


def is_slow(env: gym.Env[Any, Any]) -> bool:
    """Try an environment and close it; return whether its median step waits more than a millisecond.

    A call that waits long twice in a row ends the trial: once may be a first call that compiles or loads
    something. An environment that does not work counts as quick, since its lanes will say what is wrong:
    whatever it raises, ``SystemExit`` included, is logged only.
    """
    try:
        env.action_space.seed(0)
        return _slow_reset(env) or _slow_steps(env)
    except BaseException as exc:
        _LOG.info("an environment raised %r %s", exc, TRIAL)
        return False
    finally:
        _close(env)


def _close(env: gym.Env[Any, Any]) -> None:
    try:
        release([Access(env)])
    except BaseException as exc:
        _LOG.info("close() of an environment raised %r %s", exc, TRIAL)


def _slow_reset(env: gym.Env[Any, Any]) -> bool:
    return _waited(env.reset)[0] > _SLOW_RESET and _waited(env.reset)[0] > _SLOW_RESET


def _slow_steps(env: gym.Env[Any, Any]) -> bool:
    took: list[float] = []
    for _ in range(_STEPS):
        seconds, (_, _, terminated, truncated, _) = _waited(env.step, env.action_space.sample())
        took.append(seconds)
        if len(took) > 1 and min(took[-2:]) > _SURELY_SLOW:
            return True
        if terminated or truncated:
            env.reset()
    return statistics.median(took) > _SLOW


def _waited(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Return for how many seconds a call waited, and what it returned.

    Time in which this thread was only put aside for others, on a busy machine, does not count.
    """
    began, computed, waits = perf_counter(), thread_time(), _waits()
    result = call(*args)
    took = perf_counter() - began - (thread_time() - computed)
    return took if _waits() != waits else 0.0, result


def _waits() -> float:
    """Return how often this thread gave up its core by itself, where the system tells; else a new number."""
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (ImportError, AttributeError):
        return perf_counter()


def threads_declared(metadata: Mapping[str, Any], name: str) -> int:
    """Return the number of lane threads that an environment's class asks for in its metadata; 0: none.

    Raises:
        ConfigError: It is no such number.
    """
    count = metadata.get("lane_threads", 0)
    if type(count) is not int or count < 0:
        raise ConfigError(f"metadata['lane_threads'] of {name!r} is {count!r}; write a whole number above 0")
    return count
