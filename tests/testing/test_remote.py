from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.errors import ConfigError
from openenv_gym.testing import Agreement, check_remote
from openenv_gym.typed_env import TypedEnv
from tests.support.testenvs import MaskedEnv, RenderEnv, RewardEnv, SpaceEnv
from tests.support.typedenvs import GuessNumber


class Off(SpaceEnv):
    """Agrees with SpaceEnv("dict") but for what ``wrong`` says, from the fourth step on."""

    def __init__(self, wrong: str) -> None:
        super().__init__("dict")
        self.wrong = wrong

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(**kwargs)
        return obs, info | ({"new": 1} if self.wrong == "reset" else {})

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.count >= 4:
            match self.wrong:
                case "obs":
                    obs = {"a": obs["a"], "b": int(obs["b"])}
                case "reward":
                    reward = np.float64(reward)
                case "terminated":
                    terminated = bool(terminated)
                case "info":
                    info["action"]["b"] += 1
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("reset", r"reset\(seed=3\): info has the keys \['episode', 'new'\], not \['episode'\]"),
        ("obs", r"step 3 \(episode 1\): obs\['b'\] is \d \(int\), not np.int64\(\d\)"),
        ("reward", r"step 3 \(episode 1\): reward is np.float64"),
        ("terminated", r"step 3 \(episode 1\): terminated is False \(bool\), not np.bool"),
        ("info", r"step 3 \(episode 1\): info\['action'\]\['b'\] is"),
    ],
)
def test_a_difference_is_found_and_named(wrong: str, says: str) -> None:
    with pytest.raises(AssertionError, match=f"the remote environment differs: {says}"):
        check_remote(Off(wrong), SpaceEnv("dict"), seed=3)


def test_what_was_compared_is_counted() -> None:
    # Its episodes are 7 steps long when they are the first of a seed.
    assert check_remote(SpaceEnv("nested"), SpaceEnv("nested"), steps=15) == Agreement(15, 3, 0)


def test_a_typed_environment_may_be_the_local_one() -> None:
    assert check_remote(TypedEnv(GuessNumber()), GuessNumber(), steps=20).steps == 20
    with pytest.raises(AssertionError, match="between 1 and 100"):
        check_remote(TypedEnv(GuessNumber()), GuessNumber(highest=3))


def test_frames_are_compared() -> None:
    ours, theirs = RenderEnv("rgb_array"), RenderEnv("rgb_array")
    assert check_remote(ours, theirs, steps=25, frames=10).frames == 10
    theirs.render = lambda: np.zeros((6, 8, 3), np.uint8)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=r"step 0: frame\[0, 0, 0\] is .* elements differ"):
        check_remote(ours, theirs, frames=1)


def test_spaces_metadata_and_render_mode_count() -> None:
    class Other(RewardEnv):
        metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    with pytest.raises(AssertionError, match="observation_space is"):
        check_remote(SpaceEnv("box_int8"), SpaceEnv("box_bool"))
    with pytest.raises(AssertionError, match="metadata is"):
        check_remote(Other(), RewardEnv())
    with pytest.raises(AssertionError, match="render_mode is 'ansi', not None"):
        check_remote(RenderEnv("ansi"), RenderEnv())


def test_a_policy_chooses_the_actions() -> None:
    local = MaskedEnv()

    def allowed(obs: Any, info: dict[str, Any]) -> int:
        return int(np.argmax(local.action_masks()))

    assert check_remote(MaskedEnv(), local, steps=40, policy=allowed) == Agreement(40, 5, 0)


def test_each_env_gets_an_action_of_its_own() -> None:
    class Greedy(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            action[...] = 0
            return self.env.step(action)

    check_remote(SpaceEnv("box_int8"), SpaceEnv("box_int8"), steps=5)
    with pytest.raises(AssertionError, match="info"):
        check_remote(Greedy(SpaceEnv("box_int8")), SpaceEnv("box_int8"), steps=5)


def test_what_an_env_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="not allowed"):
        check_remote(MaskedEnv(), MaskedEnv(), policy=lambda obs, info: 1)


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="local is a str; pass a gymnasium.Env"):
        check_remote(RewardEnv(), "CartPole-v1")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="remote is a SyncVectorEnv; .* check_vector_env"):
        check_remote(SyncVectorEnv([RewardEnv]), RewardEnv())  # type: ignore[arg-type]
