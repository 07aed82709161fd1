"""Our clients, and Gymnasium, against servers that are built with the openenv package."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym import EnvClient, GenericEnvClient, MCPToolClient
from openenv_gym.errors import (
    CapacityError,
    ConstructionError,
    DeadlineExceededError,
    OpenEnvError,
    RemoteEnvironmentError,
    ServerConnectionError,
    SessionLostError,
    ToolFailedError,
    ToolNotFoundError,
    ValidationError,
)
from openenv_gym.models import CallToolAction, CallToolObservation, ListToolsAction
from tests.support.serverproc import eventually

from .ours import ProbeAction, ProbeObservation, ProbeState
from .peer import peer_serving

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


class ProbeEnv(EnvClient[ProbeAction, ProbeObservation, ProbeState]):
    """Its types are Structs; those of the server are pydantic models."""


@contextlib.contextmanager
def _only_slot(url: str) -> Iterator[Any]:
    """Take the only slot, which their server gives back some time after a client has left."""
    with GenericEnvClient(base_url=url).sync() as client:

        def taken() -> bool:
            with contextlib.suppress(CapacityError):
                client.reset()
                return True
            return False

        assert eventually(taken)
        yield client


# -- typed clients


def test_an_episode_on_an_event_loop(theirs: dict[str, str]) -> None:
    async def main() -> None:
        async with GenericEnvClient(base_url=theirs["probe"]) as client:
            first = await client.reset(seed=1, episode_id="mine", level=3)
            assert first.observation == {"echoed": "ready", "length": 0, "val": None}
            assert first.metadata == {"seed": 1, "level": 3}
            rewards = [
                (await client.step({"message": text})).reward for text in ("hi", "true", "one", "nothing")
            ]
            assert rewards == [pytest.approx(0.2), True, 1, None]
            last = await client.step({"message": "end"})
            assert (last.done, last.terminated, last.truncated) == (True, True, False)
            assert await client.state() == {"episode_id": "mine", "step_count": 5, "last": "end"}

    asyncio.run(main())


def test_calls_that_are_not_awaited(theirs: dict[str, str]) -> None:
    client = GenericEnvClient(base_url=theirs["probe"])
    assert client.reset().observation["echoed"] == "ready"
    assert client.step({"message": "hi", "mood": "loud"}).observation["echoed"] == "HI"
    client.close()


def test_structs_for_pydantic_models(theirs: dict[str, str]) -> None:
    with ProbeEnv(base_url=theirs["probe"]).sync() as client:
        assert client.reset(episode_id="mine").observation.echoed == "ready"
        result = client.step(ProbeAction("hi", metadata={"tag": 1}))
        assert result.observation == ProbeObservation(
            "hi", 2, 0.5, reward=pytest.approx(0.2), metadata={"step": 1}
        )
        assert client.state() == ProbeState("hi", episode_id="mine", step_count=1)


@pytest.mark.parametrize(
    ("action", "kind", "text"),
    [
        ({"message": ""}, ValidationError, "at least 1 character"),
        ({"message": "hi", "speed": 1}, ValidationError, "speed"),
        ({}, ValidationError, "message"),
        ({"message": "kaboom"}, RemoteEnvironmentError, "kaboom"),
    ],
)
def test_a_refused_step_leaves_the_session(
    action: dict[str, Any], kind: type[OpenEnvError], text: str, theirs: dict[str, str]
) -> None:
    with ProbeEnv(base_url=theirs["probe"]).sync() as client:
        client.reset()
        with pytest.raises(kind, match=text) as info:
            client.step(action)
        assert isinstance(info.value, RuntimeError)  # as their clients raise
        assert client.step(ProbeAction("hi")).metadata == {"step": 1}


def test_a_slow_step_ends_the_session_and_no_answer_is_taken_for_another(theirs: dict[str, str]) -> None:
    with GenericEnvClient(base_url=theirs["probe"], message_timeout_s=5.0).sync() as client:
        client.reset()
        with pytest.raises(DeadlineExceededError) as info:
            client.step({"message": "slow"})
        assert isinstance(info.value, TimeoutError)
        with pytest.raises(SessionLostError):
            client.step({"message": "hi"})
        client.reset()
        assert client.step({"message": "hi"}).observation["echoed"] == "hi"


def test_a_full_server_says_so(theirs: dict[str, str]) -> None:
    with _only_slot(theirs["solo"]) as client:
        other = GenericEnvClient(base_url=theirs["solo"])
        with pytest.raises(CapacityError, match="1/1 sessions") as info:
            other.reset()
        assert isinstance(info.value, RuntimeError)
        other.close()
        assert client.step({"message": "hi"}).reward == pytest.approx(0.2)


def test_an_environment_that_cannot_be_built(theirs: dict[str, str]) -> None:
    client = GenericEnvClient(base_url=theirs["broken"])
    with pytest.raises(ConstructionError, match="Broken"):
        client.reset()
    client.close()


# -- tools


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_tools(mode: str, theirs: dict[str, str]) -> None:
    with MCPToolClient(base_url=theirs["tools"], mode=mode).sync() as client:
        tools = client.list_tools()
        assert [tool.name for tool in tools] == ["add", "describe", "fail"]
        assert tools[0].input_schema["required"] == ["a"]
        assert client.call_tool("add", a=1) == 3
        assert client.call_tool("describe", word="hi") == {"word": "hi", "letters": ["h", "i"]}
        with pytest.raises(ToolFailedError, match="tool failed: q"):
            client.call_tool("fail", why="q")
        with pytest.raises(ToolNotFoundError):
            client.call_tool("nope")
        with pytest.raises((ToolFailedError, ValidationError), match="Missing required argument"):
            client.call_tool("add", c=1)


def test_tools_by_steps(theirs: dict[str, str]) -> None:
    with MCPToolClient(base_url=theirs["tools"], mode="simulation").sync() as client:
        client.reset()
        listed = client.step(ListToolsAction()).observation
        assert [tool.name for tool in listed.tools] == ["add", "describe", "fail"]
        result = client.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 5}))
        assert result.observation == CallToolObservation("add", 6)
        assert result.reward is None
        failed = client.step(CallToolAction(tool_name="fail", arguments={"why": "q"})).observation
        assert (failed.result, failed.error.error_type) == (None, "execution_error")


# -- Gymnasium


@pytest.fixture
def env(theirs: dict[str, str]) -> Iterator[gym.Env[Any, Any]]:
    made = gym.make("openenv/Remote-v0", base_url=theirs["probe"])
    yield made
    made.close()


def test_gymnasium_plays_an_episode(env: gym.Env[Any, Any]) -> None:
    observation, info = env.reset(seed=1, options={"level": 3})
    assert (observation["echoed"], info) == ("ready", {"seed": 1, "level": 3})
    assert env.observation_space.contains(observation)
    calm = {"message": "hi", "mood": 0}
    observation, reward, terminated, truncated, info = env.step(calm)
    assert (observation["echoed"], reward, terminated, truncated) == ("hi", pytest.approx(0.2), False, False)
    assert info == {"step": 1}
    assert env.step({**calm, "mood": 1})[0]["echoed"] == "HI"
    nothing = env.step({**calm, "message": "nothing"})
    assert (nothing[1], nothing[4]["openenv"]) == (0.0, {"reward": None})
    with pytest.raises(RemoteEnvironmentError, match="kaboom"):
        env.step({**calm, "message": "kaboom"})
    assert env.step({**calm, "message": "end"})[2:4] == (True, False)
    assert env.unwrapped.remote_state()["last"] == "end"  # type: ignore[attr-defined]


def test_samples_of_the_derived_spaces_are_actions(env: gym.Env[Any, Any]) -> None:
    env.action_space.seed(5)
    env.reset()
    for _ in range(20):
        action = env.action_space.sample()
        observation = env.step(copy.deepcopy(action))[0]
        assert observation["length"] == np.array(len(action["message"]))
        assert env.observation_space.contains(observation)


def test_gymnasium_calls_tools(theirs: dict[str, str]) -> None:
    env = gym.make("openenv/Remote-v0", base_url=theirs["tools"])
    env.reset()
    arguments = (np.int64(0), {"a": 1, "b": 5})
    observation = env.step({"tool_name": "add", "arguments": arguments})[0]
    assert observation["result"]["data"] == 6
    env.close()


@pytest.mark.parametrize(("kind", "error"), [("solo", CapacityError), ("broken", ConstructionError)])
def test_gymnasium_is_told_what_cannot_be_had(
    kind: str, error: type[OpenEnvError], theirs: dict[str, str]
) -> None:
    with _only_slot(theirs["solo"]):
        env = gym.make("openenv/Remote-v0", base_url=theirs[kind])
        with pytest.raises(error):
            env.reset()
        env.close()


def test_vector_environments_of_several_sessions(theirs: dict[str, str]) -> None:
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make("openenv_gym:openenv/Remote-v0", base_url=theirs["probe"]) for _ in range(2)]
    )
    observations, _ = envs.reset(seed=4)
    assert list(observations["echoed"]) == ["ready", "ready"]
    envs.close()


def test_a_server_that_is_gone_takes_the_session_along(openenv: Path) -> None:
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(peer_serving(openenv, "probe"))["probe"]
        client = GenericEnvClient(base_url=url)
        client.reset()
        stack.close()
        with pytest.raises(SessionLostError):
            client.step({"message": "hi"})
        with pytest.raises(ServerConnectionError) as info:
            client.reset()
        assert isinstance(info.value, ConnectionError)
        client.close()
