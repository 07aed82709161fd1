"""A typed client whose methods block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym.client import MCPToolClient, SyncEnvClient, SyncToolClient
from openenv_gym.errors import RemoteEnvironmentError
from tests.client.sleeper import Nap, SleeperClient


class Busy(SleeperClient):
    """Has methods of its own."""

    async def twice(self, say: str) -> list[str]:
        """Step twice."""
        first = await self.step(Nap(say=say))
        second = await self.step(Nap(say=say.upper()))
        return [first.observation.said, second.observation.said]

    async def fails(self) -> None:
        """Raise."""
        await self.step(Nap(say="boom"))

    def greeting(self) -> Any:
        """Reset."""
        return self.reset()

    def plain(self) -> int:
        """Return a number."""
        return 3


@pytest.fixture
def client(sleeper_url: str) -> Iterator[Busy]:
    client = Busy(sleeper_url)
    yield client
    client.sync().close()


def use(client: Busy) -> None:
    sync = client.sync()
    assert sync.connect() is sync
    assert sync.sync() is sync and sync.async_client is client and client.sync() is sync
    assert sync.reset(seed=1).observation.said == "hello"
    assert sync.step(Nap(say="x")).observation.said == "x"
    assert sync.state().step_count == 1
    assert sync.twice("a") == ["a", "A"]
    with pytest.raises(RemoteEnvironmentError, match="kaboom"):
        sync.fails()
    assert sync.greeting().observation.said == "hello"
    assert (sync.plain(), sync.base_url, sync.mode) == (3, client.base_url, "simulation")
    other = sync.new_session()
    assert other.reset().observation.said == "hello"
    other.close()
    sync.disconnect()


def test_it_blocks_where_no_loop_runs(client: Busy) -> None:
    use(client)


def test_it_blocks_where_a_loop_runs(client: Busy) -> None:
    async def main() -> None:
        use(client)

    asyncio.run(main())


def test_it_finishes_what_a_task_had_begun(client: Busy) -> None:
    async def main() -> None:
        await client.reset()
        task = asyncio.ensure_future(client.step(Nap(seconds=0.05, say="task")))
        await asyncio.sleep(0.01)
        assert client.sync().step(Nap(say="sync")).observation.steps == 2
        assert (await task).observation.said == "task"

    asyncio.run(main())


def test_it_is_a_context_manager(sleeper_url: str) -> None:
    with Busy(sleeper_url).sync() as sync:
        assert sync.reset().observation.said == "hello"
        assert repr(sync).startswith("<SyncBusy ws://")
    with pytest.raises(AttributeError):
        _ = sync.nothing


def test_the_blocking_form_of_a_tool_client_has_its_methods(sleeper_url: str) -> None:
    class Loud(MCPToolClient):
        def list_tools(self, use_cache: bool = True) -> Any:
            return [tool.name.upper() for tool in super().list_tools(use_cache)]

    with Loud(sleeper_url).sync() as sync:
        other = sync.new_session()
        assert {type(sync), type(other), type(other.sync())} == {SyncToolClient}
        assert sync.list_tools() == [tool.name.upper() for tool in sync._tools]
    assert type(Busy(sleeper_url).sync()) is SyncEnvClient


def test_a_client_that_is_there_may_be_awaited(client: Busy) -> None:
    connected = client.connect()

    async def main() -> None:
        assert await connected is client
        assert await client.connect() is client

    asyncio.run(main())
