from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.errors import (
    ConfigError,
    ServerConnectionError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from openenv_gym.tools import ToolTable, mount

from .mcpservers import build

COMMAND = [sys.executable, str(Path(__file__).with_name("mcpservers.py"))]


@pytest.fixture(scope="module")
def table() -> Iterator[ToolTable]:
    table = ToolTable(mounted=[build(), mount(build("other"), "o_"), mount(COMMAND, "s_", timeout=20.0)])
    yield table
    table.close()


def test_tools_of_several_servers_stand_together(table: ToolTable) -> None:
    names = [tool.name for tool in table.list()]
    assert {"add", "o_add", "s_add"} <= set(names)
    (add,) = (tool for tool in table.list() if tool.name == "s_add")
    assert add.description == "Add two numbers."
    assert add.input_schema["required"] == ["a", "b"]
    assert add.output_schema is not None and add.output_schema["required"] == ["result"]


@pytest.mark.parametrize("prefix", ["", "o_", "s_"])
def test_calls_reach_their_server(table: ToolTable, prefix: str) -> None:
    assert table.call(f"{prefix}add", {"a": 1, "b": 2}) == 3
    first = table.call(f"{prefix}tally")["count"]
    assert table.call(f"{prefix}tally")["count"] == first + 1


@pytest.mark.parametrize("prefix", ["", "s_"])
def test_a_failing_tool_is_an_error(table: ToolTable, prefix: str) -> None:
    with pytest.raises(ToolFailedError, match=rf"tool '{prefix}fail' failed: .*broken on purpose"):
        table.call(f"{prefix}fail")
    with pytest.raises(ToolFailedError):
        table.call(f"{prefix}add", {"a": "x", "b": 2})


def test_unknown_tools_are_named(table: ToolTable) -> None:
    with pytest.raises(ToolNotFoundError, match="no tool 'nope'"):
        table.call("nope")


@pytest.mark.parametrize("prefix", ["", "s_"])
def test_f099_a_call_has_its_own_deadline(table: ToolTable, prefix: str) -> None:
    table.list()  # so that the sessions are open, whichever test comes first
    with pytest.raises(ToolTimeoutError, match="mount\\(\\.\\.\\., timeout=") as caught:
        table.call(f"{prefix}wait", {"seconds": 60.0}, timeout=0.2)
    assert caught.value.details == {"tool": f"{prefix}wait", "timeout": 0.2}
    assert table.call(f"{prefix}wait", {"seconds": 0.0}) == "waited"


def test_calls_may_be_awaited_on_any_loop(table: ToolTable) -> None:
    async def both() -> list[Any]:
        return list(
            await asyncio.gather(table.start("add", {"a": 1, "b": 1}), table.start("s_add", {"a": 2, "b": 2}))
        )

    assert asyncio.run(both()) == [2, 4]


def test_what_is_more_than_a_value_stays_whole(table: ToolTable) -> None:
    result = table.call("two_texts")
    assert [block["text"] for block in result.content] == ["one", "two"]


def test_a_changed_list_is_noticed(table: ToolTable) -> None:
    assert "o_grown" not in {tool.name for tool in table.list()}
    table.call("o_grow")
    assert "o_grown" in {tool.name for tool in table.list()}
    assert table.call("o_grown") == "new"


def test_a_command_that_ends_is_an_error_and_begins_anew() -> None:
    table = ToolTable(mounted=[COMMAND])
    try:
        assert table.call("tally") == {"count": 1}
        with pytest.raises(ServerConnectionError, match="cannot be reached"):
            table.call("leave")
        again = table.call("tally")
        assert again.data == {"count": 1}
        assert again.meta == {"openenv": {"session_renewed": True}}
    finally:
        table.close()


def test_two_tools_of_one_name_want_a_prefix() -> None:
    table = ToolTable(mounted=[build("a"), build("b")])
    try:
        with pytest.raises(ConfigError, match="mount one of their servers with a prefix"):
            table.list()
    finally:
        table.close()


@pytest.mark.parametrize("server", [["/nonexistent/program"], "http://127.0.0.1:9/mcp"])
def test_a_server_that_is_not_there_is_an_error(server: Any) -> None:
    table = ToolTable(mounted=[server])
    try:
        with pytest.raises(ServerConnectionError, match="cannot be reached"):
            table.list()
    finally:
        table.close()


def test_nothing_runs_before_it_is_used_and_nothing_stays_afterwards() -> None:
    def loops() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "openenv-mounted"}

    before = loops()
    table = ToolTable(mounted=[COMMAND])
    assert loops() == before
    table.call("add", {"a": 1, "b": 1})
    assert len(loops()) == len(before) + 1
    table.close()
    table.close()
    assert loops() == before
