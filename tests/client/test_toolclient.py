"""A client that lists and calls tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import MCPToolClient
from openenv_gym.models import Tool
from tests.client.jsonserver import observation, serving_json
from tests.client.sleeper import Nap, Sleeps, Slept
from tests.support.serverproc import ServerProcess


@pytest.fixture(params=["simulation", "production"])
def tools(request: pytest.FixtureRequest, sleeper_url: str) -> Iterator[Any]:
    with MCPToolClient(sleeper_url, mode=request.param).sync() as tools:
        if request.param == "simulation":
            tools.reset()
        yield tools


def test_tools_are_listed_and_called(tools: Any) -> None:
    assert [tool.name for tool in tools.list_tools()] == ["add", "fail", "hang"]
    assert tools.call_tool("add", a=3) == 5
    assert tools.call_tool("add", a=3, b=4) == 7
    assert tools.get_tool("add").description == "Add two numbers."
    assert tools.get_tool("add").input_schema["properties"]["a"]["type"] == "integer"
    assert (tools.has_tool("add"), tools.has_tool("nope"), tools.get_tool("nope")) == (True, False, None)


def test_what_goes_wrong_with_a_tool_is_typed_and_a_runtime_error(tools: Any) -> None:
    with pytest.raises(errors.ToolNotFoundError, match="nope"):
        tools.call_tool("nope")
    with pytest.raises(errors.ToolFailedError, match="because of this"):
        tools.call_tool("fail", why="because of this")
    for name, arguments in (("fail", {"why": "x"}), ("nope", {}), ("hang", {}), ("add", {"a": "x"})):
        with pytest.raises(RuntimeError):
            tools.call_tool(name, **arguments)
    assert tools.call_tool("add", a=1) == 3


def test_calls_are_steps_and_earn_rewards_in_simulation_only(sleeper_url: str) -> None:
    with MCPToolClient(sleeper_url).sync() as tools:
        tools.reset()
        tools.call_tool("add", a=1)
        assert tools.last_result.observation.result == 3
        assert tools.state()["step_count"] == 1
        assert tools.step(Nap(say="x")).observation["said"] == "x"
    with MCPToolClient(sleeper_url, mode="production").sync() as tools:
        for method, arguments in ((tools.reset, ()), (tools.step, (Nap(),)), (tools.state, ())):
            with pytest.raises(errors.UnsupportedError, match="needs mode='simulation'"):
                method(*arguments)


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_f024_on_a_loop_they_are_awaited_or_used(sleeper_url: str, mode: str) -> None:
    async def main() -> None:
        async with MCPToolClient(sleeper_url, mode=mode) as client:
            if mode == "simulation":
                await client.reset()
            assert await client.call_tool("add", a=1) == 3
            assert [tool.name for tool in await client.list_tools()] == ["add", "fail", "hang"]
            assert client.list_tools()[0].name == "add"
            assert await client.has_tool("add")

    asyncio.run(main())


def test_what_was_learned_is_kept_until_reset_or_on_request(sleeper_url: str) -> None:
    with MCPToolClient(sleeper_url).sync() as tools:
        tools.reset()
        tools.list_tools()
        tools.list_tools()
        assert tools.state()["step_count"] == 1
        tools.list_tools(use_cache=False)
        assert tools.state()["step_count"] == 2
        tools.reset()
        tools.list_tools()
        assert tools.state()["step_count"] == 1


def test_an_environment_without_tools_says_so() -> None:
    with serving_json(lambda message, number: observation({"echoed": "x"})) as server:
        client = MCPToolClient(server.url)
        with pytest.raises(errors.UnsupportedError, match="has no tools"):
            client.list_tools()
        client.close()


def test_f096_a_session_that_a_restarted_server_forgot_is_opened_again_once() -> None:
    server = ServerProcess("tests.client.sleeper:Sleeper")
    server.start()
    client = MCPToolClient(server.url, mode="production").sync()
    try:
        assert client.call_tool("add", a=1) == 3
        server.stop()
        server.start()
        with pytest.warns(UserWarning, match="the environment's state is lost"):
            assert client.call_tool("add", a=2) == 4
        assert client.call_tool("add", a=3) == 5
    finally:
        client.close()
        server.stop()


def test_results_and_tools_of_other_servers_are_understood() -> None:
    fields = {"tool_name": "add", "error": None}
    wrapped = {"content": [], "structured_content": {"result": 7}, "data": 7, "is_error": False}

    def answer(message: dict[str, Any], number: int) -> Any:
        if message["data"]["type"] == "list_tools":
            return observation({"tools": [{"name": "add", "description": None, "inputSchema": {"a": 1}}]})
        return observation({**fields, "result": wrapped if message["data"]["arguments"] else 8})

    with serving_json(answer) as server:
        client = MCPToolClient(server.url)
        assert client.list_tools() == [Tool(name="add", input_schema={"a": 1})]
        assert (client.call_tool("add", a=1), client.call_tool("add")) == (7, 8)
        client.close()
    assert server.seen[1] == {
        "type": "step",
        "data": {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1}},
    }


def test_another_session_in_production_mode_is_one_of_tools(sleeper_url: str) -> None:
    client = MCPToolClient(sleeper_url, mode="production").sync()
    other = client.new_session()
    assert other.call_tool("add", a=1) == 3
    client.close()
    with pytest.raises(errors.EnvClosedError):
        other.call_tool("add", a=1)


def test_the_list_of_tools_is_the_callers_and_may_be_awaited(sleeper_url: str) -> None:
    with MCPToolClient(sleeper_url) as client:
        tools = client.list_tools()
        tools.clear()
        again = client.list_tools()
    assert [tool.name for tool in again] == ["add", "fail", "hang"]

    async def main() -> Any:
        return await again

    assert asyncio.run(main()) is again


def test_types_are_named_in_brackets() -> None:
    class Typed(MCPToolClient[Nap, Slept, Sleeps]):
        pass

    assert (Typed.action_type, Typed.observation_type, Typed.state_type) == (Nap, Slept, Sleeps)


def test_a_closed_client_calls_nothing(sleeper_url: str) -> None:
    client = MCPToolClient(sleeper_url, mode="production")
    client.connect()
    client.close()
    with pytest.raises(errors.EnvClosedError):
        client.call_tool("add", a=1)
