from __future__ import annotations

import gc
import inspect
import sys
import types
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import OpenEnvError, ToolError, ToolFailedError, ValidationError
from openenv_gym.tools import ToolTable, tool


class Stateful:
    def __init__(self) -> None:
        self.episode = 1
        self.log: list[int] = []

    def reset(self) -> None:
        self.episode += 1

    @tool
    def push(self, value: int, again: int = 0) -> list[int]:
        """Keep a number."""
        self.log += [value, again]
        return self.log

    @tool
    def fail(self) -> None:
        raise KeyError("gone")

    @tool
    def picture(self) -> Any:
        return np.zeros(2)

    @tool
    async def later(self) -> int:
        return 3


def test_they_look_like_the_tools() -> None:
    functions = ToolTable(Stateful()).callables()
    assert functions.keys() == {"push", "fail", "picture", "later"}
    push = functions["push"]
    assert push.__name__ == "push" and push.__doc__ == "Keep a number."
    assert list(inspect.signature(push).parameters) == ["value", "again"]
    assert inspect.signature(push).parameters["again"].default == 0


def test_arguments_go_by_position_or_by_name() -> None:
    env = Stateful()
    functions = ToolTable(env).callables()
    functions["push"](1)
    functions["push"](2, again=3)
    assert env.log == [1, 0, 2, 3]
    assert functions["later"]() == 3
    with pytest.raises(TypeError, match="3 arguments were given; there are 2: value, again"):
        functions["push"](1, 2, 3)
    with pytest.raises(TypeError, match="value: given twice"):
        functions["push"](1, value=2)
    with pytest.raises(ValidationError, match=r"\$\.arguments\.value"):
        functions["push"]("x")
    with pytest.raises(ToolFailedError, match="KeyError"):
        functions["fail"]()


def test_results_are_copies_in_json_types() -> None:
    env = Stateful()
    functions = ToolTable(env).callables()
    functions["push"](1).append(99)
    assert env.log == [1, 0]
    assert functions["picture"]() == [0.0, 0.0]


def test_another_call_carries_the_calls_out() -> None:
    sent = []

    def send(name: str, arguments: dict[str, Any]) -> str:
        sent.append((name, arguments))
        return "answer"

    functions = ToolTable(Stateful()).callables(send)
    assert functions["push"](value=4) == "answer"
    assert sent == [("push", {"value": 4})]

    def broken(name: str, arguments: dict[str, Any]) -> None:
        raise BrokenPipeError

    with pytest.raises(ToolError, match="'push' could not be called: BrokenPipeError"):
        ToolTable(Stateful()).callables(broken)["push"](1)


def test_f081_a_function_does_not_lead_to_the_environment() -> None:
    env = Stateful()
    push = ToolTable(env).callables()["push"]
    for name in ("__self__", "__wrapped__", "func", "__func__"):
        assert not hasattr(push, name)
    cells = [cell.cell_contents for cell in push.__closure__]
    assert not any(isinstance(cell, Stateful | ToolTable | types.MethodType) for cell in cells)
    hidden = next(cell for cell in cells if callable(cell) and not isinstance(cell, inspect.Signature))
    assert not isinstance(hidden, types.FunctionType)
    for name in ("__self__", "__wrapped__", "__closure__", "func"):
        assert not hasattr(hidden, name)
    assert not any(thing is env for thing in push.__globals__.values())
    assert env.episode == 1


def test_f081_what_a_function_raises_does_not_lead_to_the_environment() -> None:
    env = Stateful()
    functions = ToolTable(env).callables()

    def agent() -> OpenEnvError:
        try:
            functions["fail"]()
        except OpenEnvError as exc:
            return exc
        raise AssertionError("it did not raise")

    error = agent()
    assert error.__cause__ is None and error.__context__ is None
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        values = [value for name, value in frame.f_locals.items() if frame.f_code is not agent.__code__]
        assert not any(value is env or isinstance(value, ToolTable) for value in values)
        traceback = traceback.tb_next
    assert sys.exc_info() == (None, None, None)


def test_f081_only_the_garbage_collector_finds_it_in_one_process() -> None:
    env = Stateful()
    push = ToolTable(env).callables()["push"]
    hidden = next(
        cell.cell_contents
        for cell in push.__closure__
        if callable(cell.cell_contents) and not isinstance(cell.cell_contents, inspect.Signature)
    )
    assert gc.get_referents(hidden)  # the documented limit
