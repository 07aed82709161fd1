"""Tools of a server of ours, mounted."""

from __future__ import annotations

import pytest

from openenv_gym.errors import ToolFailedError
from openenv_gym.tools import ToolResult, ToolTable, mount
from openenv_gym.tools.links import Link
from tests.support.serverproc import serving


def test_f096_tools_of_a_server_survive_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = Link._list
    monkeypatch.setattr(Link, "_list", lambda self, client: asked.append(1) or ask(self, client))
    with serving("tests.interop.bench:Bench", "--workers", "1") as server:
        table = ToolTable(mounted=[mount(f"{server.url.replace('ws://', 'http://')}/mcp", "b_")])
        try:
            assert [tool.name for tool in table.list()][:2] == ["b_add", "b_count"]
            assert table.call("b_add", {"a": 1, "b": 2}) == 3
            assert table.call("b_count") == {"calls": 2}
            with pytest.raises(
                ToolFailedError, match="tool 'b_fail' failed: tool 'fail' raised ValueError: w"
            ):
                table.call("b_fail", {"why": "w"})
            table.list()
            assert len(asked) == 1  # it tells when they change
            table.call("b_learn")
            assert table.call("b_learned", {"word": "ab"}) == "abab"
            assert len(asked) == 2
            server.stop()
            server.start()
            again = table.call("b_count")
            assert isinstance(again, ToolResult) and again.data == {"calls": 1}
            assert again.meta == {"openenv": {"session_renewed": True}}
            assert "b_learned" not in {tool.name for tool in table.list()}
        finally:
            table.close()
