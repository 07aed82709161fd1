from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.tools.marking import RESERVED, Mark, check_name, check_tool_names, mark_of, marked, tool


class Calculator:
    @tool
    def add(self, a: int, b: int) -> int:
        return a + b

    @tool(name="times", description="Multiply.", timeout=2.0)
    def multiply(self, a: int, b: int) -> int:
        return a * b

    @staticmethod
    @tool
    def pi() -> float:
        return 3.14

    @tool
    @staticmethod
    def e() -> float:
        return 2.72

    @classmethod
    @tool
    def kind(cls) -> str:
        return cls.__name__

    def hidden(self) -> None: ...


def test_functions_stay_callable_and_carry_their_mark() -> None:
    assert Calculator().add(1, 2) == 3
    assert mark_of(Calculator.add) == Mark("add")
    assert mark_of(Calculator().multiply) == Mark("times", "Multiply.", 2.0)
    assert mark_of(Calculator.hidden) is None


def test_marked_names_methods_of_all_kinds_and_those_of_bases() -> None:
    class Scientific(Calculator):
        @tool
        def power(self, a: int, b: int) -> int:
            return a**b

    found = {attribute: mark.name for attribute, mark in marked(Scientific)}
    assert found == {
        "power": "power",
        "add": "add",
        "multiply": "times",
        "pi": "pi",
        "e": "e",
        "kind": "kind",
    }


def test_an_override_without_the_decorator_stays_a_tool() -> None:
    class Loud(Calculator):
        def add(self, a: int, b: int) -> int:
            return -(a + b)

    assert "add" in dict(marked(Loud))


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_names_that_control_the_episode_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no tool may be called '{name}'"):
        check_name(name)
    with pytest.raises(ConfigError, match="give it another name"):

        @tool(name=name)
        def anything() -> None: ...


def test_a_method_with_a_reserved_name_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(ConfigError, match="'reset'"):

        class _Cheating:
            @tool
            def reset(self) -> None: ...


def test_two_tools_of_one_name_are_refused() -> None:
    class Twice:
        @tool(name="go")
        def left(self) -> None: ...

        @tool(name="go")
        def right(self) -> None: ...

    with pytest.raises(ConfigError, match=r"both tool 'go'; rename one"):
        check_tool_names(Twice)


def test_a_tool_that_an_attribute_hides_is_refused() -> None:
    class Hiding(Calculator):
        add = None  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"Hiding\.add hides tool 'add'"):
        check_tool_names(Hiding)


def test_parameters_that_cannot_be_named_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"parameter \*rest"):

        @tool
        def many(*rest: int) -> None: ...

    with pytest.raises(ConfigError, match="parameter x"):

        @tool
        def positional(x: int, /) -> None: ...


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_timeouts_are_positive(timeout: float) -> None:
    with pytest.raises(ConfigError, match="must be positive seconds"):
        tool(timeout=timeout)(lambda: None)


@pytest.mark.parametrize("thing", [3, "name", classmethod(print), property(print)])
def test_only_functions_are_marked(thing: Any) -> None:
    with pytest.raises(ConfigError, match="marks functions and methods"):
        tool(thing)
