"""Which tools may be called now, as a mask over the action space of their calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ToolNotFoundError
from ..models import Tool

__all__ = ["tool_mask"]


def tool_mask(tools: Sequence[Tool | str], available: Collection[str]) -> NDArray[Any]:
    """Return the mask that says which of ``tools`` may be called now.

    An environment puts it where Gymnasium's own put theirs, into the metadata of an observation, which is a
    Gymnasium user's ``info``: ``metadata={"action_mask": tool_mask(tools, ["look"])}``.

    Args:
        tools: The tools, or their names, in the order of the action space.
        available: Names of those that may be called.

    Returns:
        int8 array of shape ``(len(tools),)``: 1 for a branch of the ``OneOf`` that may be taken, else 0.

    Raises:
        ToolNotFoundError: One of ``available`` is not among them.
    """
    names = [tool if isinstance(tool, str) else tool.name for tool in tools]
    for name in available:
        if name not in names:
            raise ToolNotFoundError(
                f"there is no tool {name!r} to mask; there are: {', '.join(names) or 'none'}",
                tool=name,
                tools=names,
            )
    return np.array([name in available for name in names], np.int8)
