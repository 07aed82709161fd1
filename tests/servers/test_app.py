"""HTTP answers, and who gets them."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium as gym
import httpx
import jsonschema
import pytest
from starlette.applications import Starlette

from openenv_gym.errors import ConstructionError, OpenEnvError
from openenv_gym.protocol.specs import to_spec
from openenv_gym.protocol.values import pack
from openenv_gym.servers import app as app_module
from openenv_gym.servers.app import create_app
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve

from .fakes import FACTS, FakePool


def _app(pool: FakePool | None = None, **settings: Any) -> Starlette:
    return create_app(pool or FakePool(), ServerSettings(**settings), resolve("CartPole-v1"))


def _ask(app: Starlette, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def test_health_asks_nobody() -> None:
    pool = FakePool()
    answer = _ask(_app(pool), "/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})
    assert pool.calls == []


@pytest.mark.parametrize(("phase", "status"), [("starting", 503), ("ready", 200), ("draining", 503)])
def test_ready_says_the_phase(phase: str, status: int) -> None:
    app = _app()
    app.state.phase = phase
    answer = _ask(app, "/ready")
    assert (answer.status_code, answer.json()) == (status, {"status": phase})


def test_a_new_server_is_starting() -> None:
    assert _ask(_app(), "/ready").json() == {"status": "starting"}


def test_capacity_is_that_of_the_pool() -> None:
    assert _ask(_app(), "/capacity").json() == {"active": 1, "max": 2, "waiting": 0}


def test_metadata_says_what_is_served() -> None:
    facts = {
        **FACTS,
        "metadata": pack({"render_modes": ("ansi",), "fps": float("inf")}),
        "render_mode": "ansi",
    }
    answer = _ask(_app(FakePool(facts=facts)), "/metadata").json()
    assert answer.pop("server").startswith("openenv_gym ")
    assert answer == {
        "name": "CartPole-v1",
        "taken_as": "Gymnasium id",
        "metadata": {"render_modes": ["ansi"], "fps": "Infinity"},
        "render_mode": "ansi",
        "spec": {"max_episode_steps": 5, "reward_threshold": None, "nondeterministic": False},
    }


def test_schema_has_the_spaces_and_schemas_of_their_values() -> None:
    env = gym.make("CartPole-v1")
    facts = {
        **FACTS,
        "observation_space": to_spec(env.observation_space),
        "action_space": to_spec(env.action_space),
    }
    answer = _ask(_app(FakePool(facts=facts)), "/schema").json()
    assert answer["spaces"]["action"] == {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
    assert answer["spaces"]["observation"]["shape"] == [4]
    jsonschema.validate(1, answer["action"])
    jsonschema.validate(env.reset()[0].tolist(), answer["observation"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(2, answer["action"])


def test_an_error_has_code_message_and_details() -> None:
    answer = _ask(_app(FakePool(facts=ConstructionError("no such level", type="KeyError"))), "/schema")
    assert answer.status_code == 500
    assert answer.json() == {
        "code": "construction",
        "message": "no such level",
        "details": {"type": "KeyError"},
    }


@pytest.mark.parametrize("path", ["/metadata", "/schema", "/capacity", "/nothing"])
def test_with_a_token_only_health_and_ready_are_open(path: str) -> None:
    app = _app(token="s3cret")
    assert _ask(app, "/health").status_code == 200
    assert _ask(app, "/ready").status_code == 503
    refused = _ask(app, path)
    assert (refused.status_code, refused.json()["code"]) == (401, "authentication")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert _ask(app, path, Authorization="Bearer wrong").status_code == 401
    assert _ask(app, "/capacity", Authorization="Bearer s3cret").status_code == 200


def test_pages_of_other_origins_get_nothing() -> None:
    refused = _ask(_app(), "/capacity", Origin="https://evil.example")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    listed = _app(allowed_origins=("https://good.example",))
    assert _ask(listed, "/capacity", Origin="https://good.example").status_code == 200


def test_a_changing_request_by_a_foreign_name_is_refused() -> None:
    refused = _ask(_app(), "/capacity", "POST", Host="evil.example")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert _ask(_app(), "/capacity", "POST").status_code == 405
    assert _ask(_app(), "/capacity", Host="tunnel.example").status_code == 200


def test_websockets_go_to_the_pump_which_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Pump:
        def __init__(self, pool: Any, settings: ServerSettings) -> None:
            made.append((pool, settings))

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "websocket.close", "code": 4000, "reason": "pumped"})

    pool = FakePool()
    app = _app(pool)
    monkeypatch.setattr(app_module, "PUMP", f"{__name__}:Pump")
    monkeypatch.setitem(globals(), "Pump", Pump)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def connect(path: str) -> None:
        scope = {"type": "websocket", "path": path, "headers": [], "query_string": b"", "root_path": ""}
        await app(scope, None, send)  # type: ignore[arg-type]

    asyncio.run(connect("/ws"))
    asyncio.run(connect("/ws"))
    assert [message["code"] for message in sent] == [4000, 4000]
    assert made == [(pool, app.state.settings)]


def test_an_error_of_any_kind_is_answered() -> None:
    assert _ask(_app(FakePool(facts=OpenEnvError("odd"))), "/metadata").json()["code"] == "internal"
    missing = _ask(_app(), "/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "/metadata" in missing.json()["message"]


def test_a_bug_is_answered_without_its_details() -> None:
    app = _app(FakePool(facts={}))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/schema")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")


def test_a_plain_request_to_the_socket_is_told_how() -> None:
    answer = _ask(_app(), "/ws")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
    assert "ws://" in answer.json()["message"]
