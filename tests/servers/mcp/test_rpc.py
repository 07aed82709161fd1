from __future__ import annotations

import pytest

from openenv_gym.errors import (
    CapacityError,
    OpenEnvError,
    SessionLostError,
    UnsupportedError,
    ValidationError,
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
