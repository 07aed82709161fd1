"""Errors that are also what programs for OpenEnv's clients catch."""

from __future__ import annotations

import pickle

import pytest

from openenv_gym import errors
from openenv_gym.client import compat
from openenv_gym.client.compat import also_builtin
from openenv_gym.transport.endings import ChannelClosed, ChannelSilence


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.DeadlineExceededError, TimeoutError),
        (errors.ServerTimeoutError, TimeoutError),
        (ChannelSilence, TimeoutError),
        (errors.ServerConnectionError, ConnectionError),
        (ChannelClosed, ConnectionError),
        (errors.RemoteEnvironmentError, RuntimeError),
        (errors.ConstructionError, RuntimeError),
        (errors.CapacityError, RuntimeError),
        (errors.ValidationError, RuntimeError),
        (errors.ValidationError, ValueError),
        (errors.ToolError, RuntimeError),
        (errors.ToolNotFoundError, RuntimeError),
        (errors.ToolFailedError, RuntimeError),
        (errors.ToolTimeoutError, RuntimeError),
    ],
)
def test_an_error_is_ours_and_the_builtin_one(
    kind: type[errors.OpenEnvError], builtin: type[Exception]
) -> None:
    found = also_builtin(kind("what is wrong", server="s", fact=1))
    base = kind if kind not in (ChannelClosed, ChannelSilence) else kind.__mro__[1]
    assert isinstance(found, builtin) and isinstance(found, base)
    assert (str(found), found.message, found.server, found.details) == (
        "what is wrong",
        "what is wrong",
        "s",
        {"fact": 1},
    )
    assert found.code is kind.code
    assert also_builtin(found) is found
    again = pickle.loads(pickle.dumps(found))
    assert (type(again), again.details, again.server) == (type(found), {"fact": 1}, "s")


@pytest.mark.parametrize(
    "kind", [errors.SessionLostError, errors.ResetNeededError, errors.WorkerCrashedError]
)
def test_other_errors_stay_what_they_are(kind: type[errors.OpenEnvError]) -> None:
    error = kind("x")
    assert also_builtin(error) is error


def test_every_class_is_used() -> None:
    assert {both.__name__ for both in compat._BOTH.values()} == set(compat.__all__) - {"also_builtin"}
