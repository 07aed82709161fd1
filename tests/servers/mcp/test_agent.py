from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from openenv_gym.environment import Environment
from openenv_gym.errors import WorkerCrashedError
from openenv_gym.servers.mcp import agent as agent_module
from openenv_gym.servers.mcp.agent import LATEST, VERSIONS, Agent
from openenv_gym.servers.mcp.rpc import RpcError

from .scene import PIXEL, Bench, Scene, Toolless


def _play(
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Agent], Awaitable[Any]],
    kind: type[Environment[Any, Any, Any]] = Bench,
) -> Any:
    scene = Scene(monkeypatch, kind)

    async def run() -> Any:
        held = await scene.sessions.open(ttl=None)
        try:
            return await work(Agent(held, LATEST))
        finally:
            await scene.sessions.close(held)

    return asyncio.run(run())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_revision_is_spoken(version: str) -> None:
    assert Agent.agreed({"protocolVersion": version}) == version


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
def test_instead_of_another_revision_the_latest_is_offered(version: str) -> None:
    assert Agent.agreed({"protocolVersion": version}) == LATEST


def test_a_revision_must_be_asked_for() -> None:
    with pytest.raises(RpcError, match="'protocolVersion' is missing"):
        Agent.agreed({})


def test_the_episode_begins_once_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> None:
        result = await agent.welcome()
        assert result["protocolVersion"] == LATEST
        assert result["capabilities"] == {"tools": {"listChanged": True}}
        assert result["serverInfo"]["name"] == "Bench"
        assert result["instructions"] == "Tools of every kind."
        for expected in (1, 2):
            answer = await agent.answer("tools/call", {"name": "count"})
            assert answer["structuredContent"] == {"result": expected}
        assert agent.held.peer.resets == 1  # type: ignore[attr-defined]

    _play(monkeypatch, work)


def test_tools_have_the_names_of_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> None:
        tools = (await agent.answer("tools/list", {}))["tools"]
        add, fail = (tool for tool in tools if tool["name"] in ("add", "fail"))
        assert add.keys() == {"name", "description", "inputSchema", "outputSchema"}
        assert fail.keys() == {"name", "description", "inputSchema"}

    _play(monkeypatch, work)


def test_long_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "_PAGE", 2)

    async def work(agent: Agent) -> list[str]:
        names: list[str] = []
        cursor = None
        while True:
            page = await agent.answer("tools/list", {} if cursor is None else {"cursor": cursor})
            assert len(page["tools"]) <= 2
            names += [tool["name"] for tool in page["tools"]]
            cursor = page.get("nextCursor")
            if cursor is None:
                return names

    assert _play(monkeypatch, work) == ["add", "count", "wait", "fail", "picture", "learn"]


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 40, 3, ["0"], "²"])
def test_other_cursors_are_refused(monkeypatch: pytest.MonkeyPatch, cursor: Any) -> None:
    async def work(agent: Agent) -> None:
        with pytest.raises(RpcError, match="is no cursor of this server") as caught:
            await agent.answer("tools/list", {"cursor": cursor})
        assert caught.value.code == -32602

    _play(monkeypatch, work)


def test_content_and_meta_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> Any:
        return await agent.answer("tools/call", {"name": "picture"})

    assert _play(monkeypatch, work) == {"content": [PIXEL], "isError": False, "_meta": {"size": 1}}


@pytest.mark.parametrize(
    "method", ["reset", "step", "state", "close", "openenv/session/close", "logging/setLevel"]
)
def test_an_agent_never_reaches_more_than_tools(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    async def work(agent: Agent) -> None:
        with pytest.raises(RpcError) as caught:
            await agent.answer(method, {})
        assert caught.value.code == -32601
        with pytest.raises(RpcError, match="Unknown tool") as unknown:
            await agent.answer("tools/call", {"name": method})
        assert unknown.value.code == -32602

    _play(monkeypatch, work)


def test_an_environment_without_tools_offers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> None:
        assert (await agent.welcome())["capabilities"] == {}
        for method in ("tools/list", "tools/call"):
            with pytest.raises(RpcError) as caught:
                await agent.answer(method, {"name": "x"})
            assert caught.value.code == -32601

    _play(monkeypatch, work, Toolless)


def test_a_changed_list_is_noticed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> None:
        await agent.answer("tools/call", {"name": "learn"})
        await agent.look()
        assert not agent.changed  # it has seen no list, so none has changed
        before = (await agent.answer("tools/list", {}))["tools"]
        assert "learned" in {tool["name"] for tool in before}
        await agent.look()
        assert not agent.changed

    _play(monkeypatch, work)

    async def later(agent: Agent) -> None:
        await agent.answer("tools/list", {})
        await agent.answer("tools/call", {"name": "learn"})
        await agent.look()
        assert agent.changed
        agent.changed = False
        await agent.look()
        assert not agent.changed

    _play(monkeypatch, later)


def test_a_lost_session_is_an_error_and_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(agent: Agent) -> None:
        agent.held.peer.die(WorkerCrashedError("it crashed", exit_code=3))  # type: ignore[attr-defined]
        for method, params in (
            ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}),
            ("tools/list", {}),
        ):
            with pytest.raises(RpcError, match="it crashed") as caught:
                await agent.answer(method, params)
            assert caught.value.data["error"] == "worker_crashed"
        await agent.look()

    _play(monkeypatch, work)
