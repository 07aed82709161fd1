from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import openenv_gym  # noqa: F401 - registers the ids
from openenv_gym.errors import ConfigError
from openenv_gym.wrappers import RecordTrajectory, ReplayDifferenceError, Replayed, replay
from openenv_gym.wrappers import vector as vectors
from tests.support.infozoo import OPAQUE
from tests.support.testenvs import InfoEnv, OptionsEnv, RewardEnv, SpaceEnv

#: What this package brings, but for the ids that run whatever they are told to.
BUNDLED = sorted(
    name
    for name, spec in gym.registry.items()
    if spec.namespace == "openenv" and spec.kwargs.get("target") is not None
)
SPACES = ("nested", "text", "graph", "sequence", "one_of", "box_float16", "unicode", "json")


def record(env: gym.Env[Any, Any], folder: Path, steps: int = 20, seed: int | None = 3) -> str:
    """Record a rollout, close the env and return the file."""
    with RecordTrajectory(env, folder) as recorded:
        recorded.action_space.seed(seed)
        recorded.reset(seed=seed)
        for _ in range(steps):
            _, _, terminated, truncated, _ = recorded.step(recorded.action_space.sample())
            if terminated or truncated:
                recorded.reset()
        return str(recorded.path)


@pytest.mark.parametrize("env_id", BUNDLED)
def test_every_bundled_environment_repeats_itself(env_id: str, tmp_path: Path) -> None:
    path = record(gym.make(env_id), tmp_path)
    assert replay(path).steps == 20


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1", "remote/Acrobot-v1"])
def test_an_env_is_made_from_the_recorded_spec(env_id: str, tmp_path: Path) -> None:
    path = record(gym.make(env_id), tmp_path, steps=50, seed=None)
    done = replay(path)
    assert (done.steps, done.raised, done.cut) == (50, 0, False)
    assert done.resets >= 1


@pytest.mark.parametrize("kind", SPACES)
def test_every_space_is_recorded(kind: str, tmp_path: Path) -> None:
    assert replay(record(SpaceEnv(kind), tmp_path), SpaceEnv(kind)) == Replayed(4, 20, 0, False)


@pytest.mark.filterwarnings("ignore:a value of type:UserWarning")
@pytest.mark.parametrize("group", ["exact", "mapped", "opaque"])
def test_every_info_is_recorded(group: str, tmp_path: Path) -> None:
    path = record(InfoEnv(group), tmp_path, steps=len(OPAQUE))
    assert replay(path, InfoEnv(group)).steps == len(OPAQUE)


def test_a_remote_env_repeats_what_a_local_one_did(tmp_path: Path) -> None:
    path = record(gym.make("CartPole-v1"), tmp_path)
    with gym.make("remote/CartPole-v1", provider="inprocess") as env:
        assert replay(path, env).steps == 20


class Off(SpaceEnv):
    """Agrees with SpaceEnv("dict") but for one part, from the fourth step of the second episode on."""

    def __init__(self, part: int) -> None:
        super().__init__("dict")
        self._part = part

    def step(self, action: Any) -> Any:
        result: list[Any] = list(super().step(action))
        if self._episode == 2 and self.count >= 4:
            result[self._part] = {0: result[0] | {"b": result[0]["b"] + 1}, 1: 0.0, 2: True, 3: True}.get(
                self._part, {**result[4], "action": None}
            )
        return tuple(result)


@pytest.mark.parametrize(
    ("part", "field", "says"),
    [
        (0, "observation", r"observation\['b'\] is np.int64\(\d\), not np.int64"),
        (1, "reward", r"reward is 0.0 \(float\), not "),
        (2, "terminated", r"terminated is True \(bool\), not np."),
        (3, "truncated", r"truncated is True \(bool\), not False \(bool\)"),
        (4, "info", r"info\['action'\] is None \(NoneType\), not \{"),
    ],
)
def test_the_first_difference_is_named(part: int, field: str, says: str, tmp_path: Path) -> None:
    path = record(SpaceEnv("dict"), tmp_path)
    # The first episode has 7 steps.
    with pytest.raises(ReplayDifferenceError, match=rf"-0.trajectory, step 10 \(reset 2\): {says}") as caught:
        replay(path, Off(part))
    assert (caught.value.step, caught.value.reset, caught.value.field) == (10, 2, field)


def test_another_reset_is_named(tmp_path: Path) -> None:
    path = record(OptionsEnv(mood="good"), tmp_path)
    with pytest.raises(ReplayDifferenceError, match="before the first reset: info") as caught:
        replay(path, OptionsEnv(mood="bad"))
    assert (caught.value.step, caught.value.reset, caught.value.field) == (0, 0, "info")


def test_other_spaces_are_named(tmp_path: Path) -> None:
    path = record(SpaceEnv("dict"), tmp_path)
    with pytest.raises(ReplayDifferenceError, match="observation_space is Box") as caught:
        replay(path, SpaceEnv("box_int8"))
    assert caught.value.field == "observation_space"


class Failing(RewardEnv):
    """Raises in every third step, unless it ``works``."""

    def __init__(self, works: bool = False) -> None:
        super().__init__()
        self._works = works

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.count % 3 == 0 and not self._works:
            raise RuntimeError("stuck")
        return result


def test_what_raised_must_raise_again(tmp_path: Path) -> None:
    with RecordTrajectory(Failing(), tmp_path) as env:
        env.reset()
        for step in range(1, 8):
            if step % 3:
                env.step(0)
            else:
                with pytest.raises(RuntimeError):
                    env.step(0)
    assert replay(str(env.path), Failing()) == Replayed(1, 5, 2, False)
    with pytest.raises(
        ReplayDifferenceError, match=r"step returned; .* raised RuntimeError: stuck"
    ) as caught:
        replay(str(env.path), Failing(works=True))
    assert (caught.value.step, caught.value.field) == (2, "error")


def test_a_file_that_was_cut_is_repeated_as_far_as_it_goes(tmp_path: Path) -> None:
    path = Path(record(SpaceEnv("dict"), tmp_path))
    path.write_bytes(path.read_bytes()[:-5])
    assert replay(path, SpaceEnv("dict")) == Replayed(4, 19, 0, True)


def test_a_file_without_a_spec_takes_an_env(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no spec to make an env from; pass env="):
        replay(record(SpaceEnv("dict"), tmp_path))


@pytest.mark.parametrize(
    ("known", "damaged", "says"),
    [
        (b"discrete", b"distrete", "its header: .*'distrete' is unknown"),
        (b'{"id"', b'{,id"', "its spec: .*line 1"),
    ],
)
def test_a_damaged_header_is_told(known: bytes, damaged: bytes, says: str, tmp_path: Path) -> None:
    path = Path(record(gym.make("CartPole-v1"), tmp_path))
    data = path.read_bytes()
    assert known in data
    path.write_bytes(data.replace(known, damaged))
    with pytest.raises(ConfigError, match=f"is damaged, {says}.*; record it again"):
        replay(path)


# -- vector environments


def record_lanes(envs: Any, folder: Path, steps: int = 20) -> str:
    recorded = vectors.RecordTrajectory(envs, folder)
    disabled = envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    recorded.action_space.seed(1)
    recorded.reset(seed=1)
    for _ in range(steps):
        _, _, terminated, truncated, _ = recorded.step(recorded.action_space.sample())
        if disabled and (terminated | truncated).any():
            recorded.reset(options={"reset_mask": terminated | truncated})
    recorded.close()
    return str(recorded.path)


@pytest.mark.parametrize("mode", [mode.value for mode in AutoresetMode])
def test_lanes_repeat_themselves(mode: str, tmp_path: Path) -> None:
    def make() -> Any:
        return SyncVectorEnv([lambda: SpaceEnv("nested")] * 3, autoreset_mode=mode)

    assert replay(record_lanes(make(), tmp_path), make()).steps == 20


def test_remote_lanes_are_made_from_the_recorded_spec(tmp_path: Path) -> None:
    envs = gym.make_vec("remote/CartPole-v1", 3, autoreset_mode="SameStep", provider="inprocess")
    assert replay(record_lanes(envs, tmp_path)) == Replayed(1, 20, 0, False)


def test_a_difference_of_lanes_is_named(tmp_path: Path) -> None:
    path = record_lanes(SyncVectorEnv([lambda: SpaceEnv("dict")] * 2), tmp_path)
    with pytest.raises(ReplayDifferenceError, match=r"rewards\[1\] is np.float64\(0.0\), not") as caught:
        replay(path, SyncVectorEnv([lambda: SpaceEnv("dict"), lambda: Off(1)]))
    assert caught.value.field == "rewards"
    with pytest.raises(ReplayDifferenceError, match="num_envs is 3, not 2"):
        replay(path, SyncVectorEnv([lambda: SpaceEnv("dict")] * 3))


def test_the_kinds_are_not_confused(tmp_path: Path) -> None:
    path = record(SpaceEnv("dict"), tmp_path)
    with pytest.raises(ConfigError, match="of kind 'env'"):
        replay(path, SyncVectorEnv([lambda: SpaceEnv("dict")]))
