"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification): what both languages of ``/mcp`` have in common."""

from __future__ import annotations

from typing import Any

from openenv_gym.errors import ErrorCode, OpenEnvError

from ..problems import for_agents, problem

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "SERVER_ERROR",
    "RpcError",
    "failure",
    "from_error",
    "success",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

_CODES: dict[str, int] = {
    ErrorCode.CAPACITY: SERVER_ERROR,
    ErrorCode.CONSTRUCTION: SERVER_ERROR,
    ErrorCode.DRAINING: SERVER_ERROR,
    ErrorCode.VALIDATION: INVALID_PARAMS,
    ErrorCode.UNSUPPORTED: METHOD_NOT_FOUND,
}


class RpcError(Exception):
    """What goes back as ``error``."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def success(request_id: Any, result: Any) -> dict[str, Any]:
    """Return the response that has a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: Any, error: RpcError) -> dict[str, Any]:
    """Return the response that has an error; ``data`` is there even when it is null."""
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {"code": error.code, "message": error.message, "data": error.data},
    }


def from_error(exc: OpenEnvError) -> RpcError:
    """Return an error of ours as one of JSON-RPC; ``data`` names ours."""
    said = problem(for_agents(exc))
    over = exc.code is ErrorCode.RESET_NEEDED  # an agent cannot reset, and its first call began the episode
    return RpcError(
        _CODES.get(exc.code, INTERNAL_ERROR),
        "the episode is over; begin a new session for another" if over else said["message"],
        {"error": said["code"], "details": said["details"]},
    )
