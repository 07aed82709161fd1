"""Tools as actions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv_gym.errors import OpenEnvError, ServerConnectionError, ToolError
from openenv_gym.models import CallToolAction, CallToolObservation
from openenv_gym.tool_actions import call_tool, list_tools
from openenv_gym.tools import ToolTable
from tests.support.typedenvs import Calculator


def test_listing() -> None:
    table = ToolTable(Calculator())
    assert list_tools(table).tools == table.list()


def test_a_function_answers_at_once_and_a_coroutine_later() -> None:
    table = ToolTable(Calculator())
    answer = call_tool(table, CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
    assert answer == CallToolObservation(tool_name="add", result=3)

    async def later() -> Any:
        return await call_tool(table, CallToolAction(tool_name="later", arguments={"value": "x"}))

    assert asyncio.run(later()) == CallToolObservation(tool_name="later", result="x")


class Broken:
    """A table whose calls raise."""

    def __init__(self, error: OpenEnvError) -> None:
        self.error = error

    def start(self, *args: Any) -> Any:
        """Raise."""
        raise self.error


def test_a_server_that_is_gone_is_a_failure_of_transport_and_anything_else_is_raised() -> None:
    action = CallToolAction(tool_name="x")
    table: Any = Broken(ToolError("the server of x is gone"))
    assert call_tool(table, action).error.error_type == "transport_error"
    table = Broken(ServerConnectionError("gone"))
    with pytest.raises(ServerConnectionError):
        call_tool(table, action)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), "5", True])
def test_a_deadline_is_a_positive_number(timeout: Any) -> None:
    table = ToolTable(Calculator())
    answer = call_tool(table, CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}, timeout=timeout))
    assert answer.error.error_type == "invalid_args"
    assert answer.error.message.startswith("$.timeout")


@pytest.mark.parametrize("later", [False, True])
def test_a_tool_that_exits_has_failed(later: bool) -> None:
    def leave() -> None:
        raise SystemExit(2)

    async def leave_later() -> None:
        raise SystemExit(2)

    table = ToolTable([leave, leave_later])
    answer = call_tool(table, CallToolAction(tool_name="leave_later" if later else "leave"))
    answer = asyncio.run(answer) if later else answer
    assert (answer.error.error_type, "SystemExit: 2" in answer.error.message) == ("execution_error", True)
