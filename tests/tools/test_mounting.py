from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from openenv_gym.errors import ConfigError
from openenv_gym.tools.mounting import Mount, as_mount, mount


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ("https://example.org/mcp?key=1", "https://example.org/mcp"),
        (["python", "-m", "files"], "python"),
        (("python",), "python"),
        (MCPServer("x"), "the MCPServer"),
    ],
)
def test_servers_of_every_kind_are_taken(server: Any, shown: str) -> None:
    found = mount(server, "p_", timeout=3.0)
    assert (found.server, found.prefix, found.timeout, found.shown) == (server, "p_", 3.0, shown)
    assert as_mount(found) is found
    assert as_mount(server) == Mount(server)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("python server.py", "a command a list such as"),
        ([], "is no command"),
        (["python", 3], "is no command"),
        (object(), "object is no MCP server"),
    ],
)
def test_what_is_no_server_is_refused(server: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        as_mount(server)


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ("http://a/mcp", {"timeout": 0.0}, "must be positive seconds"),
        (["a"], {"headers": {"x": "y"}}, "headers go with a URL"),
        ("http://a/mcp", {"cwd": "/"}, "env and cwd go with a command"),
    ],
)
def test_options_go_with_the_kind_of_server(server: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mount(server, **options)


def test_headers_are_kept_out_of_its_repr() -> None:
    assert "secret" not in repr(mount("http://a/mcp", headers={"Authorization": "secret"}))
