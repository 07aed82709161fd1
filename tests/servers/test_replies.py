"""What a client is told of an exception, whatever that exception does."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.errors import (
    CapacityError,
    ForbiddenError,
    OpenEnvError,
    ServerDrainingError,
    SessionLostError,
    WorkerCrashedError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.codec import decode_reply, encode
from openenv_gym.protocol.values import Opaque
from openenv_gym.servers.replies import error_reply


def _raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


def _arrived(error: m.Error) -> Any:
    return decode_reply(encode(error))


def test_an_error_of_ours_is_reported_as_it_is() -> None:
    error = error_reply(CapacityError("full; wait", active=2, max=2), 3, alive=True)
    assert _arrived(error) == m.Error("capacity", "full; wait", 3, True, {"active": 2, "max": 2})


@pytest.mark.parametrize("cls", [SessionLostError, WorkerCrashedError, ServerDrainingError])
def test_the_session_does_not_outlive_an_error_that_says_it_is_lost(cls: type[OpenEnvError]) -> None:
    assert error_reply(cls("gone"), 3, alive=True).alive is False


def test_an_error_of_ours_leaves_the_session_as_it_is_told() -> None:
    assert error_reply(ForbiddenError("no"), alive=True).alive is True
    assert error_reply(ForbiddenError("no"), alive=False).alive is False


@pytest.mark.filterwarnings("ignore:a value of type")
def test_details_that_have_no_form_arrive_as_opaque_values() -> None:
    error = _arrived(error_reply(ForbiddenError("no", what=object(), n=(1, 2)), alive=True))
    assert error.details["n"] == (1, 2)
    assert isinstance(error.details["what"], Opaque)


@pytest.mark.parametrize(("construction", "code"), [(False, "environment"), (True, "construction")])
def test_what_the_environment_raised_comes_with_type_text_and_traceback(
    construction: bool, code: str
) -> None:
    exc = _raised(KeyError("missing"))
    error = error_reply(exc, 4, alive=True, construction=construction)
    assert (error.code, error.message, error.id, error.alive) == (code, "KeyError: 'missing'", 4, True)
    assert error.details["type"] == "KeyError"
    assert "test_replies.py" in error.details["traceback"]


@pytest.mark.parametrize(
    "exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ExceptionGroup("g", [ValueError("inner")])]
)
def test_exceptions_of_every_kind_are_reported(exc: BaseException) -> None:
    error = _arrived(error_reply(_raised(exc), 1, alive=True))
    assert error.details["type"] == type(exc).__name__
    assert error.message.startswith(type(exc).__name__)


def test_the_cause_is_part_of_the_traceback() -> None:
    try:
        try:
            raise OSError("the disk")
        except OSError as cause:
            raise ValueError("the file") from cause
    except ValueError as exc:
        trace = error_reply(exc, alive=True).details["traceback"]
    assert "the disk" in trace and "the file" in trace


def test_long_texts_are_cut_in_the_middle() -> None:
    text = "begin " + "x" * 1_000_000 + " end"
    error = error_reply(_raised(ValueError(text)), alive=True)
    for clipped in (error.message, error.details["traceback"].rstrip()):
        assert len(clipped) < 33_000
        assert "characters left out" in clipped
        assert clipped.endswith(" end")
    assert error.message.startswith("ValueError: begin")


def test_endless_recursion_gives_a_short_report() -> None:
    def deeper() -> None:
        deeper()

    try:
        deeper()
    except RecursionError as exc:
        error = error_reply(exc, alive=True)
    assert error.message.startswith("RecursionError: maximum recursion depth")
    assert len(error.details["traceback"]) < 33_000


class _BrokenStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


class _ExitingStr(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class _WrongStr(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("exc", "why"),
    [(_BrokenStr(), "RuntimeError"), (_WrongStr(), "TypeError"), (_ExitingStr(), "SystemExit")],
)
def test_an_exception_that_cannot_say_what_it_is_gets_reported(exc: Exception, why: str) -> None:
    error = _arrived(error_reply(_raised(exc), 1, alive=True))
    assert error.message == f"{type(exc).__name__}: <no text: its __str__ raised {why}>"
    assert error.details["type"] == type(exc).__name__


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb", "\U0001f600", "\0"])
def test_any_text_can_be_sent(text: str) -> None:
    error = _arrived(error_reply(_raised(ValueError(text)), 1, alive=True))
    assert error.message == "ValueError: " + text.encode("utf-8", "backslashreplace").decode()


def test_an_error_of_ours_with_any_text_can_be_sent() -> None:
    error = _arrived(error_reply(ForbiddenError("no '\ud800'", name="\ud800"), alive=True))
    assert error.message == "no '\\ud800'"
    assert error.details == {"name": "\ud800"}
