"""Episodes over HTTP: requests share a session, and are refused without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from openenv_gym.errors import CapacityError, OpenEnvError, RemoteProtocolError
from openenv_gym.protocol import messages as m
from openenv_gym.servers.openenv import http
from openenv_gym.servers.openenv.http import COOKIE, HEADER, HttpSessions, failure, read_body
from openenv_gym.servers.openenv.sessions import Sessions
from openenv_gym.servers.settings import ServerSettings

from ..wire import run
from .fakeworker import FakePool, Web, instead, reply_to


class _House:
    """A pool, its table, and the application."""

    def __init__(self, pool: FakePool) -> None:
        self.pool = pool
        self.sessions = Sessions(pool)  # type: ignore[arg-type]
        routes = HttpSessions(self.sessions, pool.settings).routes()

        async def failed(request: Any, exc: Exception) -> Any:
            assert isinstance(exc, OpenEnvError)
            return failure(exc, "body")

        self.app = Starlette(routes=routes, exception_handlers={OpenEnvError: failed})
        self.web = Web(self.app)

    def hellos(self) -> int:
        return sum(isinstance(request, m.Hello) for request in self.pool.asked)


def _story(tell: Callable[[_House], Awaitable[None]], answer: Any = None, **settings: Any) -> FakePool:
    pools = []

    async def main() -> None:
        pool = FakePool(**({"answer": answer} if answer else {}), **settings)
        pools.append(pool)
        house = _House(pool)
        async with house.web:
            await tell(house)
        for held in list(house.sessions._held.values()):
            await house.sessions.close(held)
        await pool.settle()

    run(main)
    return pools[0]


def _counting() -> Any:
    count = 0

    def answer(request: m.Step) -> m.Transition:
        nonlocal count
        count += 1
        return m.Transition(request.id, {"count": count}, [1.0], b"\0")

    return instead(m.Step, answer)


def test_f109_reset_and_steps_share_a_session_by_the_cookie() -> None:
    async def tell(house: _House) -> None:
        first = await house.web.post("/reset", json={"seed": 3, "game": "pong"})
        assert first.status_code == 200
        assert first.json()["observation"] == {"seed": 3, "game": "pong", "metadata": {"start": True}}
        assert (first.json()["reward"], first.json()["done"]) == (None, False)
        answers = [await house.web.post("/step", json={"action": {}}) for _ in range(3)]
        assert [answer.json()["observation"]["count"] for answer in answers] == [1, 2, 3]
        state = await house.web.get("/state")
        assert state.json() == {"episode_id": "e", "step_count": 5}
        for response in (first, *answers, state):
            cookie = response.headers["set-cookie"]
            assert cookie.startswith(f"{COOKIE}={response.headers[HEADER]};")
            assert {"HttpOnly", "Max-Age=900", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert house.hellos() == 1

    _story(tell, _counting())


def test_a_request_whose_client_left_before_its_turn_is_not_carried_out() -> None:
    async def tell(house: _House) -> None:
        await house.web.post("/reset")
        (held,) = house.sessions._held.values()
        await held.turn.acquire()
        leaving = _Leaving("/step", {"action": {}}, held.id)
        asking = asyncio.ensure_future(house.app(leaving.scope, leaving.receive, leaving.send))
        while not leaving.gone:
            await asyncio.sleep(0)
        held.turn.release()
        await asking
        assert not any(isinstance(request, m.Step) for request in house.pool.asked)
        assert (await house.web.post("/step", json={"action": {}})).status_code == 200

    _story(tell)


def test_a_session_whose_client_left_before_the_first_reset_is_closed() -> None:
    async def tell(house: _House) -> None:
        leaving = _Leaving("/reset", {})
        await house.app(leaving.scope, leaving.receive, leaving.send)
        assert house.sessions._held == {}

    _story(tell)


class _Leaving:
    """A request whose client is gone when the body has come."""

    def __init__(self, path: str, body: Any, session: str = "") -> None:
        headers = [(HEADER.lower().encode(), session.encode())] if session else []
        self.scope: Any = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "scheme": "http",
        }
        self._body = json.dumps(body).encode()
        self.gone = False

    async def receive(self) -> Any:
        if self.gone:
            return {"type": "http.disconnect"}
        self.gone = True
        return {"type": "http.request", "body": self._body}

    async def send(self, event: Any) -> None:
        pass


def test_the_header_does_as_well_and_goes_before_the_cookie() -> None:
    async def tell(house: _House) -> None:
        one = (await house.web.post("/reset")).headers[HEADER]
        house.web.cookies.clear()
        two = (await house.web.post("/reset")).headers[HEADER]
        assert one != two
        for session_id in (one, two):
            answer = await house.web.post("/step", json={"action": {}}, headers={HEADER: session_id})
            assert answer.headers[HEADER] == session_id

    _story(tell)


@pytest.mark.parametrize(("method", "path"), [("POST", "/step"), ("GET", "/state")])
def test_f109_without_a_session_a_request_is_told_how_to_get_one(method: str, path: str) -> None:
    async def tell(house: _House) -> None:
        body = {"action": {}} if method == "POST" else None
        refused = await house.web.request(method, path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "reset_needed")
        for word in ("POST /reset", COOKIE, HEADER):
            assert word in refused.json()["message"]
        unknown = await house.web.request(method, path, json=body, headers={HEADER: "nobody"})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "session_lost")
        assert "POST /reset" in unknown.json()["message"]

    assert _story(tell).asked == []


def test_a_reset_with_a_session_that_is_gone_opens_a_new_one() -> None:
    async def tell(house: _House) -> None:
        answer = await house.web.post("/reset", headers={HEADER: "nobody"})
        assert answer.status_code == 200
        assert answer.headers[HEADER] != "nobody"
        again = await house.web.post("/reset", json={"seed": 2})
        assert again.headers[HEADER] == answer.headers[HEADER]
        assert house.hellos() == 1

    _story(tell)


def test_a_session_that_nobody_uses_ends_and_says_so() -> None:
    async def tell(house: _House) -> None:
        await house.web.post("/reset")
        (held,) = house.sessions._held.values()
        await held.peer.ended
        answer = await house.web.post("/step", json={"action": {}})
        assert (answer.status_code, answer.json()["code"]) == (404, "session_lost")
        assert "--http-session-ttl" in answer.json()["message"]

    _story(tell, http_session_ttl=0.01)


def test_after_a_crash_each_request_says_so_until_a_reset_starts_anew() -> None:
    async def tell(house: _House) -> None:
        first = await house.web.post("/reset")
        (held,) = house.sessions._held.values()
        held.peer.drop()
        for _ in range(2):
            answer = await house.web.post("/step", json={"action": {}})
            assert (answer.status_code, answer.json()["code"]) == (404, "session_lost")
            assert answer.headers[HEADER] == first.headers[HEADER]
        assert (await house.web.post("/reset")).headers[HEADER] == first.headers[HEADER]
        assert (await house.web.post("/step", json={"action": {}})).status_code == 200
        assert house.hellos() == 2

    _story(tell)


@pytest.mark.parametrize(
    ("path", "body", "loc"),
    [
        ("/reset", {"seed": -1}, ["body", "seed"]),
        ("/reset", {"episode_id": "e" * 256}, ["body", "episode_id"]),
        ("/reset", [1], ["body"]),
        ("/step", {"action": {}, "sede": 1}, ["body", "sede"]),
        ("/step", {"actoin": {}}, ["body", "actoin"]),
        ("/step", {}, ["body", "action"]),
        ("/step", {"action": 3}, ["body", "action"]),
        ("/step", {"action": {}, "timeout_s": -1}, ["body", "timeout_s"]),
        ("/step", {"action": {}, "request_id": 5}, ["body", "request_id"]),
    ],
)
def test_f070_a_request_that_is_wrong_is_told_where(path: str, body: Any, loc: list[str]) -> None:
    async def tell(house: _House) -> None:
        if path == "/step":
            await house.web.post("/reset")
        asked = len(house.pool.asked)
        answer = await house.web.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "validation")
        assert [item["loc"] for item in answer.json()["detail"]] == [loc]
        assert len(house.pool.asked) == asked

    _story(tell)


def test_what_the_environment_finds_wrong_is_told_as_part_of_the_body() -> None:
    def refuse(request: m.Step) -> m.Error:
        return m.Error("validation", "too long", request.id, True, {"path": "$.message"})

    async def tell(house: _House) -> None:
        await house.web.post("/reset")
        answer = await house.web.post("/step", json={"action": {"message": "x"}})
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", "action", "message"]
        assert (await house.web.get("/state")).status_code == 200

    _story(tell, instead(m.Step, refuse))


def test_a_reset_that_fails_leaves_no_session() -> None:
    def refuse(request: m.Reset) -> m.Error:
        return m.Error("environment", "KeyError: 'level'", request.id, True, {"type": "KeyError"})

    async def tell(house: _House) -> None:
        answer = await house.web.post("/reset", json={"level": 7})
        assert (answer.status_code, answer.json()["code"]) == (500, "environment")
        assert HEADER not in answer.headers
        assert "set-cookie" not in answer.headers
        assert house.sessions._held == {}

    _story(tell, instead(m.Reset, refuse))


def test_a_body_that_is_no_json_or_too_large_is_refused() -> None:
    async def tell(house: _House) -> None:
        answer = await house.web.post("/reset", content=b"{")
        assert (answer.status_code, answer.json()["code"]) == (400, "protocol")
        answer = await house.web.post("/reset", content=b" " * 2000)
        assert (answer.status_code, answer.json()["code"]) == (413, "message_too_large")
        assert answer.json()["details"] == {"size": 2000, "limit": 1024, "option": "max_message_size"}

    assert _story(tell, max_message_size=1024).asked == []


@pytest.mark.parametrize(
    ("parts", "pause", "code"),
    [
        pytest.param([b"{"], 10 * http.PATIENCE, "protocol", id="no end"),
        pytest.param([b" "] * 100, 0.1 * http.PATIENCE, "protocol", id="a byte at a time"),
        pytest.param([b" " * 1000] * 20 + [b"{}"], 0.1 * http.PATIENCE, None, id="slowly"),
    ],
)
def test_a_body_must_come_at_some_pace(parts: list[bytes], pause: float, code: str | None) -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause if sent else 0.0)
        sent.append(parts[len(sent)])
        return {"type": "http.request", "body": sent[-1], "more_body": sent != parts or len(parts) == 1}

    sent: list[bytes] = []

    async def main() -> None:
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        if code is None:
            assert await read_body(request, ServerSettings()) == {}
            return
        with pytest.raises(RemoteProtocolError, match="not whole"):
            await read_body(request, ServerSettings())

    with asyncio.Runner(loop_factory=_hurried) as runner:
        runner.run(main())


def _hurried() -> asyncio.AbstractEventLoop:
    """Return a loop that skips the time in which nothing happens, and on which no other time passes."""
    loop = asyncio.SelectorEventLoop()
    selector, now = loop._selector, 0.0  # type: ignore[attr-defined]
    look = selector.select

    def skip(timeout: float | None) -> Any:
        nonlocal now
        now += timeout or 0.0
        return look(0.0 if timeout else timeout)

    selector.select = skip
    loop.time = lambda: now  # type: ignore[method-assign]
    return loop


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_fault_of_the_server() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def main() -> None:
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        with pytest.raises(RemoteProtocolError, match="left"):
            await read_body(request, ServerSettings())

    run(main)


def test_a_step_that_is_repeated_by_its_id_is_done_once() -> None:
    async def tell(house: _House) -> None:
        await house.web.post("/reset")

        async def step(request_id: str | None) -> int:
            body = {"action": {}, "request_id": request_id}
            return int((await house.web.post("/step", json=body)).json()["observation"]["count"])

        assert [await step("a"), await step("a"), await step("b"), await step("a")] == [1, 1, 2, 3]
        assert [await step(None), await step(None)] == [4, 5]
        assert await asyncio.gather(step("c"), step("c")) == [6, 6]
        await house.web.post("/reset")
        assert await step("c") == 7

    _story(tell, _counting())


def test_a_step_that_takes_longer_than_its_time_ends_the_session() -> None:
    async def never(request: m.Step) -> Any:
        await asyncio.sleep(0.1)
        return reply_to(request)

    async def tell(house: _House) -> None:
        await house.web.post("/reset")
        answer = await house.web.post("/step", json={"action": {}, "timeout_s": 0.01})
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
        assert [what for what, _ in house.pool.done] == ["condemn"]
        again: httpx.Response = await house.web.get("/state")
        assert again.json()["code"] == "deadline_exceeded"

    _story(tell, instead(m.Step, never))


def test_a_full_server_says_so() -> None:
    async def tell(house: _House) -> None:
        house.pool.refusal = CapacityError("full", active=1, max=1)
        answer = await house.web.post("/reset")
        assert (answer.status_code, answer.json()["code"]) == (503, "capacity")

    _story(tell)


def test_over_tls_the_cookie_is_for_tls_only() -> None:
    async def tell(house: _House) -> None:
        async with Web(house.app) as web:
            answer = await web.post("https://127.0.0.1/reset")
            assert "Secure" in answer.headers["set-cookie"].split("; ")

    _story(tell)
