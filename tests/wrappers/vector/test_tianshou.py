"""The adapter's own part; tests/external trains with it inside Tianshou."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.errors import ConfigError
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector import RemoteVectorEnv, to_tianshou
from openenv_gym.wrappers.vector.tianshou import TianshouVectorEnv
from tests.support.testenvs import SpaceEnv


@contextmanager
def adapter(
    name: str = "remote/CartPole-v1", n: int = 3, mode: str = "Disabled", **kwargs: Any
) -> Iterator[TianshouVectorEnv]:
    envs = gym.make_vec(name, num_envs=n, autoreset_mode=mode, provider="inprocess", **kwargs)
    assert isinstance(envs, RemoteVectorEnv)
    try:
        yield to_tianshou(envs)
    finally:
        envs.close()


def of(env: str, **kwargs: Any) -> dict[str, Any]:
    return {"name": "openenv/Gym-v0", "env_id": f"tests.support.testenvs:{env}", "env_kwargs": kwargs}


def test_steps_and_resets_are_those_of_single_environments() -> None:
    rng = np.random.default_rng(0)
    singles = [gym.make("CartPole-v1", max_episode_steps=12, disable_env_checker=True) for _ in range(4)]
    ended = 0
    with adapter(n=4, max_episode_steps=12) as envs:
        assert envs.seed(5) == [[5], [6], [7], [8]]
        for lane, env in enumerate(singles):
            env.reset(seed=5 + lane)
        for _ in range(80):
            lanes = rng.permutation(4)[: rng.integers(1, 5)]
            actions = rng.integers(0, 2, len(lanes))
            results = envs.step(actions, lanes)
            rows = [singles[lane].step(int(action)) for lane, action in zip(lanes, actions, strict=True)]
            for row, lane in zip(rows, lanes, strict=True):
                row[4]["env_id"] = int(lane)
            for mine, column in zip(results[:4], zip(*rows, strict=True), strict=False):
                assert difference(mine, np.stack(column)) is None
            assert results[4].tolist() == [row[4] for row in rows]
            done = np.flatnonzero(results[2] | results[3])
            if len(done):
                ended += len(done)
                observations, infos = envs.reset(lanes[done])
                again = [singles[lane].reset() for lane in lanes[done]]
                assert difference(observations, np.stack([row[0] for row in again])) is None
                assert infos.tolist() == [row[1] for row in again]
    assert ended > 10


def test_all_lanes_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with adapter() as envs:
        envs.reset()
        monkeypatch.setattr(envs.envs, "send_whole", None)
        for lanes in (None, [0, 1, 2], np.arange(3)):
            assert envs.step(np.zeros(3, np.int64), lanes)[0].shape == (3, 4)


def test_a_reset_gives_every_named_lane_the_seed_and_the_options() -> None:
    with adapter(**of("OptionsEnv")) as envs:
        _, infos = envs.reset(seed=4, options={"x": 1})
        assert [info["options"] for info in infos] == [{"x": 1}] * 3
        _, infos = envs.reset([2, 0], options={"x": 2})
        assert [info["options"] for info in infos] == [{"x": 2}] * 2
        with pytest.raises(TypeError, match="seed and options, not speed"):
            envs.reset(speed=3)
    with adapter() as envs:
        observations, _ = envs.reset(seed=4)
        assert (observations == observations[0]).all()
        again, _ = envs.reset(1, seed=4)
        assert difference(again, observations[:1]) is None


def test_seeds_may_be_a_list_or_none() -> None:
    with adapter() as envs:
        assert envs.seed([4, 4, 9]) == [[4], [4], [9]]
        assert envs.seed(None) == [[None]] * 3
        assert envs.step(np.zeros(3, np.int64))[1].tolist() == [1.0] * 3


@pytest.mark.parametrize("kind", ["dict", "box_float32", "text", "discrete"])
def test_observations_are_stacked(kind: str) -> None:
    singles = [SpaceEnv(kind) for _ in range(2)]
    with adapter(n=2, **of("SpaceEnv", kind=kind)) as envs:
        observations, _ = envs.reset(seed=3)
        rows = [env.reset(seed=3)[0] for env in singles]
        assert observations.shape[0] == 2
        assert difference(list(observations), list(np.stack(rows))) is None
        assert isinstance(observations, np.ndarray)


def test_tensors_are_actions() -> None:
    class Tensor:
        def detach(self) -> None: ...

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([0, 1, 1])

    with adapter() as envs:
        envs.reset()
        assert envs.step(Tensor())[1].tolist() == [1.0] * 3


def test_lanes_have_attributes() -> None:
    with adapter(render_mode="ansi", **of("RenderEnv")) as envs:
        assert len(envs) == envs.env_num == 3
        assert (envs.is_async, envs.waiting_id) == (False, [])
        assert envs.action_space == [envs.envs.single_action_space] * 3
        assert envs.observation_space == [envs.envs.single_observation_space] * 3
        assert envs.get_env_attr("render_mode", [1]) == ["ansi"]
        envs.reset()
        assert len(envs.render()) == 3
        with pytest.raises(AttributeError, match="no attribute 'speed'"):
            _ = envs.speed
        envs.close()
        assert envs.is_closed and envs.envs.closed


def test_attributes_are_set_in_all_lanes_or_none() -> None:
    with adapter(**of("CounterEnv")) as envs:
        envs.reset()
        envs.set_env_attr("level", 4)
        assert envs.get_env_attr("level") == [4, 4, 4]
        with pytest.raises(ConfigError, match="leave id out"):
            envs.set_env_attr("level", 5, [0])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mode": "NextStep"}, "autoreset_mode='Disabled'"),
        ({"copy": False}, "leave lanes and copy out"),
        (of("SpaceEnv", kind="tuple"), "no Tuple"),
    ],
)
def test_what_tianshou_cannot_use_is_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message), adapter(**kwargs):
        pass


def test_other_vector_environments_are_refused() -> None:
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")], autoreset_mode="Disabled")
    with pytest.raises(ConfigError, match="takes a RemoteVectorEnv"):
        to_tianshou(envs)  # type: ignore[arg-type]
    envs.close()
