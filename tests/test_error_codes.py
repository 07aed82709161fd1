"""Names of errors."""

from __future__ import annotations

from openenv_gym import errors
from openenv_gym.error_codes import ErrorCode


def test_a_code_is_its_text() -> None:
    assert ErrorCode.CAPACITY == "capacity"
    assert f"{ErrorCode.CAPACITY}" == "capacity"
    assert len({code.value for code in ErrorCode}) == len(ErrorCode)


def test_errors_give_it_on() -> None:
    assert errors.ErrorCode is ErrorCode
