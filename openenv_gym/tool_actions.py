"""Listing and calling tools as actions of an environment."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from .errors import (
    OpenEnvError,
    ToolError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValidationError,
)
from .models import CallToolAction, CallToolObservation, ListToolsObservation, ToolErrorType
from .models import ToolError as ToolErrorModel
from .tools import ToolTable

__all__ = ["call_tool", "list_tools"]

_KINDS: tuple[tuple[type[OpenEnvError], ToolErrorType], ...] = (
    (ToolNotFoundError, "tool_not_found"),
    (ValidationError, "invalid_args"),
    (ToolTimeoutError, "timeout"),
    (ToolFailedError, "execution_error"),
    (ToolError, "transport_error"),
)


def list_tools(table: ToolTable) -> ListToolsObservation:
    """Return the tools as an observation."""
    return ListToolsObservation(tools=table.list())


def call_tool(table: ToolTable, action: CallToolAction) -> Any:
    """Call a tool; return the observation that holds its result or its error, or an awaitable of it."""
    timeout = action.timeout
    if timeout is not None and not (type(timeout) in (int, float) and timeout > 0):
        text = f"$.timeout: expected a positive number of seconds, got {timeout!r:.80}"
        return _failed(action, ValidationError(text, path="$.timeout"))
    try:
        result = table.start(action.tool_name, action.arguments, action.timeout)
    except OpenEnvError as exc:
        return _failed(action, exc)
    if inspect.isawaitable(result):
        return _later(action, result)
    return CallToolObservation(tool_name=action.tool_name, result=result)


async def _later(action: CallToolAction, result: Awaitable[Any]) -> CallToolObservation:
    try:
        return CallToolObservation(tool_name=action.tool_name, result=await result)
    except OpenEnvError as exc:
        return _failed(action, exc)


def _failed(action: CallToolAction, exc: OpenEnvError) -> CallToolObservation:
    for kind, name in _KINDS:
        if isinstance(exc, kind):
            error = ToolErrorModel(error_type=name, message=exc.message)
            return CallToolObservation(tool_name=action.tool_name, error=error)
    raise exc
