from __future__ import annotations

import numpy as np
import pytest

from openenv_gym.errors import ToolNotFoundError
from openenv_gym.tools import ToolTable, tool_mask


def look() -> None: ...


def take(thing: str) -> None: ...


def test_a_mask_has_a_place_for_each_tool_in_their_order() -> None:
    tools = ToolTable([look, take]).list()
    mask = tool_mask(tools, {"take"})
    assert mask.dtype == np.int8 and mask.tolist() == [0, 1]
    assert tool_mask(["look", "take"], ["look", "take"]).tolist() == [1, 1]
    assert tool_mask(tools, []).tolist() == [0, 0]
    assert tool_mask([], []).shape == (0,)


def test_an_unknown_tool_is_refused() -> None:
    with pytest.raises(ToolNotFoundError, match="no tool 'drop' to mask; there are: look, take"):
        tool_mask(["look", "take"], ["drop"])
