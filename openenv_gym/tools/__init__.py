"""Tools: functions that agents call by name."""

from __future__ import annotations

from .marking import check_tool_names, tool
from .masks import tool_mask
from .mounting import mount
from .results import ToolResult, error_form, plain, result_form
from .table import ToolTable

__all__ = [
    "ToolResult",
    "ToolTable",
    "check_tool_names",
    "error_form",
    "mount",
    "plain",
    "result_form",
    "tool",
    "tool_mask",
]
