from __future__ import annotations

import asyncio
import inspect
import math
from typing import Annotated, Any

import msgspec
import pytest

from openenv_gym.errors import (
    ConfigError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
    UnsupportedError,
    ValidationError,
)
from openenv_gym.tools import ToolTable, tool


class Desk:
    def __init__(self) -> None:
        self.calls: list[str] = []

    @tool
    def echo(self, message: str, times: Annotated[int, msgspec.Meta(ge=1)] = 1) -> str:
        """Say it again."""
        self.calls.append(message)
        return message * times

    @tool
    async def wait(self, seconds: float = 0.0) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    @tool(timeout=math.inf)
    async def impatient(self) -> None:
        raise TimeoutError("of its own")

    @tool
    def fail(self) -> None:
        raise ZeroDivisionError("no")


def test_it_lists_the_tools_of_an_object() -> None:
    tools = {tool.name: tool for tool in ToolTable(Desk()).list()}
    assert tools.keys() == {"echo", "wait", "impatient", "fail"}
    echo = tools["echo"]
    assert echo.description == "Say it again."
    assert echo.input_schema["required"] == ["message"]
    assert echo.output_schema == {
        "type": "object",
        "properties": {"result": {"type": "string"}},
        "required": ["result"],
    }
    assert len(ToolTable(Desk())) == 4
    assert len(ToolTable()) == 0


def test_it_takes_functions_too() -> None:
    @tool(name="plus")
    def add(a: int, b: int) -> int:
        return a + b

    def minus(a: int, b: int) -> int:
        return a - b

    table = ToolTable([add, minus])
    assert [entry.name for entry in table.list()] == ["plus", "minus"]
    assert table.call("plus", {"a": 1, "b": 2}) == 3


def test_plain_functions_answer_at_once_and_coroutines_when_awaited() -> None:
    table = ToolTable(Desk())
    assert table.start("echo", {"message": "a", "times": 2}) == "aa"
    awaitable = table.start("wait")
    assert inspect.isawaitable(awaitable)

    async def wait() -> Any:
        return await awaitable

    assert asyncio.run(wait()) == "waited"
    assert table.call("wait") == "waited"


def test_a_call_inside_a_loop_says_what_to_await() -> None:
    async def inside() -> None:
        table = ToolTable(Desk())
        assert table.call("echo", {"message": "a"}) == "a"
        with pytest.raises(UnsupportedError, match=r"await start\('wait', \.\.\.\)"):
            table.call("wait")

    asyncio.run(inside())


def test_unknown_tools_and_wrong_arguments_are_told_apart_and_nothing_is_called() -> None:
    desk = Desk()
    table = ToolTable(desk)
    with pytest.raises(
        ToolNotFoundError, match="no tool 'ecko'; there are: echo, fail, impatient, wait"
    ) as unknown:
        table.call("ecko")
    assert unknown.value.details == {"tool": "ecko", "tools": ["echo", "fail", "impatient", "wait"]}
    with pytest.raises(ValidationError, match=r"\$\.arguments\.times") as wrong:
        table.call("echo", {"message": "a", "times": 0})
    assert wrong.value.details["path"] == "$.arguments.times"
    assert desk.calls == []


def test_a_tool_that_raises_is_an_error_that_names_both() -> None:
    with pytest.raises(ToolFailedError, match="tool 'fail' raised ZeroDivisionError: no") as caught:
        ToolTable(Desk()).call("fail")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.details == {"tool": "fail", "type": "ZeroDivisionError"}


def test_a_result_that_is_not_what_was_promised_is_a_failure_of_the_tool() -> None:
    def count() -> int:
        return "three"  # type: ignore[return-value]

    async def later() -> int:
        return "three"  # type: ignore[return-value]

    for function in (count, later):
        with pytest.raises(ToolFailedError, match=r"expected int, got str.*'-> Any'") as caught:
            ToolTable([function]).call(function.__name__)
        assert caught.value.details == {"tool": function.__name__, "type": "str"}


def test_a_coroutine_that_overruns_is_cancelled() -> None:
    with pytest.raises(
        ToolTimeoutError, match=r"'wait' did not return within 0\.01 s; give it more"
    ) as caught:
        ToolTable(Desk(), timeout=0.01).call("wait", {"seconds": 60.0})
    assert caught.value.details == {"tool": "wait", "timeout": 0.01}


def test_a_timeout_that_the_tool_itself_raises_is_its_failure() -> None:
    with pytest.raises(ToolFailedError, match="TimeoutError: of its own"):
        ToolTable(Desk()).call("impatient")


def test_f099_the_call_wins_over_the_tool_and_the_tool_over_the_table() -> None:
    @tool(timeout=2.0)
    def slow() -> None: ...

    def plain() -> None: ...

    table = ToolTable([slow, plain], timeout=7.0)
    assert table.timeout_of("slow", 30.0) == 30.0
    assert table.timeout_of("slow") == 2.0
    assert table.timeout_of("plain") == 7.0
    assert ToolTable([plain]).timeout_of("plain") == 30.0
    table = ToolTable(Desk())
    with pytest.raises(ToolTimeoutError):
        table.call("wait", {"seconds": 60.0}, timeout=0.01)


def test_tools_come_and_go() -> None:
    def extra() -> int:
        return 1

    table = ToolTable(Desk())
    table.add(extra)
    assert table.call("extra") == 1
    with pytest.raises(ConfigError, match="there is a tool 'extra' already"):
        table.add(extra)
    table.remove("extra")
    with pytest.raises(ToolNotFoundError):
        table.remove("extra")

    def reset() -> None: ...

    with pytest.raises(ConfigError, match="'reset'"):
        table.add(reset)
