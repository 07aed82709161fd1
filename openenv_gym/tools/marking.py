"""Which functions are tools, and what they may be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ..errors import ConfigError

__all__ = ["RESERVED", "Mark", "check_name", "check_tool_names", "mark_of", "marked", "tool"]

RESERVED = frozenset({"close", "reset", "state", "step"})
"""Names that no tool may have: an agent that calls tools never controls the episode."""

_ATTRIBUTE = "__openenv_tool__"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Mark:
    """What :func:`tool` says of a function; ``None``: what the function itself says."""

    name: str
    description: str | None = None
    timeout: float | None = None


@overload
def tool(function: _F, /) -> _F: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout: float | None = None
) -> Callable[[_F], _F]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Any:
    """Make a function or a method of an environment a tool.

    Its signature becomes the JSON Schema of its arguments, its return annotation that of its result, its
    docstring the description. It may be a coroutine function. It stays callable as it was.

    Args:
        function: The function, where the decorator stands without parentheses.
        name: What agents call it; default: the function's name.
        description: What agents read; default: the docstring.
        timeout: How long a call may take, in seconds; default: the environment's ``tool_timeout``.

    Raises:
        ConfigError: The name is reserved (``reset``, ``step``, ``state``, ``close``), or the function has
            parameters that no caller could name.
    """
    if function is None:
        return lambda inner: _marked(inner, Mark(name or inner.__name__, description, timeout))
    if not callable(function):
        raise ConfigError(
            f"@tool marks functions and methods, not {function!r}; put it below @classmethod or @property"
        )
    return _marked(function, Mark(name or function.__name__, description, timeout))


def _marked(function: Any, mark: Mark) -> Any:
    check_name(mark.name)
    if mark.timeout is not None and not mark.timeout > 0:
        raise ConfigError(f"tool {mark.name!r}: timeout={mark.timeout} must be positive seconds")
    for parameter in inspect.signature(function).parameters.values():
        if (
            parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
            and parameter.name != "self"
        ):
            raise ConfigError(
                f"tool {mark.name!r}: parameter {parameter} cannot be given by name; "
                "the arguments of a tool are named"
            )
    setattr(function, _ATTRIBUTE, mark)
    return function


def mark_of(function: Any) -> Mark | None:
    """Return what :func:`tool` said of a function, a method or a static method."""
    for part in (function, getattr(function, "__func__", None)):
        mark = getattr(part, _ATTRIBUTE, None)
        if isinstance(mark, Mark):
            return mark
    return None


def check_name(name: str) -> None:
    """Refuse a name that no tool may have."""
    if name in RESERVED:
        raise ConfigError(
            f"no tool may be called {name!r}: {', '.join(sorted(RESERVED))} control the episode, "
            "which agents cannot; give it another name or a prefix"
        )


def marked(cls: type) -> Iterator[tuple[str, Mark]]:
    """Yield attribute and mark of each tool of a class. An override without a mark stays a tool."""
    seen = set()
    for base in cls.__mro__:
        for attribute, value in vars(base).items():
            if attribute not in seen and (mark := mark_of(value)) is not None:
                seen.add(attribute)
                yield attribute, mark


def check_tool_names(cls: type) -> None:
    """Check the tools of a class when it is made.

    Raises:
        ConfigError: Two of them have the same name, or one is no longer callable.
    """
    owners: dict[str, str] = {}
    for attribute, mark in marked(cls):
        if owners.setdefault(mark.name, attribute) != attribute:
            raise ConfigError(
                f"{cls.__name__}.{attribute} and {cls.__name__}.{owners[mark.name]} are both tool "
                f"{mark.name!r}; rename one"
            )
        if not callable(getattr(cls, attribute)):
            raise ConfigError(
                f"{cls.__name__}.{attribute} hides tool {mark.name!r} and is not callable; rename it"
            )
