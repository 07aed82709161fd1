"""Actions to what is sent, replies to results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pytest

from openenv_gym.client.parsing import (
    action_map,
    parsed_result,
    parsed_state,
    tool_of,
    types_in_bases,
    unwrapped,
)
from openenv_gym.client.typed import EnvClient
from openenv_gym.errors import ValidationError
from openenv_gym.models import (
    Action,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Observation,
    State,
    Tool,
    ToolError,
)


class Move(Action):
    to: int = 0


class Place(Observation):
    at: int


class Model:
    """What pydantic's models look like from outside."""

    model_fields = ("at", "done", "reward")

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def model_validate(cls, fields: dict[str, Any]) -> Model:
        return cls(**fields)

    def model_dump(self) -> dict[str, Any]:
        return dict(self.fields)


@dataclass
class Plain:
    to: int


class Bare(msgspec.Struct):
    at: int


def payload(**observation: Any) -> dict[str, Any]:
    return {"observation": observation, "reward": 0.5, "done": True, "truncated": True, "metadata": {"m": 1}}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Move(to=3), {"to": 3}),
        (Move(to=3, metadata={"a": 1}), {"to": 3, "metadata": {"a": 1}}),
        ({"to": 3, "metadata": {}}, {"to": 3, "metadata": {}}),
        (Plain(3), {"to": 3}),
        (Model(to=3, metadata={}), {"to": 3}),
        (ListToolsAction(), {"type": "list_tools"}),
        (
            CallToolAction(tool_name="t", arguments={"a": 1}),
            {"type": "call_tool", "tool_name": "t", "arguments": {"a": 1}},
        ),
        (
            CallToolAction(tool_name="t", timeout=2.0),
            {"type": "call_tool", "tool_name": "t", "arguments": {}, "timeout": 2.0},
        ),
    ],
)
def test_actions_are_sent_as_their_fields(action: Any, expected: dict[str, Any]) -> None:
    assert action_map(action) == expected


@pytest.mark.parametrize("action", [3, "left", None, Plain])
def test_what_has_no_fields_is_no_action(action: Any) -> None:
    with pytest.raises(ValidationError, match="a Struct, or a dict of its fields"):
        action_map(action)


def test_an_observation_is_of_its_class_and_has_what_stands_beside_it() -> None:
    result = parsed_result(Place, payload(at=3))
    expected = Place(at=3, done=True, truncated=True, reward=0.5, metadata={"m": 1})
    assert result.observation == expected
    assert (result.reward, result.done, result.terminated, result.truncated) == (0.5, True, False, True)
    assert result.metadata == {"m": 1}


def test_done_without_more_is_terminated() -> None:
    result = parsed_result(None, {"observation": {"at": 1}, "done": True})
    assert (result.observation, result.terminated, result.truncated) == ({"at": 1}, True, False)
    assert (result.reward, result.metadata) == (None, {})


def test_other_classes_get_what_they_have_fields_for() -> None:
    assert parsed_result(Model, payload(at=3)).observation.fields == {"done": True, "reward": 0.5, "at": 3}
    assert parsed_result(Bare, payload(at=3)).observation == Bare(3)


def test_a_wrong_observation_is_named_by_its_field() -> None:
    with pytest.raises(ValidationError, match=r"what came back is no Place: \$.at: expected int") as caught:
        parsed_result(Place, payload(at="x"))
    assert caught.value.details["path"] == "$.at"


def test_an_observation_of_another_environment_is_not_taken_for_one_of_defaults() -> None:
    class Said(Observation, tag=True):
        text: str = ""

    class Reward(Observation):
        """What a client names that wants no fields."""

    for beside in ({}, {"done": False, "reward": 1.0}):  # which say nothing of what it is
        with pytest.raises(
            ValidationError, match="no Said: it has the fields observation, and none of text"
        ) as caught:
            parsed_result(Said, {"observation": {"observation": [0.0], "type": "Said", **beside}})
        assert caught.value.details["path"] == "$"
    assert parsed_result(Said, {"observation": {"text": "a", "more": 1}}).observation.text == "a"
    assert parsed_result(Said, {"observation": {"type": "Said", "metadata": {}}}).observation.text == ""
    assert parsed_result(Reward, {"observation": {"text": "a"}, "reward": 2.0}).observation.reward == 2.0


class Lost(Observation):
    why: str = ""


class Won(Observation, frozen=True, tag=True):
    at: int


class Drawn(Observation, tag=True):
    at: int


def test_an_observation_of_several_kinds_is_of_the_one_that_has_its_fields() -> None:
    place = parsed_result(Place | Lost, payload(at=3)).observation
    assert (type(place), place.at, place.reward) == (Place, 3, 0.5)
    assert type(parsed_result(Place | Lost, payload(why="late")).observation) is Lost
    assert type(parsed_result(Won | Drawn, payload(at=3, type="Drawn")).observation) is Drawn
    called = parsed_result(Place | Lost, payload(tool_name="add", result=7, error=None)).observation
    assert type(called) is CallToolObservation


@pytest.mark.parametrize(("fields", "how"), [({"far": 3}, "none"), ({}, "several")])
def test_an_observation_of_no_kind_or_of_any_is_refused(fields: dict[str, Any], how: str) -> None:
    with pytest.raises(
        ValidationError, match=rf"may be {how} of Place, Lost.*class Place\(Observation, tag=True"
    ):
        parsed_result(Place | Lost, payload(**fields))


def test_what_stands_beside_is_in_a_frozen_observation_too() -> None:
    observation = parsed_result(Won, payload(at=3, type="Won")).observation
    assert (observation.at, observation.done, observation.reward) == (3, True, 0.5)


def test_a_union_in_brackets_is_kept() -> None:
    class Several(EnvClient[Move, Place | Lost, State]):
        pass

    assert Several.observation_type == Place | Lost


def test_a_wrong_observation_of_pydantic_is_named_too() -> None:
    class Strict(Model):
        @classmethod
        def model_validate(cls, fields: dict[str, Any]) -> Model:
            raise ValueError("1 validation error for Strict\nat\n  Field required")

    with pytest.raises(
        ValidationError, match="what came back is no Strict: 1 validation error for Strict\nat"
    ):
        parsed_result(Strict, payload(at=3))


RESULT = {"content": [{"type": "text", "text": "7"}], "data": 7, "is_error": False}


@pytest.mark.parametrize("cls", [Place, Observation, CallToolObservation])
def test_answers_to_tool_actions_are_recognised(cls: Any) -> None:
    called = parsed_result(cls, payload(tool_name="add", result=RESULT, error=None)).observation
    assert type(called) is CallToolObservation
    assert (called.tool_name, called.result, called.error, called.reward) == ("add", 7, None, 0.5)
    error = {"error_type": "timeout", "message": "late"}
    failed = parsed_result(cls, payload(tool_name="add", result=None, error=error)).observation
    assert failed.error == ToolError(error_type="timeout", message="late")


def test_tools_are_listed_however_their_schemas_are_spelled() -> None:
    tools = [{"name": "a", "inputSchema": {"type": "object"}, "description": None}, {"name": "b"}]
    listed = parsed_result(Place, payload(tools=tools)).observation
    assert type(listed) is ListToolsObservation
    assert listed.tools == [Tool(name="a", input_schema={"type": "object"}), Tool(name="b")]
    assert tool_of({"name": "c", "output_schema": {"x": 1}}).output_schema == {"x": 1}
    with pytest.raises(ValidationError, match="name"):
        tool_of({})


def test_dicts_stay_dicts_with_the_result_of_a_tool_taken_out() -> None:
    fields = {"tool_name": "add", "result": RESULT, "error": None}
    assert parsed_result(None, payload(**fields)).observation == {**fields, "result": 7}


@pytest.mark.parametrize("result", [{"data": 7}, {"x": 1}, 7, None, [RESULT]])
def test_what_only_looks_like_a_result_object_is_left_alone(result: Any) -> None:
    assert unwrapped(result) == result
    assert unwrapped(RESULT) == 7


def test_states_are_of_their_class_or_dicts() -> None:
    assert parsed_state(State, {"episode_id": "e", "step_count": 3}) == State(episode_id="e", step_count=3)
    assert parsed_state(None, {"a": 1}) == {"a": 1}


T = TypeVar("T")


def test_types_are_read_from_the_bases_unless_they_are_set() -> None:
    class Typed(EnvClient[Move, Place, State]):
        pass

    class Open(EnvClient[Move, T, dict[str, Any]]):
        observation_type = Place

    class Inherits(Typed):
        pass

    assert (Typed.action_type, Typed.observation_type, Typed.state_type) == (Move, Place, State)
    assert (Open.action_type, Open.observation_type, Open.state_type) == (Move, Place, None)
    assert Inherits.observation_type is Place

    class Other:
        pass

    types_in_bases(Other, EnvClient)
    assert not hasattr(Other, "action_type")
