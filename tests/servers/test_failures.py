"""An error of one lane says which, and all that an error of a single environment says."""

from __future__ import annotations

from openenv_gym.errors import ConstructionError, ForbiddenError, RemoteEnvironmentError, from_wire
from openenv_gym.servers.failures import error_of_lane, failure_of


def _raised(text: str) -> BaseException:
    try:
        raise KeyError(text)
    except KeyError as exc:
        return exc


def test_a_failure_has_what_an_error_has() -> None:
    failure = failure_of(3, _raised("x"))
    assert (failure.lane, failure.code, failure.message) == (3, "environment", "KeyError: 'x'")
    assert failure.details["type"] == "KeyError" and "test_failures.py" in failure.details["traceback"]
    error = from_wire(failure.code, failure.message, failure.details)
    assert type(error) is RemoteEnvironmentError


def test_the_first_lane_gives_a_request_its_error() -> None:
    error = error_of_lane([(5, _raised("five")), (2, _raised("two"))])
    assert type(error) is RemoteEnvironmentError
    assert error.message == "lane 2: KeyError: 'two'"
    assert (error.details["lanes"], error.details["type"]) == ([2, 5], "KeyError")


def test_a_constructor_has_an_error_of_its_own() -> None:
    assert type(error_of_lane([(0, _raised("x"))], construction=True)) is ConstructionError


def test_our_own_errors_keep_their_class_and_facts() -> None:
    error = error_of_lane([(1, ForbiddenError("no", option="attributes"))])
    assert type(error) is ForbiddenError
    assert (error.message, error.details) == ("lane 1: no", {"option": "attributes", "lanes": [1]})
