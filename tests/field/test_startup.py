"""A server that takes long to start is waited for as long as the user says, and no other limit counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import pytest

from openenv_gym.errors import StartupTimeoutError
from tests.support.serverproc import eventually

_SLOW = """
import pathlib, time

from tests.support.testenvs import CounterEnv

folder = pathlib.Path(__file__).parent
print("shard 1 of 2 is loaded", flush=True)
(folder / "begun").touch()
while not (folder / "ready").exists():
    time.sleep(0.01)
"""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """Return a target whose import does not end before there is a file ``ready`` beside it."""
    (tmp_path / "slow.py").write_text(_SLOW)
    return f"{tmp_path / 'slow.py'}:CounterEnv"


def _make(target: str, **settings: float) -> gym.Env[object, object]:
    return gym.make("openenv/Gym-v0", env_id=target, **settings)


def test_f008_a_slow_start_is_no_failure(slow: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(_make, slow, startup_timeout=60.0, connect_timeout=4.0, step_timeout=4.0)
        assert eventually(lambda: (tmp_path / "begun").exists() or made.done())
        with pytest.raises(TimeoutError):
            made.result(timeout=5.0)
        (tmp_path / "ready").touch()
        env = made.result()
    env.reset()
    env.close()


def test_f008_a_start_that_takes_too_long_shows_the_log(slow: str, tmp_path: Path) -> None:
    with pytest.raises(StartupTimeoutError, match="startup_timeout=8 s") as caught:
        _make(slow, startup_timeout=8.0)
    assert "shard 1 of 2 is loaded" in str(caught.value)
    assert "shard 1 of 2 is loaded" in caught.value.details["log"]
    (tmp_path / "ready").touch()
    env = _make(slow, startup_timeout=60.0)
    env.reset()
    env.close()


@pytest.mark.full
def test_f008_the_default_allows_for_minutes(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(45)\n" + _SLOW)
    (tmp_path / "ready").touch()
    env = _make(f"{tmp_path / 'slow.py'}:CounterEnv")
    env.reset()
    env.close()
