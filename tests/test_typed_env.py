"""Typed environments seen by Gymnasium."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, OneOf
from gymnasium.utils.env_checker import check_env

from openenv_gym.environment import Environment
from openenv_gym.errors import ConfigError, UnsupportedError, ValidationError
from openenv_gym.models import Action, CallToolAction, ListToolsAction, Observation, State
from openenv_gym.spaces import Unicode
from openenv_gym.typed_env import TypedEnv
from tests.support.typedenvs import Calculator, Guess, GuessNumber, Hint, Mixed, Raising, Walk


class SeededWalk(Walk):
    """Takes the seed that Gymnasium's checker gives."""

    async def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        """Start in the middle."""
        return await super().reset()


@pytest.mark.parametrize("kind", [GuessNumber, Mixed, Calculator, SeededWalk])
def test_check_env_passes(kind: Any) -> None:
    env = TypedEnv(kind())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    env.close()
    ours = [str(item.message) for item in caught if "infinity" not in str(item.message)]
    assert ours == []


def test_a_struct_of_one_field_is_that_field() -> None:
    env = TypedEnv(GuessNumber(highest=1))
    assert env.action_space == Discrete(100, start=1)
    assert env.observation_space == Unicode(64)
    assert env.reset(options={"level": 2}) == ("between 1 and 1", {"level": 2})
    assert env.step(2) == ("less", 0.0, False, False, {})
    assert env.step(np.int64(1)) == ("that is it", 1.0, True, False, {})


def test_an_action_may_be_given_as_such() -> None:
    env = TypedEnv(GuessNumber(highest=1))
    env.reset()
    assert env.step(Guess(1))[1] == 1.0


def test_an_action_that_does_not_fit_never_reaches_the_environment() -> None:
    env = TypedEnv(GuessNumber(highest=1))
    env.reset()
    with pytest.raises(ValidationError, match=r"\$\.number: expected int <= 100, got 101"):
        env.step(Guess(101))
    assert env.remote_state()["step_count"] == 0


@pytest.mark.parametrize(
    ("options", "what"),
    [(5, "options is a int; pass a dict"), ({"seed": 5}, "options has a seed; pass it as")],
)
def test_options_are_a_dict_without_a_seed(options: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        TypedEnv(GuessNumber()).reset(options=options)


def test_a_list_of_tools_is_no_observation() -> None:
    env = TypedEnv(Calculator())
    env.reset()
    with pytest.raises(UnsupportedError, match=r"tool_table.list\(\) returns it"):
        env.step(ListToolsAction())
    assert env.remote_state()["step_count"] == 0


def test_several_fields_are_a_dict_and_names_are_kept() -> None:
    env = TypedEnv(Walk())
    assert env.observation_space == Dict(
        {"at": Discrete(21, start=-10), "picture": Box(0, 255, (2, 3), np.uint8)}
    )
    assert env.metadata["names"] == {"action": {"$.direction": ["left", "right"]}}
    env.reset()
    observation, reward, terminated, truncated, info = env.step(np.int64(1))
    assert observation["at"] == 1
    assert observation["picture"].tolist() == [[1] * 3] * 2
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"rubric": {"scores": {"": 0.0, "goal": None}}}
    env.close()


def test_no_reward_is_zero_and_said_so() -> None:
    env = TypedEnv(Calculator())
    assert isinstance(env.action_space, OneOf)
    env.reset()
    observation, reward, *_, info = env.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
    assert (observation["result"], reward, info) == (3, 0.0, {"openenv": {"reward": None}})
    assert env.observation_space.contains(observation)
    env.close()


def test_spaces_of_its_own() -> None:
    class Own(GuessNumber):
        action_space = Box(0.0, 1.0, (), np.float64)
        observation_space = Discrete(3)

        def from_gym(self, value: Any) -> Guess:
            return Guess(1 + int(value * 99))

        def to_gym(self, observation: Hint) -> np.int64:
            return np.int64(
                ["more", "less"].index(observation.text) if observation.text in ("more", "less") else 2
            )

    env = TypedEnv(Own(highest=1))
    assert env.reset()[0] == 2
    assert env.step(np.array(0.5))[0] == 1


@pytest.mark.parametrize("attribute", ["action_space", "observation_space"])
def test_a_space_of_its_own_needs_a_translation(attribute: str) -> None:
    kind: Any = type("Own", (GuessNumber,), {attribute: Discrete(3)})
    env = TypedEnv(kind())
    with pytest.raises(ConfigError, match=r"from_gym|to_gym"):
        env.reset()
        env.step(np.int64(1))


def test_without_actions_there_is_no_env() -> None:
    class Empty(Environment[Action, Observation, State]):
        pass

    with pytest.raises(ConfigError, match="no actions"):
        TypedEnv(Empty())


def test_what_is_no_action_is_refused() -> None:
    env = TypedEnv(GuessNumber())
    env.reset()
    with pytest.raises(ValidationError):
        env.step(101)


def test_an_observation_that_its_type_does_not_allow_is_no_fault_of_the_action() -> None:
    class Wordy(GuessNumber):
        def step(self, action: Guess) -> Hint:
            return Hint("x" * 65)

    env = TypedEnv(Wordy())
    env.reset()
    with pytest.raises(ConfigError, match=r"Wordy gave an observation that its type does not allow: \$.text"):
        env.step(5)


def test_what_the_environment_raises_is_raised() -> None:
    env = TypedEnv(Raising())
    env.reset()
    with pytest.raises(RuntimeError, match="no 5 today"):
        env.step(5)


def test_a_limit_truncates_and_render_and_close_reach_the_environment() -> None:
    class Drawn(GuessNumber):
        metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 (as Gymnasium has it)
        closed = False

        def render(self) -> str:
            return f"1..{self.highest}"

        def close(self) -> None:
            self.closed = True

    inner = Drawn(highest=2)
    env = TypedEnv(inner, limit=1)
    env.reset()
    assert env.step(100)[3] is True
    assert env.render() == "1..2"
    env.close()
    assert inner.closed


def test_gymnasium_wrappers_take_it() -> None:
    env = gym.wrappers.RecordEpisodeStatistics(TypedEnv(GuessNumber(highest=1)))
    env.reset()
    assert env.step(1)[4]["episode"]["r"] == 1.0


def test_attributes_and_methods_are_those_of_the_environment() -> None:
    class Adjustable(GuessNumber):
        async def hardest(self, factor: int) -> int:
            return self.highest * factor

    inner = Adjustable(highest=2)
    env = gym.wrappers.OrderEnforcing(TypedEnv(inner))
    assert env.get_wrapper_attr("highest") == 2
    assert env.get_wrapper_attr("hardest")(factor=3) == 6
    env.set_wrapper_attr("highest", 1)
    env.unwrapped.bonus = 2.5  # type: ignore[attr-defined]  # as a curriculum would
    assert (inner.highest, inner.bonus) == (1, 2.5)  # type: ignore[attr-defined]
    assert env.reset()[0] == "between 1 and 1"
    assert not env.has_wrapper_attr("lowest")
    assert not env.has_wrapper_attr("_state")
    env.close()


def test_what_gymnasium_sets_stays_here() -> None:
    inner = GuessNumber()
    env = TypedEnv(inner)
    env.render_mode = "ansi"
    env.spec = None
    env.reset(seed=1)
    assert inner.render_mode is None
    assert "spec" not in vars(inner)
    assert env.np_random_seed == 1


def test_the_state_is_a_dict() -> None:
    env = TypedEnv(Walk())
    env.reset(options={"episode_id": "first"})
    env.step(np.int64(1))
    assert env.remote_state() == {"episode_id": "first", "step_count": 1, "furthest": 1}
    env.close()
