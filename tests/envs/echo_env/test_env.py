"""Echo says what it was told."""

from __future__ import annotations

import warnings

import pytest
from gymnasium.utils.env_checker import check_env

from openenv_gym.envs.echo_env import EchoEnv


def test_an_episode() -> None:
    env = EchoEnv()
    assert env.reset(seed=1) == ("Echo environment ready!", {})
    assert env.step("hello") == ("hello", pytest.approx(0.5), False, False, {"message_length": 5})
    assert env.step("") == ("", 0.0, False, False, {"message_length": 0})
    text = "Grüße, \U0001f600 世界"
    assert env.step(text) == (text, 0.1 * len(text), False, False, {"message_length": len(text)})


def test_the_greeting_is_an_observation_even_of_a_short_echo() -> None:
    env = EchoEnv(max_length=3)
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    assert env.action_space.contains("abc")
    assert not env.action_space.contains("abcd")


def test_it_passes_the_checker_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(EchoEnv(max_length=20), skip_render_check=True)


def test_it_renders_as_text() -> None:
    env = EchoEnv(render_mode="ansi")
    env.reset()
    assert env.render() == "Echo environment ready!"
    env.step("hello")
    assert env.render() == "hello"
    assert EchoEnv().render() is None


@pytest.mark.parametrize("arguments", [{"max_length": 0}, {"render_mode": "rgb_array"}])
def test_impossible_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        EchoEnv(**arguments)  # type: ignore[arg-type]
