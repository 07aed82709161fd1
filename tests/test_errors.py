"""The error tree: what each is called on the wire, what it derives from, and that it survives a journey."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.errors import ErrorCode, OpenEnvError, from_wire

#: Class, its code, its parents, and the class that its code becomes at the other side.
TABLE: list[tuple[str, str, tuple[str, ...], str]] = [
    ("OpenEnvError", "internal", ("Exception",), "OpenEnvError"),
    ("ConfigError", "config", ("OpenEnvError", "ValueError"), "ConfigError"),
    ("ProtocolError", "protocol", ("OpenEnvError",), "RemoteProtocolError"),
    ("LocalProtocolError", "protocol", ("ProtocolError",), "RemoteProtocolError"),
    ("RemoteProtocolError", "protocol", ("ProtocolError",), "RemoteProtocolError"),
    ("VersionMismatchError", "version", ("ProtocolError",), "VersionMismatchError"),
    ("MessageTooLargeError", "message_too_large", ("ProtocolError",), "MessageTooLargeError"),
    ("ValueNotCarriedError", "value_not_carried", ("OpenEnvError", "ValueError"), "ValueNotCarriedError"),
    ("InvalidActionError", "invalid_action", ("OpenEnvError", "ValueError"), "InvalidActionError"),
    ("ValidationError", "validation", ("OpenEnvError", "ValueError"), "ValidationError"),
    ("UnsupportedError", "unsupported", ("OpenEnvError",), "UnsupportedError"),
    ("ToolError", "tool", ("OpenEnvError",), "ToolError"),
    ("ToolNotFoundError", "tool_not_found", ("ToolError",), "ToolNotFoundError"),
    ("ToolFailedError", "tool_failed", ("ToolError",), "ToolFailedError"),
    ("ToolTimeoutError", "tool_timeout", ("ToolError",), "ToolTimeoutError"),
    ("RubricError", "rubric", ("OpenEnvError",), "RubricError"),
    ("JudgeError", "judge", ("RubricError",), "JudgeError"),
    ("ServerConnectionError", "connection", ("OpenEnvError",), "ServerConnectionError"),
    ("ServerTimeoutError", "timeout", ("ServerConnectionError",), "ServerTimeoutError"),
    ("StartupError", "startup", ("OpenEnvError",), "StartupError"),
    ("StartupTimeoutError", "startup", ("StartupError",), "StartupError"),
    ("AuthenticationError", "authentication", ("OpenEnvError",), "AuthenticationError"),
    ("ForbiddenError", "forbidden", ("OpenEnvError",), "ForbiddenError"),
    ("CapacityError", "capacity", ("OpenEnvError",), "CapacityError"),
    ("EnvironmentMismatchError", "environment_mismatch", ("OpenEnvError",), "EnvironmentMismatchError"),
    ("RemoteEnvironmentError", "environment", ("OpenEnvError",), "RemoteEnvironmentError"),
    ("ConstructionError", "construction", ("RemoteEnvironmentError",), "ConstructionError"),
    ("ArgumentError", "argument", ("ConstructionError", "TypeError"), "ArgumentError"),
    ("ResetNeededError", "reset_needed", ("OpenEnvError",), "ResetNeededError"),
    ("InterruptedStepError", "interrupted", ("ResetNeededError",), "InterruptedStepError"),
    ("SessionLostError", "session_lost", ("OpenEnvError",), "SessionLostError"),
    ("WorkerCrashedError", "worker_crashed", ("SessionLostError",), "WorkerCrashedError"),
    ("DeadlineExceededError", "deadline_exceeded", ("SessionLostError",), "DeadlineExceededError"),
    ("ServerDrainingError", "server_draining", ("SessionLostError",), "ServerDrainingError"),
    ("VectorEnvError", "lanes", ("OpenEnvError",), "VectorEnvError"),
    ("EnvClosedError", "closed", ("OpenEnvError",), "EnvClosedError"),
    ("NotCopyableError", "not_copyable", ("OpenEnvError",), "NotCopyableError"),
]
NAMES = [row[0] for row in TABLE]


def _class(name: str) -> type[OpenEnvError]:
    cls = getattr(errors, name)
    assert isinstance(cls, type) and issubclass(cls, OpenEnvError)
    return cls


def test_the_table_names_every_class() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, OpenEnvError)
    }
    assert classes == set(NAMES)
    assert {*NAMES, "ErrorCode", "from_wire"} == set(errors.__all__)


@pytest.mark.parametrize(("name", "code", "parents", "_there"), TABLE)
def test_each_has_its_code_and_its_parents(
    name: str, code: str, parents: tuple[str, ...], _there: str
) -> None:
    cls = _class(name)
    assert cls.code == code
    assert tuple(base.__name__ for base in cls.__bases__) == parents
    assert issubclass(cls, TypeError) == (name == "ArgumentError")


def test_every_code_belongs_to_a_class() -> None:
    assert {code.value for code in ErrorCode} == {row[1] for row in TABLE}


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_an_error_is_its_message_alone(name: str) -> None:
    error = _class(name)("what is wrong; what to do", server="ws://h:1", exit_code=3)
    assert str(error) == "what is wrong; what to do"
    assert (error.message, error.server, error.details) == (str(error), "ws://h:1", {"exit_code": 3})
    bare = _class(name)("m")
    assert (bare.server, bare.details) == (None, {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_passes_between_processes_whole(name: str, protocol: int) -> None:
    details: dict[str, Any] = {"log": ["a", "b"], "limit": 7}
    error = _class(name)("m", server="unix:/s", **details)
    for copied in (pickle.loads(pickle.dumps(error, protocol)), copy.deepcopy(error), copy.copy(error)):
        assert type(copied) is type(error)
        assert (str(copied), copied.server, copied.details) == ("m", "unix:/s", details)


@pytest.mark.parametrize(("name", "code", "_parents", "there"), TABLE)
def test_a_code_becomes_the_class_at_the_other_side(
    name: str, code: str, _parents: tuple[str, ...], there: str
) -> None:
    error = from_wire(code, "m", {"active": 2}, server="ws://h:1")
    assert type(error).__name__ == there
    assert (str(error), error.server) == ("m", "ws://h:1")
    assert error.details["active"] == 2


def test_a_code_of_a_newer_peer_is_kept() -> None:
    error = from_wire("quota_exceeded", "too much", {"quota": 3})
    assert type(error) is OpenEnvError
    assert error.details == {"quota": 3, "code": "quota_exceeded"}


def test_a_peer_cannot_overwrite_what_this_side_says() -> None:
    error = from_wire("capacity", "full", {"server": "evil", "message": "other", "max": 1}, server="ws://h:1")
    assert (error.message, error.server, error.details) == ("full", "ws://h:1", {"max": 1})


@pytest.mark.parametrize("name", ["self", "code"])
def test_no_name_of_a_detail_breaks_the_error(name: str) -> None:
    assert from_wire("capacity", "full", {name: 1}).details == {name: 1}


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    path: list[str] = []
    found: list[tuple[str, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r" {4}((?:│   |    )*)(?:├── |└── )?([A-Z]\w+Error)\b(?: \((\w+)\))?", line)
        if match is None:
            continue
        depth = 0 if match[2] == "OpenEnvError" else len(match[1]) // 4 + 1
        path[depth:] = [match[2]]
        if depth:
            found.append((match[2], path[depth - 1]))
            builtin = {"ValueError": ValueError, "TypeError": TypeError}.get(match[3])
            assert (builtin is not None) == issubclass(_class(match[2]), ValueError | TypeError)
            assert builtin is None or issubclass(_class(match[2]), builtin)
    assert found == [(name, parents[0]) for name, _, parents, _ in TABLE[1:]]
