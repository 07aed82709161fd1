"""Results of tools, as agents get them.

The form of a result is that of ``CallToolResult`` in the Model Context Protocol (2025-06-18, server/tools),
with the keys in snake case: ``content``, a list of blocks; ``structured_content``, a JSON object;
``is_error``; ``meta``. ``data`` is the result itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

__all__ = ["NO_FORM", "SPELLED", "ToolResult", "error_form", "plain", "result_form"]

SPELLED = ("NaN", "Infinity", "-Infinity")
"""The floats that JSON lacks."""
NO_FORM = (RecursionError, TypeError, ValueError, OverflowError)
"""What :func:`plain` raises of a value that has no form in JSON."""

_ENCODER = msgspec.json.Encoder()
_DEEPEST = 48
"""What a value may be nested; the wire allows somewhat more, for all that is around it."""


class ToolResult(msgspec.Struct, kw_only=True):
    """A result with more than a value: pictures, resources, several texts. A tool may return one.

    Attributes:
        content: Content blocks of MCP: ``{"type": "text", "text": ...}``,
            ``{"type": "image", "data": <base64>, "mimeType": ...}`` ...
        structured_content: The result as a JSON object, or ``None``.
        data: The result as a value.
        meta: Whatever goes with it.
    """

    content: list[dict[str, Any]] = []
    structured_content: dict[str, Any] | None = None
    data: Any = None
    meta: dict[str, Any] | None = None


def result_form(value: Any) -> dict[str, Any]:
    """Return what a tool returned in the form that agents get: JSON types only, ``data`` included.

    Of a result that has no such form, that is the form of a failure.
    """
    try:
        return _form(value)
    except NO_FORM as exc:
        return error_form(f"the tool returned what cannot be passed on: {exc}")


def _form(value: Any) -> dict[str, Any]:
    if isinstance(value, ToolResult):
        form: dict[str, Any] = plain(msgspec.structs.asdict(value))
        return msgspec.structs.asdict(msgspec.convert(form, ToolResult)) | {"is_error": False}
    data = plain(value)
    return {
        "content": [] if data is None else [{"type": "text", "text": _text(data)}],
        "structured_content": data if isinstance(data, dict) else {"result": data},
        "data": data,
        "is_error": False,
        "meta": None,
    }


def error_form(message: str) -> dict[str, Any]:
    """Return the form of a call that failed: the message as text."""
    return {
        "content": [{"type": "text", "text": message}],
        "structured_content": None,
        "data": None,
        "is_error": True,
        "meta": None,
    }


def plain(value: Any) -> Any:
    """Return a copy of a value in JSON types.

    Arrays become nested lists, bytes base64; the floats that JSON lacks become the strings ``"NaN"``,
    ``"Infinity"`` and ``"-Infinity"``. What has no other form becomes its ``str()``.
    """
    return _finite(msgspec.to_builtins(value, str_keys=True, enc_hook=_known), 0)


def _known(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _finite(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, float) and not math.isfinite(value):
        nan, infinity, minus_infinity = SPELLED
        return nan if math.isnan(value) else (infinity if value > 0 else minus_infinity)
    if isinstance(value, dict):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, depth + 1) for item in value]
    return value


def _text(data: Any) -> str:
    return data if isinstance(data, str) else _ENCODER.encode(data).decode()
