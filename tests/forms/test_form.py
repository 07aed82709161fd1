"""Forms of any Struct: instances to their space and back, samples to instances and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta

from openenv_gym.errors import ConfigError, ValidationError
from openenv_gym.forms import form_of, schema_form
from openenv_gym.models import Action, CallToolAction, ListToolsAction, Observation
from openenv_gym.spaces import Json, Unicode
from openenv_gym.structs import BESIDE, from_map, schema_of, to_map
from openenv_gym.testing.compare import same
from tests.forms.structgen import Case, fields_of, struct_cases

_SETTINGS = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)
_PYDANTIC: dict[str, Any] = json.loads((Path(__file__).parent / "pydantic_zoo.json").read_text("utf-8"))


class Say(Action):
    message: str


class Move(Action):
    to: Literal["left", "right"]
    far: Annotated[int, Meta(ge=1, le=9)] = 1


class Board(Observation):
    cells: list[Literal["x", "o"]]
    score: float | None = None


def _both_ways(cls: Any, instance: Any) -> None:
    everything: Any = () if isinstance(instance, Observation) else None
    plain = to_map(instance, exclude=everything)
    text = msgspec.json.encode(to_map(instance, json=True, exclude=everything))
    assert same(fields_of(from_map(cls, plain)), fields_of(instance))
    assert same(fields_of(from_map(cls, msgspec.json.decode(text))), fields_of(instance))


@_SETTINGS
@given(case=struct_cases(), data=st.data())
def test_any_instance_comes_back_from_its_maps_and_its_space(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.values)
    _both_ways(case.hint, instance)
    form = form_of(case.hint)
    assert same(fields_of(form.from_value(form.to_value(instance))), fields_of(instance))


@_SETTINGS
@given(case=struct_cases(), seed=st.integers(0, 2**32 - 1))
def test_any_sample_is_a_valid_instance(case: Case, seed: int) -> None:
    form = form_of(case.hint)
    form.space.seed(seed)
    for _ in range(3):
        instance = form.from_value(form.space.sample())
        assert isinstance(instance, case.hint)
        _both_ways(case.hint, instance)
        assert form.space.contains(form.to_value(instance))


@_SETTINGS
@given(case=struct_cases(), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_schema_says_as_much_as_the_type(case: Case, seed: int, data: st.DataObject) -> None:
    form = schema_form(schema_of(case.hint), exclude={"metadata"})
    text = to_map(data.draw(case.values), json=True)
    back = form.from_value(form.to_value(text))
    assert same(back, {name: value for name, value in text.items() if name != "metadata" or name in back})
    form.space.seed(seed)
    sample = form.from_value(form.space.sample())
    assert isinstance(from_map(case.hint, json.loads(json.dumps(sample, allow_nan=False))), case.hint)


def test_an_only_field_stands_for_its_struct() -> None:
    form = form_of(Say)
    assert form.space == Json({"type": "string"})
    assert form.to_value(Say(message="hi")) == "hi"
    assert form.from_value("hi") == Say(message="hi")


def test_names_of_choices_are_kept() -> None:
    form = form_of(Move)
    assert form.space == gs.Dict([("to", gs.Discrete(2)), ("far", gs.Discrete(9, start=1))])
    assert form.names == {"$.to": ["left", "right"]}
    assert form.from_value({"to": np.int64(1), "far": 3}) == Move(to="right", far=3)
    assert form_of(Board).names == {"$.cells[]": ["x", "o"]}


def test_what_travels_beside_an_observation_is_not_in_its_space() -> None:
    form = form_of(Board)
    assert list(form.space.spaces) == ["cells", "score"]
    value = form.to_value(Board(cells=["o"], score=0.5, done=True, reward=1.0, metadata={"a": 1}))
    assert form.space.contains(value)
    assert form.from_value(value) == Board(cells=["o"], score=0.5)


def test_a_union_is_a_one_of_its_forms() -> None:
    form = form_of(Say | Move | CallToolAction | ListToolsAction)
    assert form.space.spaces[:2] == (form_of(Say).space, form_of(Move).space)
    for action in (
        Say(message="a"),
        Move(to="left"),
        CallToolAction(tool_name="add", arguments={"a": 1}),
        ListToolsAction(),
    ):
        value = form.to_value(action)
        assert form.space.contains(value)
        assert form.from_value(value) == action
    assert form.names == {"$[1].to": ["left", "right"]}
    with pytest.raises(ValidationError, match=r"^\$: expected Say or Move or .*, got Board"):
        form.to_value(Board(cells=[]))


def test_the_options_of_a_union_are_in_its_own_order() -> None:
    assert form_of(Say | Move).space == gs.OneOf([form_of(Say).space, form_of(Move).space])
    assert form_of(Move | Say).space == gs.OneOf([form_of(Move).space, form_of(Say).space])
    assert form_of(Move | Say).to_value(Move("left"))[0] == 0
    assert form_of(Say | Move) is form_of(Say | Move)


def test_a_wrong_instance_and_a_wrong_value_name_the_field() -> None:
    form = form_of(Move)
    with pytest.raises(ValidationError, match=r"^\$\.far: expected an int from 1 to 9, got int: 10"):
        form.to_value(Move(to="left", far=10))
    with pytest.raises(ValidationError, match=r"^\$\.to: expected one of 'left', 'right'"):
        form.to_value(Move(to="up"))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"^\$\.to: expected an int from 0 to 1, got int: 2"):
        form.from_value({"to": 2, "far": 1})
    with pytest.raises(ValidationError, match=r"^\$\.far: expected int <= 9, got 10"):
        form.from_value({"to": 1, "far": 10})
    with pytest.raises(ValidationError, match=r"^\$: expected a dict of to, far, got dict"):
        form.from_value({"to": 1})
    with pytest.raises(ValidationError, match=r"^\$: expected Move, got Say"):
        form.to_value(Say(message="a"))


@pytest.mark.parametrize("cls", [int, list[int], Say | int])
def test_only_structs_have_forms(cls: Any) -> None:
    with pytest.raises(ConfigError, match="no Struct"):
        form_of(cls)


# -- schemas of others


def test_a_schema_of_pydantic_becomes_spaces() -> None:
    form = schema_form(_PYDANTIC["zoo"], exclude=BESIDE)
    real = gs.Box(-np.inf, np.inf, (), np.float64)
    whole = gs.Box(-np.inf, np.inf, (), np.int64)
    point = gs.Dict([("x", gs.Box(0, 1, (), np.float64)), ("y", gs.OneOf([real, gs.Discrete(1)]))])
    share = gs.Box(np.nextafter(0, 1), np.nextafter(1, 0), (), np.float64)
    pets = [gs.Dict([("lives", gs.Discrete(10))]), gs.Dict([("name", Json({"type": "string"}))])]
    natural = gs.Box(0, np.inf, (), np.int64)
    assert form.space == gs.Dict(
        [
            ("number", gs.Discrete(100, start=1)),
            ("free", whole),
            ("share", share),
            ("text", Unicode(8)),
            ("kind", gs.Discrete(2)),
            ("level", gs.Discrete(2)),
            ("maybe", gs.OneOf([natural, gs.Discrete(1)])),
            ("points", gs.Sequence(point)),
            ("pair", gs.Tuple([whole, Json({"type": "string"})])),
            ("fixed", gs.Box(-np.inf, np.inf, (2,), np.float64)),
            ("pet", gs.OneOf(pets)),
            ("table", Json({"type": "object", "additionalProperties": {"type": "integer"}})),
            ("point", point),
            ("board", gs.Sequence(gs.Sequence(whole))),
        ]
    )
    assert form.names == {"$.kind": ["a", "b"], "$.level": ["low", "high"]}


def test_values_of_pydantic_come_back() -> None:
    form = schema_form(_PYDANTIC["zoo"], exclude=BESIDE)
    value = form.to_value(_PYDANTIC["zoo_value"])
    assert form.space.contains(value)
    kept = {name: item for name, item in _PYDANTIC["zoo_value"].items() if name not in BESIDE}
    assert same(form.from_value(value), kept)


@pytest.mark.parametrize("name", ["zoo", "call", "call_obs", "tree"])
def test_samples_meet_the_schemas_of_pydantic(name: str) -> None:
    form = schema_form(_PYDANTIC[name], exclude=BESIDE)
    form.space.seed(7)
    for _ in range(10):
        sample = form.from_value(form.space.sample())
        jsonschema.validate(sample, _PYDANTIC[name], jsonschema.Draft202012Validator)
        assert same(form.from_value(form.to_value(sample)), sample)


def test_schemas_of_msgspec_become_the_same_spaces() -> None:
    for cls in (Say, Move, Board):
        form = schema_form(msgspec.json.schema(cls), exclude=BESIDE)
        assert form.space == form_of(cls).space


def test_an_optional_property_may_be_absent() -> None:
    form = schema_form({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"const": 3}}})
    assert form.space["a"] == gs.OneOf([gs.Discrete(2), gs.Discrete(1)])
    assert form.from_value(form.to_value({"a": True})) == {"a": True}
    assert form.from_value(form.to_value({"b": 3})) == {"b": 3}
    with pytest.raises(ValidationError, match=r"^\$\.c: there is no such field; the fields are a, b"):
        form.to_value({"c": 1})


def test_a_default_stands_for_what_is_absent() -> None:
    form = schema_form({"properties": {"a": {"type": "boolean", "default": True}}, "type": "object"})
    assert form.space == gs.Discrete(2)
    assert form.to_value({}) == 1


def test_one_field_of_a_schema_need_not_stand_for_the_object() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    form = schema_form(schema, bare=False)
    assert form.space == gs.Dict({"a": gs.Discrete(2)})
    assert form.from_value({"a": 0}) == {"a": False}


def test_a_union_of_objects_leaves_out_what_is_to_be_left_out() -> None:
    form = schema_form(schema_of(Say | CallToolAction), exclude={"metadata"})
    assert form.space == form_of(Say | CallToolAction).space
    assert form.from_value(form.to_value({"message": "a", "metadata": {}})) == {"message": "a"}
    call = {"type": "call_tool", "tool_name": "a", "arguments": {}, "timeout": None}
    assert form.from_value(form.to_value(call)) == call
