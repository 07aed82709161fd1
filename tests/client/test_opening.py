from __future__ import annotations

import collections
import socket
import time
from typing import Any

import pytest

from openenv_gym.client import opening
from openenv_gym.client.opening import Offer, Opener, checked_target
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import (
    ConfigError,
    ServerConnectionError,
    StartupTimeoutError,
    ValueNotCarriedError,
)
from openenv_gym.protocol.messages import Reset
from openenv_gym.providers.base import Provider
from tests.support.serverproc import eventually

from .scripted import ScriptedServer


class FakeProvider(Provider):
    """Points to scripted servers, one after the other."""

    def __init__(self, *servers: ScriptedServer) -> None:
        super().__init__("echo")
        self.servers = list(servers)
        self.current: ScriptedServer | None = None
        self.running = False

    def start(self) -> str:
        self.current = self.servers.pop(0)
        self.running = True
        return self.current.base_url

    def wait_ready(self, timeout: float | None) -> None:
        pass

    def alive(self) -> bool:
        return self.running

    def stop(self) -> None:
        self.running = False

    def logs(self, lines: int = 50) -> str:
        return "its last line"

    def ending(self) -> str:
        return "exit code 3"


def opener(monkeypatch: pytest.MonkeyPatch, provider: Provider, **settings: Any) -> Opener:
    monkeypatch.setattr(opening, "shared_provider", lambda *_: provider)
    return Opener(ClientSettings(**settings), "echo")


def test_the_first_message_says_what_the_settings_ask_for() -> None:
    settings = ClientSettings(
        base_url="ws://127.0.0.1:1",
        step_timeout=2,
        slot_timeout=3,
        env_kwargs={"size": 8, "shape": (1, 2)},
        max_message=4096,
    )
    hello = Opener(settings, "CartPole-v1", time_limit=False, render_mode="ansi", client="me").hello
    assert (hello.expect, hello.time_limit, hello.render_mode, hello.client) == (
        "CartPole-v1",
        False,
        "ansi",
        "me",
    )
    assert (hello.limits.step, hello.limits.reset, hello.limits.message) == (2.0, 2.0, 4096)
    assert hello.slot_timeout == 3.0
    assert hello.env_kwargs["size"] == 8


def test_an_embedded_server_need_not_be_told_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opener(monkeypatch, FakeProvider()).hello.expect is None


def test_without_a_server_there_is_an_error_that_says_what_to_pass() -> None:
    with pytest.raises(ConfigError, match=r"pass base_url= \(OPENENV_BASE_URL\)"):
        Opener(ClientSettings(), None)


def test_an_unknown_provider_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no provider 'cloud'; write 'process', 'inprocess'"):
        Opener(ClientSettings(provider="cloud"), "echo")


def test_a_token_and_a_user_in_the_url_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="token and a user in base_url"):
        Opener(ClientSettings(base_url="ws://u:p@h", token="t"), None)


def test_an_argument_that_does_not_travel_is_named() -> None:
    settings = ClientSettings(base_url="ws://h", env_kwargs={"reward": [print]})
    with pytest.raises(ValueNotCarriedError, match=r"env_kwargs\['reward'\]\[0\]"):
        Opener(settings, None)


def test_what_to_run_is_a_text() -> None:
    assert checked_target(None) is None
    assert checked_target("echo") == "echo"
    with pytest.raises(ConfigError, match="write 'collections:Counter', not the class itself"):
        checked_target(collections.Counter)

    class Local:
        pass

    with pytest.raises(ConfigError, match="put Local at the top of a file of its own, my_env.py, and write"):
        checked_target(Local)
    for wrong in ("", 5):
        with pytest.raises(ConfigError, match="is a text"):
            checked_target(wrong)


def test_a_provider_without_anything_to_run_says_so() -> None:
    with pytest.raises(ConfigError, match="provider='process' has nothing to run; pass target="):
        Opener(ClientSettings(provider="process"), None)
    with pytest.raises(ConfigError, match="there is no server to connect to"):
        Opener(ClientSettings(), None)


def test_open_returns_a_session() -> None:
    with ScriptedServer(welcome={"target": "echo"}) as server:
        found = Opener(ClientSettings(base_url=server.base_url, token="s3cret"), None)
        connection = found.open(patient=False)
        assert connection.welcome.target == "echo"
        connection.drop()
        assert server.headers[0]["Authorization"] == "Bearer s3cret"


def test_a_server_is_started_and_its_own_token_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server:
        provider = FakeProvider(server)
        provider.token = "its own"
        found = opener(monkeypatch, provider, token="mine")
        assert found.endpoint is None
        found.open(patient=False).drop()
        assert server.headers[0]["Authorization"] == "Bearer its own"
        assert str(found.endpoint) == server.base_url


def test_a_server_that_ends_between_look_and_call_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as first, ScriptedServer() as second:
        provider = FakeProvider(first, second)
        found = opener(monkeypatch, provider)
        looks = iter([False])
        monkeypatch.setattr(provider, "alive", lambda: next(looks, provider.current is second))
        found.open(patient=False).drop()
        assert first.paths == []
        assert len(second.paths) == 1


def test_a_server_that_dies_is_said_to_have_died_with_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server:
        provider = FakeProvider(server)
        connection = opener(monkeypatch, provider).open(patient=False)
        server.script.append("request")
        provider.running = False
        with pytest.raises(
            ServerConnectionError, match=r"has ended \(exit code 3\).*\nits last line"
        ) as caught:
            connection.request(Reset)
        assert caught.value.details["log"] == "its last line"


def test_a_session_that_does_not_open_in_time_shows_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(ScriptedServer):
        def _open(self, channel: Any) -> None:
            channel.recv()
            self.hold.wait(10)

    with Mute() as server:
        server.hold.clear()
        begun = time.monotonic()
        with pytest.raises(StartupTimeoutError, match=r"startup_timeout=1 s.*\nits last line"):
            opener(monkeypatch, FakeProvider(server), startup_timeout=1.0).open(patient=False)
        assert time.monotonic() - begun >= 1.0


def test_what_was_printed_is_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider()
    calls: list[int] = []
    monkeypatch.setattr(provider, "forward", lambda: calls.append(1))
    opener(monkeypatch, provider).forward()
    Opener(ClientSettings(base_url="ws://h"), None).forward()
    assert calls == [1]


_OFFER = {"OpenEnv-Workers": "3", "OpenEnv-Slots-Free": "5", "OpenEnv-Slots-Max": "8"}


def test_a_survey_says_what_there_is_and_its_connection_is_used() -> None:
    with ScriptedServer(greeting=_OFFER) as server:
        found = Opener(ClientSettings(base_url=server.base_url), None)
        assert found.survey() == Offer(3, 5, 8)
        first = found.variant(lanes=2)
        connection = first.begin(patient=False)
        first.complete(connection)
        connection.close()
        assert len(server.paths) == 1
        assert next(iter(server.sessions.values())).hello.lanes == 2
        assert found.hello.lanes == 1


@pytest.mark.parametrize("greeting", [{}, {**_OFFER, "OpenEnv-Workers": "many"}])
def test_a_server_that_says_no_numbers_offers_nothing(greeting: dict[str, str]) -> None:
    with ScriptedServer(greeting=greeting) as server:
        found = Opener(ClientSettings(base_url=server.base_url), None)
        assert found.survey() is None
        found.forget()
        found.forget()


def test_a_survey_whose_connection_ended_is_followed_by_another_connection() -> None:
    with ScriptedServer(["upgraded"]) as server:
        found = Opener(ClientSettings(base_url=server.base_url), None)
        found.survey()
        assert eventually(lambda: found._spare is not None and found._spare.attend() < 0)
        connection = found.begin(patient=False)
        found.complete(connection)
        connection.close()
        assert len(server.paths) == 2


def test_a_provider_starts_its_server_before_anybody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server:
        provider = FakeProvider(server)
        found = opener(monkeypatch, provider)
        found.launch()
        assert provider.running
        found.survey()
        found.open(patient=False).drop()
        assert provider.servers == []


def test_a_survey_of_a_server_that_is_not_there_raises_what_the_error_reference_has() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        nobody = f"ws://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ServerConnectionError, match="no server listens there.*start one") as caught:
            Opener(ClientSettings(base_url=nobody), None).survey()
    assert type(caught.value) is ServerConnectionError
