"""Calls of tools as values of a Gymnasium space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from ..errors import ConfigError, ToolNotFoundError
from ..forms import Form, schema_form
from ..models import CallToolAction, Tool

__all__ = ["tools_form"]


def tools_form(tools: Sequence[Tool]) -> Form:
    """Return the form of a call of one of ``tools``: a ``OneOf``, in their order, of their arguments.

    ``names["$"]`` of the form lists the tools; the names within their arguments stand under ``$[0]`` ...

    Raises:
        ConfigError: There are no tools.
    """
    if not tools:
        raise ConfigError("there are no tools, so there is no space of their calls; add some")
    forms = [schema_form(tool.input_schema) for tool in tools]
    names = [tool.name for tool in tools]
    within = {
        f"$[{at}]{path[1:]}": found for at, form in enumerate(forms) for path, found in form.names.items()
    }

    def to_value(action: CallToolAction) -> tuple[np.int64, Any]:
        if action.tool_name not in names:
            raise ToolNotFoundError(
                f"there is no tool {action.tool_name!r}; there are: {', '.join(names)}",
                tool=action.tool_name,
                tools=names,
            )
        at = names.index(action.tool_name)
        return np.int64(at), forms[at].to_value(action.arguments)

    def from_value(value: tuple[Any, Any]) -> CallToolAction:
        at, arguments = value
        return CallToolAction(tool_name=names[at], arguments=forms[at].from_value(arguments))

    return Form(spaces.OneOf([form.space for form in forms]), {"$": names, **within}, to_value, from_value)
