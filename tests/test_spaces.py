"""Unicode and Json as Gymnasium spaces."""

from __future__ import annotations

import builtins
import json
import pickle
import sys
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, utils

from openenv_gym.errors import ConfigError, RemoteProtocolError
from openenv_gym.protocol.specs import from_spec, to_spec
from openenv_gym.spaces import Json, Unicode
from tests.protocol.strategies import over_wire
from tests.support.compare import same

SCHEMA = {
    "type": "object",
    "properties": {
        "move": {"enum": ["up", "down"]},
        "force": {"type": "number", "minimum": 0, "maximum": 1},
        "path": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    },
    "required": ["move"],
    "additionalProperties": False,
}
OURS = [Unicode(12, 2), Json(), Json(SCHEMA)]


class TalkEnv(gym.Env[Any, Any]):
    """Says what it was told."""

    observation_space = spaces.Dict({"said": Unicode(20), "log": Json()})
    action_space = Unicode(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"said": "", "log": None}, {}

    def step(self, action: Any) -> Any:
        return {"said": action, "log": [len(action)]}, 0.0, False, False, {}


@pytest.mark.parametrize("space", OURS, ids=repr)
def test_samples_belong_and_repeat_with_their_seed(space: Any) -> None:
    space.seed(3)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    space.seed(3)
    assert samples == [space.sample() for _ in range(50)]
    assert len({json.dumps(sample) for sample in samples}) > 10


@pytest.mark.parametrize("space", OURS, ids=repr)
def test_copies_are_equal_and_sample_alike(space: Any) -> None:
    assert space.contains(space.sample())
    for copy in (deepcopy(space), pickle.loads(pickle.dumps(space)), from_spec(over_wire(to_spec(space)))):
        assert copy == space
        assert repr(copy) == repr(space)
        copy.seed(1)
        space.seed(1)
        assert same(copy.sample(), space.sample())


def test_spaces_differ_by_their_arguments() -> None:
    assert Unicode(3) != Unicode(4)
    assert Unicode(3) != Unicode(3, 1)
    assert Unicode(3) != spaces.Text(3)
    assert Json() != Json(SCHEMA)
    assert Json(SCHEMA) == Json(json.loads(json.dumps(SCHEMA)))


def test_unicode_holds_text_by_length() -> None:
    space = Unicode(3, 1)
    for text in ("a", "é漢😀", "\x00", "\ud800", np.str_("ab")):
        assert text in space
    for other in ("", "abcd", b"a", 5, None):
        assert other not in space


@pytest.mark.parametrize("lengths", [(-1,), (2, 3), (2, -1), (2.0,), ("2",), (True,), (2, None)])
def test_impossible_lengths_are_refused(lengths: Any) -> None:
    with pytest.raises(ConfigError):
        Unicode(*lengths)


def test_json_holds_json_values() -> None:
    for value in (None, True, 1, -0.5, "é", [], {"a": [1, {"b": None}]}):
        assert value in Json()
    for other in ((1,), {1: 2}, {"a": {2}}, float("nan"), [float("inf")], np.int64(1), np.zeros(2), b"a"):
        assert other not in Json()


def test_a_schema_is_checked() -> None:
    space = Json(SCHEMA)
    assert {"move": "up", "force": 0.5} in space
    for other in ({}, {"move": "left"}, {"move": "up", "force": 2}, {"move": "up", "more": 1}, []):
        assert other not in space


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("null", [None]),
        ("boolean", [True, False]),
        ("integer", [1, -(2**70), 2.0]),
        ("number", [1, 1.5]),
        ("string", ["", "a"]),
        ("array", [[]]),
        ("object", [{}, {"a": 1}]),
    ],
)
def test_a_type_alone_is_checked_as_jsonschema_does(name: str, values: list[Any]) -> None:
    everything = [None, True, False, 1, -(2**70), 2.0, 1.5, "", "a", [], {}, {"a": 1}]
    plain, checked = Json({"type": name}), Json({"type": name, "title": "by jsonschema"})
    found = [value for value in everything if plain.contains(value)]
    assert found == [value for value in everything if checked.contains(value)]
    assert all(any(value is one or value == one for one in found) for value in values)


def test_a_type_alone_needs_no_jsonschema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert Json({"type": "string"}).contains("a")
    assert not Json({"type": "object", "additionalProperties": True}).contains("a")
    with pytest.raises(ConfigError, match="needs jsonschema"):
        Json({"type": "string", "minLength": 1}).contains("a")


def test_a_schema_is_kept_apart_from_its_origin() -> None:
    schema = {"type": "integer"}
    space = Json(schema)
    schema["type"] = "string"
    assert 5 in space


@pytest.mark.parametrize("schema", [{"type": "cube"}, {"minimum": "a"}, {"$ref": "http://localhost/x"}])
def test_a_schema_that_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="schema of a Json space"):
        Json(schema).contains(1)


@pytest.mark.parametrize("schema", [[], "x", {"a": {1}}, {1: 2}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="a schema is a dict"):
        Json(schema)
    with pytest.raises(RemoteProtocolError):
        from_spec({"type": "json", "schema": schema})


def test_a_missing_jsonschema_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *args: Any) -> Any:
        if name.startswith("jsonschema"):
            raise ImportError(name)
        return original(name, *args)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert 5 in Json()
    with pytest.raises(ConfigError, match="pip install"):
        Json(SCHEMA).contains({})


def test_a_schema_that_samples_cannot_meet_is_named() -> None:
    with pytest.raises(ConfigError, match="no sample"):
        Json({"type": "string", "pattern": "^[0-9]{9}$"}).sample()


@pytest.mark.parametrize("space", OURS, ids=repr)
def test_masks_are_refused(space: Any) -> None:
    for mask in ({"mask": (None, None)}, {"probability": 1}):
        with pytest.raises(gym.error.Error, match="no mask"):
            space.sample(**mask)


@pytest.mark.parametrize("space", OURS, ids=repr)
def test_gymnasium_can_batch_and_flatten(space: Any) -> None:
    samples = [space.sample() for _ in range(3)]
    batched = utils.batch_space(space, 3)
    assert batched.contains(utils.concatenate(space, samples, utils.create_empty_array(space, 3)))
    assert list(utils.iterate(batched, tuple(samples))) == samples
    assert len(utils.create_empty_array(space, 3)) == 3
    assert utils.batch_differing_spaces([space, space]) == spaces.Tuple((space, space))
    assert space.to_jsonable(samples) == samples
    assert space.from_jsonable(samples) == samples
    assert not space.is_np_flattenable
    outer = spaces.Dict(a=space, b=spaces.Discrete(2))
    flat = spaces.flatten_space(outer)
    assert flat["a"] == space
    value = {"a": samples[0], "b": np.int64(1)}
    assert same(spaces.unflatten(outer, spaces.flatten(outer, value)), value)
    with pytest.raises(ValueError, match="no fixed size"):
        spaces.flatdim(space)


@pytest.mark.parametrize("make", [SyncVectorEnv, lambda envs: AsyncVectorEnv(envs, shared_memory=False)])
def test_they_work_in_gymnasiums_vector_envs(make: Any) -> None:
    env = make([TalkEnv, TalkEnv])
    try:
        observations, _ = env.reset(seed=1)
        assert observations == {"said": ("", ""), "log": (None, None)}
        observations, *_ = env.step(("hé", "😀"))
        assert observations == {"said": ("hé", "😀"), "log": ([2], [1])}
    finally:
        env.close()
