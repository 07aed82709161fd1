"""One session of a kind tries an environment; the others wait for what it finds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv_gym.protocol.codec import Greeting, decode_first, encode
from openenv_gym.protocol.messages import Hello, Limits
from openenv_gym.servers import paces as module
from openenv_gym.servers.paces import Paces


def _hello(number: int, **fields: Any) -> Greeting:
    hello = Hello(**{"session": f"{number:032x}", "token": bytes(16), "lanes": 2, **fields})
    greeting = decode_first(encode(hello))
    assert isinstance(greeting, Greeting)
    return greeting


def test_the_first_tries_and_the_others_go_by_it() -> None:
    async def story() -> None:
        paces = Paces(True)
        assert await paces.of(_hello(1)) is None
        others = [asyncio.ensure_future(paces.of(_hello(number))) for number in (2, 3)]
        await asyncio.sleep(0)
        assert not any(other.done() for other in others)
        assert [paces.trying(_hello(number).session) for number in (1, 2)] == [True, False]
        paces.measured(_hello(1).session, True)
        assert not paces.trying(_hello(1).session)
        assert await asyncio.gather(*others) == [True, True]
        paces.ended(_hello(1).session)
        assert await paces.of(_hello(4)) is True

    asyncio.run(story())


def test_when_the_first_ends_without_a_result_the_next_tries() -> None:
    async def story() -> None:
        paces = Paces(True)
        assert await paces.of(_hello(1)) is None
        others = [asyncio.ensure_future(paces.of(_hello(number))) for number in (2, 3)]
        await asyncio.sleep(0)
        paces.ended(_hello(1).session)
        done, (waiting,) = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [None]
        for number in (2, 3):
            paces.measured(_hello(number).session, False)
        assert await waiting is False

    asyncio.run(story())


@pytest.mark.parametrize(
    "fields", [{"env_kwargs": {"a": 1}}, {"env_kwargs": [{"a": 1}, {}]}, {"render_mode": "ansi"}], ids=str
)
def test_other_arguments_are_another_kind(fields: dict[str, Any]) -> None:
    async def story() -> None:
        paces = Paces(True)
        assert await paces.of(_hello(1)) is None
        assert await paces.of(_hello(2, **fields)) is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("needed", "fields"),
    [(False, {}), (True, {"lanes": 1}), (True, {"native": True}), (True, {"limits": Limits(threads=2)})],
)
def test_where_it_does_not_matter_nobody_waits(needed: bool, fields: dict[str, Any]) -> None:
    async def story() -> None:
        paces = Paces(needed)
        assert await paces.of(_hello(1, **fields)) is None
        assert await paces.of(_hello(2, **fields)) is None

    asyncio.run(story())


def test_it_remembers_a_limited_number_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KINDS", 2)

    async def story() -> None:
        paces = Paces(True)
        for number in range(5):
            assert await paces.of(_hello(number, env_kwargs={"a": number})) is None
            if number != 2:
                paces.measured(_hello(number).session, False)
        waiting = asyncio.ensure_future(paces.of(_hello(9, env_kwargs={"a": 2})))
        await asyncio.sleep(0)
        paces.measured(_hello(2).session, True)
        assert await waiting is True

    asyncio.run(story())
