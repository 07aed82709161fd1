"""Errors become HTTP answers."""

from __future__ import annotations

import json

import pytest

from openenv_gym import errors as e
from openenv_gym.servers.problems import problem, problem_json, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (e.AuthenticationError("x"), 401),
        (e.ForbiddenError("x"), 403),
        (e.SessionLostError("x"), 404),
        (e.ToolNotFoundError("x"), 404),
        (e.EnvironmentMismatchError("x"), 409),
        (e.ResetNeededError("x"), 409),
        (e.MessageTooLargeError("x"), 413),
        (e.ConfigError("x"), 422),
        (e.ValidationError("x"), 422),
        (e.InvalidActionError("x"), 422),
        (e.ValueNotCarriedError("x"), 422),
        (e.RemoteProtocolError("x"), 400),
        (e.VersionMismatchError("x"), 426),
        (e.UnsupportedError("x"), 501),
        (e.CapacityError("x"), 503),
        (e.ServerDrainingError("x"), 503),
        (e.DeadlineExceededError("x"), 504),
        (e.ToolTimeoutError("x"), 504),
        (e.ConstructionError("x"), 500),
        (e.OpenEnvError("x"), 500),
    ],
)
def test_each_error_has_its_status(error: e.OpenEnvError, status: int) -> None:
    assert status_of(error) == status


def test_an_answer_can_be_turned_back_into_the_error() -> None:
    error = e.CapacityError("2/2 sessions", active=2, max=2)
    answer = json.loads(problem_json(error))
    assert answer == {"code": "capacity", "message": "2/2 sessions", "details": {"active": 2, "max": 2}}
    back = e.from_wire(answer["code"], answer["message"], answer["details"])
    assert type(back) is e.CapacityError
    assert back.details == error.details


def test_details_that_json_cannot_hold_become_text() -> None:
    assert problem(e.OpenEnvError("x", value={1, 2}))["details"] == {"value": "{1, 2}"}
