"""Requests are held to their form, and answers have theirs."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import (
    CapacityError,
    ConstructionError,
    InvalidActionError,
    OpenEnvError,
    RemoteEnvironmentError,
    ResetNeededError,
    ValidationError,
    WorkerCrashedError,
)
from openenv_gym.servers.openenv.forms import (
    check_fields,
    check_object,
    detail_of,
    error_form,
    outcome_form,
    reset_arguments,
    timeout_of,
)
from openenv_gym.servers.openenv.peer import Outcome


def test_an_outcome_has_what_clients_of_openenv_look_for() -> None:
    assert outcome_form(Outcome({"x": 1}, True)) == {
        "observation": {"x": 1},
        "reward": True,
        "done": False,
        "terminated": False,
        "truncated": False,
    }


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True), (True, True)])
def test_terminated_and_truncated_are_told_apart_and_both_are_done(terminated: bool, truncated: bool) -> None:
    form = outcome_form(Outcome({}, 0.0, terminated, truncated))
    assert (form["done"], form["terminated"], form["truncated"]) == (True, terminated, truncated)


def test_f034_metadata_stands_beside_and_in_the_observation() -> None:
    metadata = {"step": 1, "nested": {"a": [1, 2]}, "task": None}
    outcome = Outcome({"x": 1}, metadata=metadata)
    form = outcome_form(outcome)
    assert form["metadata"] == metadata
    assert form["observation"] == {"x": 1, "metadata": metadata}
    assert outcome.observation == {"x": 1}


def test_a_field_called_metadata_stays_the_environments_own() -> None:
    assert outcome_form(Outcome({"metadata": 3}, metadata={"a": 1}))["observation"] == {"metadata": 3}


@pytest.mark.parametrize(
    ("error", "alive", "code", "more"),
    [
        (
            CapacityError("full", active=2, max=2),
            False,
            "CAPACITY_REACHED",
            {"active_sessions": 2, "max_sessions": 2},
        ),
        (ConstructionError("no level"), False, "FACTORY_ERROR", {"factory_name": "Game"}),
        (WorkerCrashedError("signal 11", signal=11), False, "SESSION_ERROR", {}),
        (RemoteEnvironmentError("ValueError: no"), True, "EXECUTION_ERROR", {}),
        (ResetNeededError("call reset()"), True, "EXECUTION_ERROR", {}),
        (
            ValidationError("too long", path="$.arguments.message"),
            True,
            "VALIDATION_ERROR",
            {"errors": [{"type": "validation", "loc": ["arguments", "message"], "msg": "too long"}]},
        ),
        (
            InvalidActionError("7 is not in Discrete(2)"),
            True,
            "VALIDATION_ERROR",
            {"errors": [{"type": "invalid_action", "loc": [], "msg": "7 is not in Discrete(2)"}]},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_frame(error: OpenEnvError, alive: bool, code: str, more: dict[str, Any]) -> None:
    assert error_form(error, alive=alive, factory="Game") == {
        "message": error.message,
        "code": code,
        **more,
        "error": str(error.code),
        "details": error.details,
    }


@pytest.mark.parametrize(
    ("path", "loc"),
    [
        ("$", ["body"]),
        ("$.seed", ["body", "seed"]),
        ("$.a.b[2].c", ["body", "a", "b", 2, "c"]),
        ("$[0][1]", ["body", 0, 1]),
    ],
)
def test_a_path_as_a_list_of_its_steps(path: str, loc: list[Any]) -> None:
    (item,) = detail_of(ValidationError("odd", path=path), "body")
    assert item == {"type": "validation", "loc": loc, "msg": "odd"}


def test_the_arguments_of_a_reset_are_kept_all_of_them() -> None:
    data = {"seed": 3, "episode_id": "e", "game": "pong", "sede": 1}
    assert reset_arguments(data) == (3, {"episode_id": "e", "game": "pong", "sede": 1})
    assert data["seed"] == 3
    assert reset_arguments({}) == (None, {})
    assert reset_arguments({"seed": None, "episode_id": None}) == (None, {"episode_id": None})


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"seed": -1}, "$.data.seed"),
        ({"seed": True}, "$.data.seed"),
        ({"seed": 1.0}, "$.data.seed"),
        ({"seed": "1"}, "$.data.seed"),
        ({"episode_id": 5}, "$.data.episode_id"),
        ({"episode_id": "e" * 256}, "$.data.episode_id"),
    ],
)
def test_a_seed_and_an_episode_id_are_what_they_are(data: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        reset_arguments(data, "$.data")
    assert caught.value.details["path"] == path


def test_f070_an_unknown_field_is_named() -> None:
    check_fields({"type": 1}, "type", "data")
    with pytest.raises(ValidationError, match="unknown field 'sede'; there are type, data") as caught:
        check_fields({"type": "reset", "sede": 1}, "type", "data")
    assert caught.value.details["path"] == "$.sede"


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "null"), (True, "a boolean"), ("x", "a text"), ([], "a list"), (1, "a number")]
)
def test_what_is_no_object_is_named(value: Any, kind: str) -> None:
    with pytest.raises(ValidationError, match=f"an action is an object, not {kind}"):
        check_object(value, "$.action", "an action")
    assert check_object({"a": 1}, "$", "it") == {"a": 1}


def test_a_timeout_is_a_positive_number_or_null() -> None:
    assert (timeout_of(None, "$"), timeout_of(2, "$"), timeout_of(0.5, "$")) == (None, 2.0, 0.5)
    for wrong in (0, -1, True, "3", float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="positive number"):
            timeout_of(wrong, "$.timeout_s")
