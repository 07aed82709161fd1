"""Calls of tools as values of a space."""

from __future__ import annotations

import pytest

from openenv_gym.errors import ConfigError, ToolNotFoundError
from openenv_gym.models import CallToolAction
from openenv_gym.tools import ToolTable
from openenv_gym.tools.actions import tools_form
from tests.support.typedenvs import Calculator


def test_every_sample_is_a_call_and_comes_back() -> None:
    table = ToolTable(Calculator())
    form = tools_form(table.list())
    form.space.seed(3)
    called = set()
    for _ in range(50):
        action = form.from_value(form.space.sample())
        value = form.to_value(action)
        assert form.space.contains(value)
        assert form.from_value(value) == action
        called.add(action.tool_name)
    assert called == {"add", "later", "fail", "hang"}
    assert form.names == {"$": ["add", "later", "fail", "hang"]}


def test_a_tool_that_is_not_there_is_named() -> None:
    form = tools_form(ToolTable(Calculator()).list())
    with pytest.raises(ToolNotFoundError, match="'sub'"):
        form.to_value(CallToolAction(tool_name="sub"))


def test_without_tools_there_is_no_space() -> None:
    with pytest.raises(ConfigError, match="no tools"):
        tools_form([])
