"""Actions, observations, states and tools as Structs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from openenv_gym.models import (
    Action,
    Array,
    CallToolAction,
    ListToolsAction,
    Observation,
    State,
    StepResult,
)


class Say(Action):
    """An action of one field."""

    text: str


class Heard(Observation):
    """An observation of one field."""

    text: str = ""


def test_fields_of_a_subclass_may_be_positional_and_those_of_the_base_not() -> None:
    assert Say("hi", metadata={"a": 1}) == Say(text="hi", metadata={"a": 1})
    assert Heard("hi", done=True).done
    wrong: Any = Observation
    with pytest.raises(TypeError):
        wrong(True)


def test_metadata_is_not_shared() -> None:
    one, other = Say("a"), Say("b")
    one.metadata["x"] = 1
    assert other.metadata == {}


def test_an_action_takes_no_field_it_does_not_know() -> None:
    with pytest.raises(msgspec.ValidationError, match="volume"):
        msgspec.convert({"text": "hi", "volume": 3}, Say)


def test_actions_on_tools_carry_their_type_and_nothing_that_was_not_said() -> None:
    assert msgspec.to_builtins(ListToolsAction()) == {"type": "list_tools", "metadata": {}}
    call = CallToolAction(tool_name="add")
    assert msgspec.to_builtins(call) == {"type": "call_tool", "tool_name": "add"}
    assert msgspec.convert({"tool_name": "add"}, CallToolAction) == call
    full = CallToolAction(tool_name="add", arguments={"a": 1}, timeout=2.0)
    assert msgspec.convert(msgspec.to_builtins(full), CallToolAction) == full


def test_results_and_states_may_be_awaited() -> None:
    state, result = State(episode_id="e", step_count=3), StepResult(Heard("hi"), reward=1.0, done=True)

    async def wait() -> tuple[State, StepResult[Heard]]:
        return await state, await result

    assert asyncio.run(wait()) == (state, result)


def test_an_array_says_what_it_looks_like() -> None:
    assert Array("uint8", (2, 3)) == Array("uint8", (2, 3), None, None)
    assert hash(Array("uint8")) == hash(Array("uint8", ()))
