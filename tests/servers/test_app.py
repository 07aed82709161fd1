"""HTTP answers, and who gets them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate
from starlette.applications import Starlette
from starlette.routing import Mount

from openenv_gym.errors import ConstructionError, OpenEnvError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.messages import SUBPROTOCOL
from openenv_gym.servers import app as app_module
from openenv_gym.servers.app import create_app
from openenv_gym.servers.settings import ServerSettings
from openenv_gym.servers.targets import resolve

from .openenv.fakeworker import FACTS, FakePool, Web, Wire, instead


def _app(pool: FakePool | None = None, **settings: Any) -> Starlette:
    pool = pool or FakePool()
    said = {"name": "Game", "description": "It is one."}
    pool.answer = instead(m.Ask, lambda request: m.Value(request.id, [said]))
    return create_app(pool, ServerSettings(**settings), resolve("CartPole-v1"))  # type: ignore[arg-type]


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
    assert pool.asked == []


@pytest.mark.parametrize(("phase", "status"), [("starting", 503), ("ready", 200), ("draining", 503)])
def test_ready_says_the_phase(phase: str, status: int) -> None:
    app = _app()
    app.state.phase = phase
    answer = _ask(app, "/ready")
    assert (answer.status_code, answer.json()) == (status, {"status": phase})


def test_a_new_server_is_starting() -> None:
    assert _ask(_app(), "/ready").json() == {"status": "starting"}


def test_capacity_is_that_of_the_pool() -> None:
    assert _ask(_app(), "/capacity").json() == {"active": 0, "max": 2, "waiting": 0}


def test_metadata_says_what_is_served() -> None:
    answer = _ask(_app(), "/metadata").json()
    assert (answer["name"], answer["description"]) == ("Game", "It is one.")
    assert (answer["target"], answer["taken_as"]) == ("CartPole-v1", "Gymnasium id")
    assert answer["metadata"] == {"render_modes": ["ansi"], "fps": "Infinity"}


def test_schema_has_the_environments_own_schemas_and_its_spaces() -> None:
    answer = _ask(_app(), "/schema").json()
    assert answer["action"] == FACTS["schemas"]["action"]
    assert answer["state"] == FACTS["schemas"]["state"]
    assert answer["reset_observation"] == answer["observation"]
    assert (answer["name"], answer["spaces"]["action"]["n"]) == ("CartPole-v1", 2)


def test_the_document_has_every_route_of_the_application() -> None:
    for mode in ("simulation", "production"):
        app = _app(mode=mode)
        document = _ask(app, "/openapi.json").json()
        validate(document, cls=OpenAPIV31SpecValidator)
        listed = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
        no_json = {"GET /openapi.json", "GET /docs", "GET /ws", "GET /mcp"}
        assert set(app_module._paths(app)) - no_json == listed


def test_the_page_is_there() -> None:
    answer = _ask(_app(), "/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def _preflight(origin: str, **settings: Any) -> httpx.Response:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    return _ask(_app(token="t", **settings), "/step", "OPTIONS", origin=origin, **asked)


@pytest.mark.parametrize("allowed", ["https://a.example", "*"])
def test_browsers_are_told_that_a_named_page_may_ask(allowed: str) -> None:
    answer = _preflight("https://a.example", allowed_origins=(allowed,))
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == allowed
    assert answer.headers["access-control-allow-headers"] == "content-type"
    assert "POST" in answer.headers["access-control-allow-methods"]
    asked = {"origin": "https://a.example", "authorization": "Bearer t"}
    answer = _ask(_app(token="t", allowed_origins=(allowed,)), "/capacity", **asked)
    assert answer.headers["access-control-allow-origin"] == allowed
    assert answer.headers["access-control-expose-headers"] == "OpenEnv-Session, mcp-session-id"


@pytest.mark.parametrize("allowed", [(), ("https://a.example",)])
def test_browsers_are_not_told_that_another_page_may_ask(allowed: tuple[str, ...]) -> None:
    answer = _preflight("https://b.example", allowed_origins=allowed)
    assert answer.status_code >= 400
    assert "access-control-allow-origin" not in answer.headers
    assert _ask(_app(allowed_origins=allowed), "/capacity", origin="https://b.example").status_code == 403


def test_an_error_has_code_message_and_details() -> None:
    answer = _ask(_app(FakePool(refusal=ConstructionError("no such level", type="KeyError"))), "/metadata")
    assert answer.status_code == 500
    assert answer.json() == {
        "code": "construction",
        "message": "no such level",
        "details": {"type": "KeyError"},
    }


def test_in_production_mode_an_error_has_no_traceback() -> None:
    broken = ConstructionError("no such level", type="KeyError", traceback="File '/srv/secret.py'")
    for mode, shown in (("simulation", True), ("production", False)):
        answer = _ask(_app(FakePool(refusal=broken), mode=mode), "/metadata").json()
        assert ("traceback" in answer["details"]) is shown


def test_an_episode_can_be_played_over_http() -> None:
    async def play() -> list[int]:
        async with Web(_app()) as web:
            answers = [
                await web.post("/reset", json={"seed": 1}),
                await web.post("/step", json={"action": {"a": 1}}),
                await web.get("/state"),
            ]
        return [answer.status_code for answer in answers]

    assert asyncio.run(play()) == [200, 200, 200]


@pytest.mark.parametrize(("method", "path"), [("POST", "/reset"), ("POST", "/step"), ("GET", "/state")])
def test_f082_in_production_mode_there_is_no_way_to_reset_or_step(method: str, path: str) -> None:
    pool = FakePool()
    answer = _ask(_app(pool, mode="production"), path, method)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "/reset" not in answer.json()["message"].partition("there are")[2]
    assert pool.asked == []


@pytest.mark.parametrize(("method", "path"), [("POST", "/reset"), ("POST", "/step"), ("GET", "/state")])
def test_f082_without_the_token_nobody_resets_or_steps(method: str, path: str) -> None:
    pool = FakePool()
    assert _ask(_app(pool, token="s3cret"), path, method).status_code == 401
    assert pool.asked == []


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


def test_health_is_open_where_the_application_is_mounted_and_nothing_else_is() -> None:
    outer = Starlette(routes=[Mount("/game", _app(token="s3cret"))])
    assert _ask(outer, "/game/health").status_code == 200
    assert _ask(outer, "/game/capacity").status_code == 401
    assert _ask(outer, "/game/health/..//capacity").status_code == 401


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


def test_binary_websockets_go_to_the_pump_which_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def connect() -> list[Any]:
        return await Wire(app, subprotocols=("other", SUBPROTOCOL)).end()

    for _ in range(2):
        (close,) = asyncio.run(connect())
        assert close["code"] == 4000
    assert made == [(pool, app.state.settings)]


@pytest.mark.parametrize("offered", [(), ("other",)])
def test_every_other_websocket_speaks_json(offered: tuple[str, ...]) -> None:
    async def talk() -> None:
        pool = FakePool()
        wire = Wire(_app(pool), subprotocols=offered)
        accepted = await wire.next()
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", None)
        assert (await wire.ask({"type": "state"}))["type"] == "state"
        wire.leave()
        await wire.end()
        await pool.settle()

    asyncio.run(talk())


def test_an_error_of_any_kind_is_answered() -> None:
    assert _ask(_app(FakePool(refusal=OpenEnvError("odd"))), "/metadata").json()["code"] == "internal"
    missing = _ask(_app(), "/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "GET /metadata" in missing.json()["message"]
    assert "POST /step" in missing.json()["message"]
    assert _ask(_app(), "/step", "PUT").status_code == 405


def test_a_bug_is_answered_without_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _app()
    monkeypatch.setattr(app.state.pool, "capacity", None)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/capacity")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")


def test_a_plain_request_to_the_socket_is_told_how() -> None:
    answer = _ask(_app(), "/ws")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
    assert "ws://" in answer.json()["message"]
