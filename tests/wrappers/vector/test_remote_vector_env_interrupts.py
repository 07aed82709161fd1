"""No interrupt, whenever it comes, loses or invents a step of a lane, or leaves the environment stuck."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError

from openenv_gym.errors import InterruptedStepError, ResetNeededError
from openenv_gym.providers.base import _shared
from openenv_gym.wrappers.vector import RemoteVectorEnv
from tests.support.interrupts import Interrupter, collect_all, interrupter, main_thread_alone

LANES = 4
ACTIONS = np.zeros(LANES, np.int64)

pytestmark = [
    # Between the making of a socket and the name that is given to it an interrupt leaves it to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    pytest.mark.timeout(method="thread"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    collect_all()


@contextlib.contextmanager
def scene(seed: int, **kwargs: Any) -> Iterator[tuple[RemoteVectorEnv, Interrupter]]:
    """Yield lanes in two sessions, reset, and what interrupts their calls."""
    with main_thread_alone():
        envs = gym.make_vec(
            "openenv/Gym-v0",
            num_envs=LANES,
            env_id="tests.support.testenvs:Counter-v0",
            provider="inprocess",
            lanes_per_worker=2,
            lane_threads=1,
            step_timeout=30.0,
            **kwargs,
        )
    assert isinstance(envs, RemoteVectorEnv)
    try:
        envs.reset()
        with interrupter(random.Random(seed), 1.2e-3) as interrupts:
            yield envs, interrupts
    finally:
        envs.close()
        for provider in _shared.values():
            provider.stop()


def attempt(interrupts: Interrupter, call: Callable[[], Any]) -> Any:
    """Return the result of a call, ``None`` when it was interrupted."""
    try:
        return interrupts.call(call)
    except KeyboardInterrupt:
        return None


def next_step(envs: RemoteVectorEnv, count: int) -> int:
    """Step once more, or reset if that is asked for; return how many steps the lanes have taken then."""
    try:
        assert envs.step(ACTIONS)[0].tolist() == [count + 1] * LANES
        return count + 1
    except InterruptedStepError:
        assert envs.reset()[0].tolist() == [0] * LANES
        return 0


def in_turn(envs: RemoteVectorEnv, mask: Any) -> Any:
    """Reset the lanes in the mask, then the others, unless all must be reset together."""
    try:
        envs.reset(options={"reset_mask": mask})
    except ResetNeededError:  # an interrupt took an observation that the other lanes were to keep
        return envs.reset()[0]
    with pytest.raises(ResetNeededError, match="lanes 1 to 3"):
        envs.step(ACTIONS)
    return envs.reset(options={"reset_mask": ~mask})[0]


@pytest.mark.parametrize("on_error", ["raise", "truncate"])
def test_steps(on_error: str) -> None:
    with scene(0, on_error=on_error) as (envs, interrupts):
        count = resets = 0
        while interrupts.count < 80:
            result = attempt(interrupts, lambda: envs.step(ACTIONS))
            if result is None:
                count = next_step(envs, count)
                resets += count == 0
            else:
                count += 1
                assert result[0].tolist() == [count] * LANES
        assert resets > 0


def test_steps_in_two_halves() -> None:
    with scene(1) as (envs, interrupts):
        count = 0

        def both() -> Any:
            envs.step_async(ACTIONS)
            return envs.step_wait()

        while interrupts.count < 80:
            result = attempt(interrupts, both)
            if result is None:
                # The interrupt may have come between the two: the caller can wait, and must not send.
                with contextlib.suppress(InterruptedStepError):
                    try:
                        envs.step_async(ACTIONS)
                    except AlreadyPendingCallError:
                        pass
                    result = envs.step_wait()
            if result is None:
                assert envs.reset()[0].tolist() == [0] * LANES
                count = 0
            else:
                count += 1
                assert result[0].tolist() == [count] * LANES


def test_resets() -> None:
    with scene(2) as (envs, interrupts):
        count = 0
        while interrupts.count < 80:
            count = next_step(envs, count)
            count = next_step(envs, count) if attempt(interrupts, lambda: envs.reset()) is None else 0


def test_masked_resets() -> None:
    mask = np.array([True, False, False, False])
    with scene(3, autoreset_mode="Disabled") as (envs, interrupts):
        counts = np.zeros(LANES, np.int64)
        while interrupts.count < 80:
            result = attempt(interrupts, lambda: envs.reset(options={"reset_mask": mask}))
            if result is not None:
                counts[mask] = 0
                assert result[0].tolist() == counts.tolist()
            try:
                observations = envs.step(ACTIONS)[0]
                counts += 1
            except InterruptedStepError:
                observations = in_turn(envs, mask)
                counts[:] = 0
            assert observations.tolist() == counts.tolist()


def test_batches_of_lanes_that_are_ready_first() -> None:
    with scene(4) as (envs, interrupts):
        counts = np.zeros(LANES, np.int64)

        def send() -> bool:
            envs.send(ACTIONS)
            return True

        def sent() -> None:
            try:
                envs.send(ACTIONS)
            except AlreadyPendingCallError:  # the interrupt came when all was done
                pass

        while interrupts.count < 80:
            try:
                if attempt(interrupts, send) is None:
                    sent()
                for _ in range(2):
                    batch = attempt(interrupts, lambda: envs.recv(2))
                    if batch is None:
                        batch = envs.recv(2)  # whatever was not given out is still there
                    counts[batch.lanes] += 1
                    assert batch.observations.tolist() == counts[batch.lanes].tolist()
            except InterruptedStepError:
                assert envs.reset()[0].tolist() == [0] * LANES
                counts[:] = 0


def test_questions() -> None:
    with scene(5) as (envs, interrupts):
        total = np.zeros(LANES, np.int64)
        while interrupts.count < 80:
            result = attempt(interrupts, lambda: envs.call("bump"))
            try:
                if result is None:
                    result = envs.call("bump")
                total += 1
                assert list(result) == total.tolist()
            except InterruptedStepError:
                infos = envs.reset()[1]
                assert ((infos["total"] - total) <= 1).all()
                total = infos["total"].copy()
