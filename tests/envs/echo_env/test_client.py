"""Echo's client against a server of Echo, in the forms that programs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import gymnasium as gym
import pytest

from openenv_gym.envs.echo_env import CallToolAction, EchoAction, EchoEnv, EchoObservation, ListToolsAction
from openenv_gym.errors import ToolNotFoundError, ValidationError
from openenv_gym.models import State
from tests.support.serverproc import serving

HELLO = "Hello, World!"


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving("echo", "--workers", "1") as server:
        yield server.url.replace("ws://", "http://")


def test_the_quickstart(base_url: str) -> None:
    async def main() -> None:
        async with EchoEnv(base_url=base_url) as client:
            result = await client.reset()
            assert result.observation.echoed_message == "Echo environment ready!"
            call = CallToolAction(tool_name="echo_message", arguments={"message": HELLO})
            result = await client.step(call)
            assert result.observation.result == HELLO
            assert result.reward == pytest.approx(1.3)

    asyncio.run(main())
    with EchoEnv(base_url=base_url).sync() as client:
        assert client.reset().observation.echoed_message == "Echo environment ready!"


def test_every_form_gives_the_same(base_url: str) -> None:
    with EchoEnv(base_url=base_url).sync() as client:
        client.reset(episode_id="mine")
        said = client.step(EchoAction(HELLO))
        assert isinstance(said.observation, EchoObservation)
        called = client.step(CallToolAction(tool_name="echo_with_length", arguments={"message": HELLO}))
        assert called.observation.result == {"message": HELLO, "length": 13}
        for result in (said, called):
            assert (result.observation.echoed_message, result.observation.message_length) == (HELLO, 13)
            assert result.reward == pytest.approx(1.3)
            assert result.metadata == {"message_length": 13}
        listed = client.step(ListToolsAction())
        assert [tool.name for tool in listed.observation.tools] == ["echo_message", "echo_with_length"]
        assert listed.reward is None
        assert client.state() == State(episode_id="mine", step_count=3)


def test_tools_without_actions(base_url: str) -> None:
    with EchoEnv(base_url=base_url).sync() as client:
        client.reset()
        assert [tool.name for tool in client.list_tools()] == ["echo_message", "echo_with_length"]
        assert client.call_tool("echo_message", message=HELLO) == HELLO
        with pytest.raises(ToolNotFoundError):
            client.call_tool("shout", message=HELLO)
        with pytest.raises(ValidationError):
            client.call_tool("echo_message", words=HELLO)


def test_a_wrong_action_costs_nothing(base_url: str) -> None:
    with EchoEnv(base_url=base_url).sync() as client:
        client.reset()
        with pytest.raises(ValidationError):
            client.step({"text": HELLO})
        assert client.state().step_count == 0
        assert client.step({"message": HELLO}).observation.message_length == 13


def test_a_server_of_echo_is_the_gymnasium_env_of_that_name(base_url: str) -> None:
    env = gym.make("openenv/Echo-v0", base_url=base_url)
    assert env.reset(seed=1) == ("Echo environment ready!", {})
    assert env.step("hello")[:2] == ("hello", pytest.approx(0.5))
    env.close()
