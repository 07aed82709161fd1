"""What a typed client says to its server."""

from __future__ import annotations

import gc
import logging
import os
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client.core import ClientCore
from openenv_gym.client.hosting import Host
from openenv_gym.client.line import Call
from openenv_gym.client.links import Request
from openenv_gym.client.settings import ClientSettings
from tests.client.jsonserver import observation, serving_json


class Provider:
    """Says where a server is, which runs already."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.token = token
        self.log: list[str] = []

    def start(self) -> str:
        self.log.append("start")
        return self.url

    def wait_for_ready(self) -> None:
        self.log.append("wait")

    def stop(self) -> None:
        self.log.append("stop")


def core_for(url: str | None, host: Host | None = None) -> ClientCore:
    return ClientCore(ClientSettings(base_url=url), host, None)


def ask(core: ClientCore, kind: Any, data: Any = None) -> Any:
    return core.run(kind, core.exchange(Request(kind, data)))


def close(core: ClientCore) -> None:
    core.run("close()", core.closing())


def test_a_session_is_opened_when_it_is_needed_and_only_once() -> None:
    with serving_json() as server:
        core = core_for(server.url)
        assert server.connections == 0
        assert str(core) == server.url
        ask(core, "step", {"a": 1})
        ask(core, "reset")
        core.run("connect()", core.connecting())
        assert server.connections == 1
        close(core)
        close(core)


def test_a_dead_connection_is_noticed_before_reset_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    def answer(message: dict[str, Any], connection: int) -> Any:
        if message["data"].get("cut"):
            return [observation({}), "cut"]
        return observation({"connection": connection})

    with serving_json(answer) as server:
        core = core_for(server.url)
        ask(core, "reset")
        assert core._link is not None
        core._link._channel.shutdown()  # type: ignore[union-attr]
        with caplog.at_level(logging.WARNING, "openenv_gym.client"):
            assert ask(core, "reset")["observation"] == {"connection": 2}
        assert "a new session is opened, the old one is lost" in caplog.text
        close(core)


def test_after_closing_nothing_goes_on_until_connect() -> None:
    with serving_json() as server:
        core = core_for(server.url)
        ask(core, "reset")
        close(core)
        with pytest.raises(errors.EnvClosedError, match=r"connect.. opens it again"):
            ask(core, "reset")
        core.run("connect()", core.connecting())
        assert ask(core, "reset")["done"] is False
        close(core)


def test_a_provider_is_started_when_needed_stopped_and_started_again() -> None:
    with serving_json() as server:
        provider = Provider(server.url, token="s3cret")
        core = core_for(None, Host(provider))
        assert (core.endpoint, str(core), provider.log) == (None, "the server", [])
        ask(core, "reset")
        assert provider.log == ["start", "wait"]
        assert server.headers["Authorization"] == "Bearer s3cret"
        close(core)
        assert (provider.log[-1], core.endpoint) == ("stop", None)
        provider.token = "other"
        core.run("connect()", core.connecting())
        assert provider.log == ["start", "wait", "stop", "start", "wait"]
        assert server.headers["Authorization"] == "Bearer other"
        close(core)


def test_a_server_that_a_provider_started_before_is_asked_with_its_token() -> None:
    with serving_json() as server:
        provider = Provider(server.url, token="s3cret")
        host = Host(provider)
        host.adopt()
        core = core_for(server.url, host)
        ask(core, "reset")
        assert server.headers["Authorization"] == "Bearer s3cret"
        close(core)
        assert provider.log == ["stop"]


def test_a_provider_is_stopped_even_when_closing_is_interrupted() -> None:
    with serving_json() as server:
        provider = Provider(server.url)
        core = core_for(None, Host(provider))
        ask(core, "reset")
        call = Call("close()", core.closing())
        core.line.add(call)
        call.advance()
        call.advance(error=KeyboardInterrupt())
        core.line.leave(call)
        assert provider.log[-1] == "stop"
        core.abandon()


def test_an_interrupt_gives_the_request_up() -> None:
    with serving_json() as server:
        core = core_for(server.url)
        ask(core, "reset")
        call = Call("step()", core.exchange(Request("step", {})))
        core.line.add(call)
        call.advance()
        call.advance(error=KeyboardInterrupt())
        core.line.leave(call)
        with pytest.raises(errors.SessionLostError, match="the last step was given up"):
            ask(core, "step", {})
        assert ask(core, "reset")["done"] is False
        close(core)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_begin_a_session_of_its_own(sleeper_url: str) -> None:
    core = core_for(sleeper_url)
    ask(core, "reset")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ask(core, "step", {})
        except errors.SessionLostError:
            ask(core, "reset")
            code = 0 if ask(core, "step", {})["observation"]["steps"] == 1 else 2
            close(core)
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask(core, "step", {})["observation"]["steps"] == 1
    close(core)


def test_what_the_environment_prints_is_forwarded(sleeper_url: str) -> None:
    core = core_for(sleeper_url)
    core.forward()
    ask(core, "reset")
    close(core)
    gc.collect()
