from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import ConfigError, ResetNeededError, VectorEnvError
from openenv_gym.registration import mirror
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import Halves
from tests.support import testenvs

from .rollouts import local, making

mirror()
assert testenvs.SPACE_IDS


@pytest.mark.parametrize(
    ("lanes", "lanes_per_worker", "due"),
    [
        (4, None, [0, 1]),
        (5, None, [0, 1]),
        (8, 4, [0, 1, 4, 5]),
        (3, 1, [1]),
        (4, 1, [1, 3]),
        (6, 3, [0, 3, 4]),
    ],
)
def test_each_half_has_lanes_of_every_session(
    lanes: int, lanes_per_worker: int | None, due: list[int]
) -> None:
    with making("Counter-v0", lanes, lanes_per_worker=lanes_per_worker) as envs:
        first, second = Halves(envs).lanes
    assert list(first) == due
    assert sorted([*first, *second]) == list(range(lanes))


@pytest.mark.parametrize("lanes_per_worker", [None, 2])
def test_the_halves_take_turns_and_each_sees_what_it_would_alone(lanes_per_worker: int | None) -> None:
    with making("CartPole-v1", 4, lanes_per_worker=lanes_per_worker) as envs:
        sync = local("CartPole-v1", 4)
        rng = np.random.default_rng(0)
        plan = rng.integers(0, 2, (30, 4))
        halves = Halves(envs)
        halves.reset(seed=3)
        due: list[Any] = [sync.reset(seed=3), *(sync.step(actions) for actions in plan)]
        for turn in range(60):
            batch = halves.recv()
            lanes = halves.lanes[turn % 2]
            assert batch.lanes.tolist() == list(lanes)
            step = due[turn // 2]
            assert difference(batch.observations, step[0][list(lanes)]) is None
            rewards = np.zeros(2) if turn < 2 else step[1][list(lanes)]
            assert difference(batch.rewards, rewards) is None
            halves.send(plan[turn // 2][list(lanes)])
        sync.close()


def test_infos_of_the_reset_belong_to_the_half() -> None:
    with making("Counter-v0", 4) as envs:
        halves = Halves(envs)
        halves.reset()
        batch = halves.recv()
        assert batch.infos["total"].tolist() == [0, 0]
        assert batch.infos["_total"].tolist() == [True, True]
        assert not batch.terminations.any() and not batch.truncations.any()


def test_turns_are_kept() -> None:
    with making("Counter-v0", 2) as envs:
        halves = Halves(envs)
        with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
            halves.recv()
        halves.reset()
        with pytest.raises(ResetNeededError, match=r"call recv\(\) first"):
            halves.send([0])
        halves.recv()
        with pytest.raises(ResetNeededError, match=r"send\(\) the actions"):
            halves.recv()
        halves.send([0])
        halves.recv()
        halves.send([0])
        assert halves.recv().infos["total"].tolist() == [1]
        halves.send([0])


def test_what_has_no_halves_is_refused() -> None:
    with making("Counter-v0", 1) as envs, pytest.raises(ConfigError, match="two lanes or more"):
        Halves(envs)
    sync: Any = local("Counter-v0", 2)
    with pytest.raises(ConfigError, match="not a SyncVectorEnv"):
        Halves(sync)
    sync.close()


@pytest.mark.parametrize("lanes_per_worker", [None, 1])
def test_a_reset_goes_on_after_an_error(lanes_per_worker: int | None) -> None:
    each: list[dict[str, Any]] = [{"at": 99}, {"at": 99}, {"at": 99}, {"at": 2}]
    with making("Crash-v0", 4, env_kwargs=each, lane_threads=1, lanes_per_worker=lanes_per_worker) as envs:
        halves = Halves(envs)
        halves.reset()
        with pytest.raises(VectorEnvError, match="the environment failed"):
            for _ in range(6):
                halves.recv()
                halves.send(np.zeros(2, np.int64))
        for _ in range(2):
            halves.reset()
            batch = halves.recv()
            assert batch.lanes.tolist() == list(halves.lanes[0])
            assert batch.observations.tolist() == [0, 0]
        halves.send(np.zeros(2, np.int64))
        halves.recv()
        halves.send(np.zeros(2, np.int64))
        assert halves.recv().observations.tolist() == [1, 1]
