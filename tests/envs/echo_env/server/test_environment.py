"""Echo says what it was told, in every form."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from openenv_gym.envs import echo_env
from openenv_gym.envs.echo_env import EchoAction, EchoObservation
from openenv_gym.envs.echo_env.models import PlainEchoObservation
from openenv_gym.envs.echo_env.server.environment import EchoEnvironment
from openenv_gym.errors import ValidationError
from openenv_gym.models import CallToolAction, ListToolsAction, ListToolsObservation
from openenv_gym.playing import Player
from openenv_gym.servers.faces import face_of
from openenv_gym.tools import tool
from openenv_gym.typed_env import TypedEnv

TEXT = "Grüße, \U0001f600 世界"


def _env(**arguments: Any) -> TypedEnv:
    return TypedEnv(EchoEnvironment(**arguments))


def _call(name: str, message: Any) -> CallToolAction:
    return CallToolAction(tool_name=name, arguments={"message": message})


# -- as Gymnasium sees it


def test_an_episode() -> None:
    env = _env()
    assert env.reset(seed=1) == ("Echo environment ready!", {})
    assert env.step("hello") == ("hello", pytest.approx(0.5), False, False, {"message_length": 5})
    assert env.step("") == ("", 0.0, False, False, {"message_length": 0})
    assert env.step(TEXT) == (TEXT, 0.1 * len(TEXT), False, False, {"message_length": len(TEXT)})


def test_the_greeting_is_an_observation_even_of_a_short_echo() -> None:
    env = _env(max_length=3)
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    assert env.action_space.contains("abc")
    assert not env.action_space.contains("abcd")


def test_it_passes_the_checker_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(_env(max_length=20), skip_render_check=True)


def test_it_renders_as_text() -> None:
    env = _env(render_mode="ansi")
    env.reset()
    assert env.render() == "Echo environment ready!"
    env.step("hello")
    assert env.render() == "hello"
    env.step(_call("echo_message", "by a tool"))
    assert env.render() == "by a tool"
    assert _env().render() is None


@pytest.mark.parametrize("arguments", [{"max_length": 0}, {"render_mode": "rgb_array"}])
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        EchoEnvironment(**arguments)


# -- typed


def test_a_message() -> None:
    player = Player(EchoEnvironment())
    assert player.reset() == PlainEchoObservation("Echo environment ready!")
    said = player.step(EchoAction(TEXT))
    assert said == PlainEchoObservation(
        TEXT, len(TEXT), reward=0.1 * len(TEXT), metadata={"message_length": len(TEXT)}
    )


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("echo_message", "Hello, World!"),
        ("echo_with_length", {"message": "Hello, World!", "length": 13}),
    ],
)
def test_a_tool(name: str, result: Any) -> None:
    player = Player(EchoEnvironment())
    player.reset()
    said = player.step(_call(name, "Hello, World!"))
    assert isinstance(said, EchoObservation)
    assert (said.tool_name, said.result, said.error) == (name, result, None)
    assert (said.echoed_message, said.message_length) == ("Hello, World!", 13)
    assert said.reward == pytest.approx(1.3)
    assert said.metadata == {"message_length": 13}


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (_call("echo_message", 7), "invalid_args"),
        (_call("echo_message", "four"), "execution_error"),
        (_call("shout", "x"), "tool_not_found"),
    ],
)
def test_a_call_that_fails_echoes_and_earns_nothing(action: CallToolAction, kind: str) -> None:
    player = Player(EchoEnvironment(max_length=3))
    player.reset()
    said = player.step(action)
    assert said.error is not None
    assert said.error.error_type == kind
    assert said.result is None
    assert not said.reward
    assert not getattr(said, "echoed_message", "")


def test_the_list_of_tools_earns_nothing() -> None:
    player = Player(EchoEnvironment())
    player.reset()
    listed = player.step(ListToolsAction())
    assert isinstance(listed, ListToolsObservation)
    assert [each.name for each in listed.tools] == ["echo_message", "echo_with_length"]
    assert listed.tools[0].input_schema["required"] == ["message"]
    assert listed.reward is None


def test_tools_of_a_subclass_are_its_own_business() -> None:
    class Louder(EchoEnvironment):
        @tool
        def shout(self, words: str) -> str:
            """Say it louder."""
            return words.upper()

    player = Player(Louder())
    player.reset()
    said = player.step(CallToolAction(tool_name="shout", arguments={"words": "hi"}))
    assert (said.result, said.reward) == ("HI", None)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("four", r"str of length <= 3 \(max_length\), got 4 characters"),
        (5, "str, got int: 5"),
        (None, "str, got NoneType: None"),
    ],
)
def test_a_message_that_is_too_long_or_none_is_refused(message: Any, words: str) -> None:
    player = Player(EchoEnvironment(max_length=3))
    player.reset()
    with pytest.raises(ValidationError, match=rf"^\$\.message: expected {words}") as info:
        player.step(player.environment.from_gym(message))
    assert info.value.details["path"] == "$.message"


def test_f106_rewards_follow_the_message() -> None:
    player = Player(EchoEnvironment())
    player.reset()
    messages = ["", "a", "Hello, World!", TEXT]
    for action in (
        EchoAction,
        lambda text: _call("echo_message", text),
        lambda text: _call("echo_with_length", text),
    ):
        rewards = [player.step(action(message)).reward for message in messages]
        assert rewards == pytest.approx([0.1 * len(message) for message in messages])


def test_f042_a_call_must_say_that_it_is_one() -> None:
    face = face_of(_env(), "echo")
    face.reset(None, {})
    with pytest.raises(ValidationError):
        face.step({"tool_name": "echo_message", "arguments": {"message": "hi"}})
    assert face.state()["step_count"] == 0
    assert face.step({"message": "hi"}).fields == {"echoed_message": "hi", "message_length": 2}
    called = face.step({"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hi"}})
    assert called.fields["result"]["data"] == "hi"
    assert called.fields["echoed_message"] == "hi"
    assert face.step({"type": "list_tools"}).fields["tools"][1]["name"] == "echo_with_length"
    assert face.state()["step_count"] == 3


def test_it_says_what_it_is() -> None:
    described = EchoEnvironment().describe()
    project = tomllib.loads((Path(echo_env.__file__).parent / "pyproject.toml").read_text())["project"]
    assert (described.name, described.version) == ("echo_env", project["version"])
    assert described.readme_content is not None
    assert "# Echo" in described.readme_content
