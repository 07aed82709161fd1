"""Environments as maps of fields."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from openenv_gym.errors import UnsupportedError, ValidationError
from openenv_gym.servers.faces import Face, Shown, face_of
from openenv_gym.tools import tool
from openenv_gym.typed_env import TypedEnv
from tests.support.typedenvs import Calculator, GuessNumber, Mixed


def _face(environment: Any) -> Face:
    return face_of(TypedEnv(environment), "name")


class DictEnv(gym.Env[Any, Any]):
    """Dicts in, dicts out."""

    observation_space = gym.spaces.Dict({"x": gym.spaces.Box(-1.0, 1.0, (2,))})
    action_space = gym.spaces.Dict({"go": gym.spaces.Discrete(3), "say": gym.spaces.Text(4)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Return zeros."""
        return {"x": np.zeros(2, np.float32)}, {"options": options}

    def step(self, action: Any) -> Any:
        """Return the action in the info."""
        return {"x": np.ones(2, np.float32)}, np.float32(0.5), np.bool_(True), True, {"action": action}


def test_a_dict_space_is_the_map_itself() -> None:
    face = face_of(DictEnv(), "dicts")
    first = face.reset(None, {"episode_id": "mine", "level": 1})
    assert first.fields["x"].tolist() == [0.0, 0.0]
    assert first.metadata == {"options": {"level": 1}}
    shown = face.step({"go": 2, "say": "hi", "metadata": {"who": "me"}})
    assert shown.metadata["action"] == {"go": 2, "say": "hi"}
    assert (shown.reward, shown.terminated, shown.truncated) == (np.float32(0.5), True, True)
    assert face.state() == {"episode_id": "mine", "step_count": 1}
    assert face.schemas()["action"]["properties"]["go"]["maximum"] == 2
    with pytest.raises(ValidationError) as caught:
        face.step({"go": 3, "say": "hi"})
    assert caught.value.details["path"] == "$.go"


def test_without_options_gymnasium_gets_none() -> None:
    assert face_of(DictEnv(), "dicts").reset(None, {}).metadata == {"options": None}


def test_options_in_options_are_refused() -> None:
    face = face_of(DictEnv(), "dicts")
    with pytest.raises(ValidationError, match=r"options by themselves: reset\(low=..., high=...\)") as caught:
        face.reset(None, {"options": {"low": 0, "high": 1}})
    assert caught.value.details["path"] == "$.options"


def test_what_a_plain_environment_says_of_itself() -> None:
    face = face_of(DictEnv(), "dicts")
    assert face.ask("metadata", {})["name"] == "dicts"
    assert face.ask("metadata", {})["description"] == "Dicts in, dicts out."
    assert not face.has_tools
    with pytest.raises(UnsupportedError, match="tools/list"):
        face.ask("tools/list", {})


def test_tools_beside_actions_are_told_apart_by_type() -> None:
    face = _face(Mixed(highest=1))
    face.reset(None, {})
    peeked = face.step({"type": "call_tool", "tool_name": "peek"})
    assert peeked.fields["result"]["data"] == 1
    assert face.step({"number": 1}) == Shown({"text": "that is it"}, 1.0, True, False, {})


def test_the_form_of_a_result_is_that_of_a_failure_too() -> None:
    face = _face(Calculator())
    fields = face.step({"type": "call_tool", "tool_name": "fail", "arguments": {"why": "so"}}).fields
    assert fields["result"] is None
    assert fields["error"]["error_type"] == "execution_error"
    assert "so" in fields["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "expected"), [(None, 0.05), (2.0, 2.0), (0, 0.05), ("x", 0.05), (True, 0.05)]
)
def test_how_long_a_tool_may_take(asked: Any, expected: float) -> None:
    assert _face(Calculator()).patience("hang", asked) == expected


def test_an_environment_without_tools_has_all_time() -> None:
    assert _face(GuessNumber()).patience("x", 1.0) is None


@pytest.mark.parametrize("kind", [[], {}, 3, None])
def test_a_type_that_is_no_text_is_a_wrong_field(kind: Any) -> None:
    face = _face(Mixed())
    face.reset(None, {})
    with pytest.raises(ValidationError) as caught:
        face.step({"type": kind, "number": 3})
    assert caught.value.details["path"] == "$.type"


class Knots(Calculator):
    """Has a tool whose result contains itself."""

    @tool
    def knot(self) -> Any:
        """Return it."""
        knot: list[Any] = []
        knot.append(knot)
        return knot


def test_a_result_that_cannot_be_told_is_the_tools_failure() -> None:
    face = _face(Knots())
    shown = face.step({"tool_name": "knot"})
    assert shown.fields["result"] is None
    assert shown.fields["error"]["error_type"] == "execution_error"
    assert shown.fields["error"]["message"].startswith("the tool returned what cannot be passed on")
    assert face.ask("tools/call", {"name": "knot"})["is_error"]
