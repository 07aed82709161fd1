"""What is known of the environment is asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest

from openenv_gym.protocol import messages as m
from openenv_gym.servers.openenv.about import About, visit
from openenv_gym.servers.openenv.text import write_json
from openenv_gym.servers.targets import resolve

from ..wire import run
from .fakeworker import FACTS, FakePool, instead


def _story(tell: Callable[[FakePool, About], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        pool = FakePool(**settings)
        await tell(pool, About(pool, pool.settings, resolve("CartPole-v1")))  # type: ignore[arg-type]
        await pool.settle()

    run(main)


def test_metadata_is_the_environments_and_the_servers() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        said = await about.metadata()
        own = FACTS["own"]
        assert said.items() >= own.items()
        assert said.pop("server").startswith("openenv_gym ")
        assert {name: said[name] for name in set(said) - set(own)} == {
            "target": "CartPole-v1",
            "taken_as": "Gymnasium id",
            "mode": "simulation",
            "metadata": FACTS["metadata"],
            "render_mode": None,
            "spec": FACTS["spec"],
        }
        assert b'"fps":"Infinity"' in write_json(said)

    _story(tell)


def test_an_answer_is_none_the_worse_for_an_environment_that_cannot_be_closed() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        pool.answer = instead(m.Close, lambda request: m.Error("environment", "OSError: busy", request.id))
        async with visit(pool, pool.settings) as peer:  # type: ignore[arg-type]
            assert await peer.ask("metadata") == ["metadata", {}]

    _story(tell)


def test_the_name_needs_no_session() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        names = await asyncio.gather(*(about.name() for _ in range(3)))
        assert (names, await about.name()) == (["Game"] * 3, "Game")
        assert pool.asked == []

    _story(tell)


def test_schemas_are_the_environments_own_and_an_observation_has_what_travels_beside_it() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        schemas = await about.schemas()
        assert schemas["action"] == FACTS["schemas"]["action"]
        assert schemas["state"] == FACTS["schemas"]["state"]
        assert list(schemas["observation"]["properties"]) == ["done", "reward", "metadata", "seen"]
        assert list(FACTS["schemas"]["observation"]["properties"]) == ["seen"]
        jsonschema.validate({"seen": "x", "reward": None, "done": True}, schemas["observation"])

    _story(tell)


def test_spaces_are_shown_with_schemas_of_their_values() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        said = await about.spaces()
        assert said["spaces"]["action"] == {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
        jsonschema.validate(1, said["values"]["action"])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(2, said["values"]["action"])

    _story(tell)


def test_a_visit_ends_its_session_whatever_happens() -> None:
    async def tell(pool: FakePool, about: About) -> None:
        with pytest.raises(KeyError):
            async with visit(pool, pool.settings):  # type: ignore[arg-type]
                raise KeyError
        assert [type(request) for request in pool.asked] == [m.Hello, m.Close]
        assert pool.asked[0].slot_timeout == 2.0

    _story(tell, slot_wait=2.0)
