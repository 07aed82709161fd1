"""Errors become HTTP answers."""

from __future__ import annotations

import json

import pytest

from openenv_gym import errors as e
from openenv_gym.servers.problems import for_agents, problem, problem_json, status_of


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
        (e.ValidationError("x"), 422),
        (e.InvalidActionError("x"), 422),
        (e.RemoteProtocolError("x"), 400),
        (e.VersionMismatchError("x"), 426),
        (e.UnsupportedError("x"), 501),
        (e.CapacityError("x"), 503),
        (e.ServerDrainingError("x"), 503),
        (e.DeadlineExceededError("x"), 504),
        (e.ToolTimeoutError("x"), 504),
        (e.ConstructionError("x"), 500),
        (e.ConfigError("an environment returned no Observation"), 500),
        (e.ValueNotCarriedError("an environment returned an object"), 500),
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


def test_agents_are_not_told_what_is_for_those_who_run_the_server() -> None:
    crash = e.WorkerCrashedError(
        "the worker exited with code 3; its last lines:\nTOKEN=abc\nbye",
        exit_code=3,
        log=["TOKEN=abc", "bye"],
    )
    assert problem(for_agents(crash)) == {
        "code": "worker_crashed",
        "message": "the worker exited with code 3",
        "details": {"exit_code": 3},
    }
    raised = e.RemoteEnvironmentError("ValueError: one\ntwo", type="ValueError", traceback="File ...")
    told = for_agents(raised)
    assert (type(told), told.message, told.details) == (
        e.RemoteEnvironmentError,
        "ValueError: one\ntwo",
        {"type": "ValueError"},
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("it crashed; reset() starts a new session", "it crashed; begin a new session"),
        ("it is unknown; reset() starts a new one", "it is unknown; begin a new session"),
        ("it was idle; reset() starts anew", "it was idle; begin a new session"),
        ("it ends; reset() once it is back", "it ends; begin a new session once it is back"),
        ("call reset() before step()", "call reset() before step()"),
    ],
)
def test_the_advice_for_agents_is_one_that_they_can_follow(said: str, told: str) -> None:
    assert for_agents(e.SessionLostError(said)).message == told
