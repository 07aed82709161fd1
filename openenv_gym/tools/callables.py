"""Tools as plain functions that do not lead to the environment behind them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import OpenEnvError, ToolError
from ..models import Tool
from .results import plain

__all__ = ["plain_functions"]

_Call = Callable[[str, dict[str, Any]], Any]
_CarryOut = Callable[..., tuple[bool, Any]]


def plain_functions(tools: Iterable[Tool], call: _Call) -> dict[str, Callable[..., Any]]:
    """Return a function for each tool whose name is an identifier, by name."""
    carry_out = _opaque(call)
    return {tool.name: _function(tool, carry_out) for tool in tools if tool.name.isidentifier()}


def _opaque(call: _Call) -> _CarryOut:
    """Return ``call`` without a way to what it is bound to, and with errors as values.

    The C object behind ``lru_cache`` keeps its function where no attribute shows it, and with a size of 0
    nothing else. Errors go back as values, since a traceback would show the frames in between.
    """

    def carry_out(name: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
        try:
            return True, plain(call(name, arguments))
        except OpenEnvError as exc:
            return False, type(exc)(exc.message, **exc.details)
        except Exception as exc:
            return False, ToolError(f"tool {name!r} could not be called: {exc!r}", tool=name)

    hidden = functools.lru_cache(maxsize=0)(carry_out)
    del hidden.__wrapped__
    opaque: _CarryOut = hidden
    return opaque


def _function(tool: Tool, carry_out: _CarryOut) -> Callable[..., Any]:
    signature = _signature(tool.input_schema)
    name = tool.name

    def function(*args: Any, **kwargs: Any) -> Any:
        returned, value = carry_out(name, _arguments(signature, args, kwargs))
        if returned:
            return value
        raise value

    function.__name__ = function.__qualname__ = name
    function.__doc__ = tool.description
    function.__module__ = "tools"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _signature(schema: dict[str, Any]) -> inspect.Signature:
    required = schema.get("required", ())
    properties = sorted(schema.get("properties", {}).items(), key=lambda item: item[0] not in required)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(
            name, kind, default=inspect.Parameter.empty if name in required else shown.get("default", None)
        )
        for name, shown in properties
        if name.isidentifier()
    ]
    return inspect.Signature(parameters)


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = list(signature.parameters)
    if len(args) > len(names):
        raise TypeError(f"{len(args)} arguments were given; there are {len(names)}: {', '.join(names)}")
    arguments = dict(zip(names, args, strict=False))
    if doubled := arguments.keys() & kwargs.keys():
        raise TypeError(f"{', '.join(sorted(doubled))}: given twice")
    return arguments | kwargs
