"""The adapter's own part; tests/external trains with it inside Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import openenv_gym.wrappers.vector.sb3 as sb3
from openenv_gym.errors import ConfigError
from openenv_gym.testing import difference
from openenv_gym.wrappers.vector.sb3 import VecEnvMethods, to_sb3
from tests.support.testenvs import AttrEnv, OptionsEnv, RenderEnv, SpaceEnv

MODES = [mode.value for mode in AutoresetMode]


class Base:
    """The attributes that VecEnv's constructor makes."""

    def __init__(self, num_envs: int, observation_space: Any, action_space: Any) -> None:
        self.num_envs = num_envs
        self.observation_space, self.action_space = observation_space, action_space
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._options: list[dict[str, Any]] = [{} for _ in range(num_envs)]


class Adapter(VecEnvMethods, Base):
    pass


def sync(make: Callable[[], Any], n: int = 2, mode: str = "SameStep") -> SyncVectorEnv:
    return SyncVectorEnv([make] * n, autoreset_mode=mode)


def by_hand(make: Callable[[], Any], n: int, actions: list[Any], seed: int) -> Any:
    """Yield what each step must return: the loop over single environments that the adapter stands for."""
    envs = [make() for _ in range(n)]
    for lane, env in enumerate(envs):
        env.reset(seed=seed + lane)
    for batch in actions:
        rows = []
        for env, action in zip(envs, batch, strict=True):
            obs, reward, terminated, truncated, info = env.step(action)
            info["TimeLimit.truncated"] = bool(truncated and not terminated)
            reset_info = None
            if terminated or truncated:
                info["terminal_observation"] = obs
                obs, reset_info = env.reset()
            rows.append((obs, np.float32(reward), bool(terminated or truncated), info, reset_info))
        yield rows


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("remote", [False, True])
def test_steps_are_those_of_single_environments(mode: str, remote: bool) -> None:
    def make() -> gym.Env[Any, Any]:
        return gym.make("CartPole-v1", max_episode_steps=15, disable_env_checker=True)

    if remote:
        envs: Any = gym.make_vec(
            "remote/CartPole-v1", 3, max_episode_steps=15, autoreset_mode=mode, provider="inprocess"
        )
    else:
        envs = sync(make, 3, mode)
    adapter = Adapter(envs)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 2, 3) for _ in range(60)]
    adapter._seeds = [5, 6, 7]
    adapter.reset()
    truncations = 0
    for batch, rows in zip(actions, by_hand(make, 3, actions, 5), strict=True):
        adapter.step_async(batch)
        observations, rewards, dones, infos = adapter.step_wait()
        assert difference(list(observations), [row[0] for row in rows]) is None
        assert difference(rewards, np.array([row[1] for row in rows])) is None
        assert dones.tolist() == [row[2] for row in rows]
        for lane, row in enumerate(rows):
            last = [info.pop("terminal_observation", None) for info in (infos[lane], row[3])]
            assert difference(*last) is None
            assert infos[lane] == row[3]
            assert row[4] is None or adapter.reset_infos[lane] == row[4]
            truncations += infos[lane]["TimeLimit.truncated"]
    assert truncations > 0
    adapter.close()
    assert envs.closed


@pytest.mark.parametrize("mode", MODES)
def test_infos_and_last_observations_are_the_lanes(mode: str) -> None:
    adapter = Adapter(sync(lambda: SpaceEnv("dict"), 2, mode))
    adapter.reset()
    assert adapter.reset_infos == [{"episode": 1}] * 2
    space = adapter.envs.action_space
    for _ in range(6):
        adapter.step_async(space.sample())
        assert not adapter.step_wait()[2].any()
    adapter.step_async(space.sample())
    _, _, dones, infos = adapter.step_wait()
    assert dones.all()
    assert [set(info) for info in infos] == [
        {"action", "digest", "terminal_observation", "TimeLimit.truncated"}
    ] * 2
    assert all(adapter.observation_space.contains(info["terminal_observation"]) for info in infos)
    assert adapter.reset_infos == [{"episode": 2}] * 2


def test_seeds_are_used_once() -> None:
    seen: list[Any] = []

    class Listening(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            seen.append(seed)
            return super().reset(seed=seed, options=options)

    adapter = Adapter(Listening([OptionsEnv] * 2, autoreset_mode="SameStep"))
    for seeds in ([4, 5], None, [4, 4], [None, 4]):
        if seeds is not None:
            adapter._seeds = seeds  # type: ignore[assignment]
        adapter.reset()
    assert seen == [4, None, [4, 4], [None, 4]]
    adapter.reset()
    assert seen[-1] is None


def test_options_are_used_once_and_the_same_for_all() -> None:
    adapter = Adapter(sync(OptionsEnv))
    adapter._options = [{"x": 1}, {"x": 1}]
    adapter.reset()
    assert [info["options"] for info in adapter.reset_infos] == [{"x": 1}] * 2
    adapter.reset()
    assert [info["options"] for info in adapter.reset_infos] == [None] * 2
    adapter._options = [{"x": 1}, {"x": 2}]
    with pytest.raises(ConfigError, match="the same options"):
        adapter.reset()


def test_attributes_and_methods_of_lanes() -> None:
    adapter = Adapter(sync(AttrEnv, 3))
    assert adapter.get_attr("greeting") == ["hello"] * 3
    assert adapter.get_attr("gravity", [2, 0]) == [9.8, 9.8]
    assert adapter.env_method("add", 2, right=3) == [5, 5, 5]
    assert adapter.env_method("add", 2, indices=1) == [3]
    adapter.set_attr("gravity", 1.0, indices=[1])
    assert adapter.get_attr("gravity") == [9.8, 1.0, 9.8]
    adapter.set_attr("gravity", [7])
    assert adapter.get_attr("gravity") == [[7]] * 3
    with pytest.raises(AttributeError):
        adapter.get_attr("nonsense")


def test_remote_lanes_are_reached_together_or_one_by_one() -> None:
    envs = gym.make_vec("openenv/Gym-v0", 2, env_id="tests.support.testenvs:Attr-v0", provider="inprocess")
    adapter = Adapter(envs)
    assert adapter.env_method("add", 2) == [3, 3]
    assert adapter.get_attr("gravity", 1) == [9.8]
    adapter.set_attr("gravity", 2.0)
    assert adapter.get_attr("gravity") == [2.0, 2.0]
    assert adapter.env_method("add", 2, right=5, indices=1) == [7]
    adapter.set_attr("gravity", 3.0, indices=[1])
    assert adapter.get_attr("gravity") == [2.0, 3.0]
    assert adapter.env_is_wrapped(gym.wrappers.TimeLimit) == [False, False]
    adapter.close()


def test_native_lanes_are_reached_together() -> None:
    envs = gym.make_vec("remote/CartPole-v1", 2, lanes="native", provider="inprocess")
    adapter = Adapter(envs)
    with pytest.raises(ConfigError, match="leave indices out"):
        adapter.env_method("close", indices=0)
    with pytest.raises(ConfigError, match="leave indices out"):
        adapter.set_attr("gravity", 2.0, indices=0)
    adapter.close()


def test_wrappers_around_local_lanes_are_found() -> None:
    adapter = Adapter(sync(lambda: gym.wrappers.TimeLimit(AttrEnv(), 5)))
    assert adapter.env_is_wrapped(gym.wrappers.TimeLimit, 0) == [True]
    assert adapter.env_is_wrapped(gym.wrappers.ClipAction) == [False, False]


def test_frames_are_a_list() -> None:
    frames = Adapter(sync(lambda: RenderEnv("rgb_array"))).get_images()
    assert [frame.shape for frame in frames] == [(6, 8, 3)] * 2
    adapter = Adapter(sync(RenderEnv))
    assert adapter.get_images() == [None, None]
    assert adapter.get_attr("render_mode") == [None, None]


def test_a_vector_class_without_attributes_says_so() -> None:
    adapter = Adapter(gym.make_vec("CartPole-v1", 2))
    assert adapter.get_attr("render_mode") == [None, None]
    with pytest.raises(AttributeError, match=r"has no get_attr\(\), so its lanes' 'x'"):
        adapter.get_attr("x")


def test_vector_wrappers_are_stepped_through() -> None:
    envs = gym.wrappers.vector.ClipReward(sync(AttrEnv), -0.5, 0.5)
    adapter = Adapter(envs)
    adapter.reset()
    adapter.step_async(np.zeros(2, np.int64))
    assert adapter.step_wait()[1].tolist() == [0.5, 0.5]
    assert adapter.env_method("add", 1) == [2, 2]


@pytest.fixture
def with_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3, "_vec_env_class", lambda: Adapter)


@pytest.mark.usefixtures("with_base")
def test_environments_that_cannot_be_adapted_are_refused() -> None:
    class Silent(SyncVectorEnv):
        def __init__(self) -> None:
            super().__init__([AttrEnv])
            self.metadata["autoreset_mode"] = "NextStep"

    with pytest.raises(ConfigError, match="it must be a member of AutoresetMode"):
        to_sb3(Silent())
    with pytest.raises(ConfigError, match="without copy=False"):
        to_sb3(SyncVectorEnv([AttrEnv], copy=False))
    twice = AsyncVectorEnv([AttrEnv], shared_memory=False)
    with pytest.raises(ConfigError, match="resets lanes twice"):
        to_sb3(twice)
    twice.close()
    assert isinstance(to_sb3(sync(AttrEnv)), Adapter)


def test_a_missing_library_is_named() -> None:
    # It is not among the libraries of these tests.
    with pytest.raises(ImportError, match="pip install stable-baselines3"):
        to_sb3(sync(AttrEnv))


@pytest.mark.parametrize("other", [3, AttrEnv])
def test_what_is_no_vector_environment_is_refused(other: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes a vector environment, .* not a (int|AttrEnv)"):
        to_sb3(other if other == 3 else other())
