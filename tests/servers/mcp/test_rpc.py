from __future__ import annotations

import pytest

from openenv_gym.errors import (
    CapacityError,
    OpenEnvError,
    RemoteEnvironmentError,
    ResetNeededError,
    SessionLostError,
    UnsupportedError,
    ValidationError,
    ValueNotCarriedError,
    WorkerCrashedError,
)
from openenv_gym.servers.mcp.rpc import RpcError, failure, from_error, success


def test_responses_have_a_result_or_an_error() -> None:
    assert success("a", {"x": 1}) == {"jsonrpc": "2.0", "id": "a", "result": {"x": 1}}
    assert failure(None, RpcError(-32700, "no")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "no", "data": None},
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValidationError("x", path="$.a"), -32602),
        (UnsupportedError("x"), -32601),
        (CapacityError("x", active=1, max=1), -32000),
        (SessionLostError("x"), -32603),
        (WorkerCrashedError("x", exit_code=1), -32603),
    ],
)
def test_errors_of_ours_have_a_code_and_say_which_they_are(error: OpenEnvError, code: int) -> None:
    rpc = from_error(error)
    assert (rpc.code, rpc.message) == (code, "x")
    assert rpc.data == {"error": str(error.code), "details": error.details}


def test_agents_get_no_traceback_and_nothing_that_a_worker_printed() -> None:
    crash = WorkerCrashedError("it exited; its last lines:\nTOKEN=abc", exit_code=1, log=["TOKEN=abc"])
    assert "TOKEN" not in str(vars(from_error(crash)))
    raised = RemoteEnvironmentError("ValueError: x", type="ValueError", traceback="File '/srv/x.py'")
    rpc = from_error(raised)
    assert (rpc.message, rpc.data["details"]) == ("ValueError: x", {"type": "ValueError"})


def test_an_agent_is_not_told_to_reset_which_it_cannot() -> None:
    rpc = from_error(ResetNeededError("the episode is over; call reset() to begin another"))
    assert rpc.message == "the episode is over; begin a new session for another"


def test_a_result_that_cannot_travel_is_not_the_agents_mistake() -> None:
    assert from_error(ValueNotCarriedError("x")).code == -32603
