from __future__ import annotations

import logging
import os
import threading
from typing import Any

import pytest

from openenv_gym.client.opening import Opener
from openenv_gym.client.settings import ClientSettings
from openenv_gym.errors import AuthenticationError, ConfigError
from openenv_gym.protocol.messages import Reset
from openenv_gym.providers.inprocess import InProcessProvider


@pytest.fixture
def provider() -> Any:
    found = InProcessProvider("echo", max_sessions=3)
    yield found
    found.stop()


def test_a_server_in_threads_of_this_process(provider: InProcessProvider) -> None:
    assert not provider.alive()
    base_url, fresh = provider.ensure(None)
    assert fresh
    assert base_url.startswith("ws://127.0.0.1:")
    assert provider.alive()
    settings = ClientSettings(base_url=base_url, token=provider.token)
    connection = Opener(settings, None).open(patient=False)
    connection.request(Reset)
    assert any("session" in thread.name for thread in threading.enumerate())
    connection.close()
    provider.stop()
    assert not provider.alive()
    provider.stop()


def test_a_server_that_left_because_it_was_idle_is_replaced() -> None:
    provider = InProcessProvider("echo", exit_when_idle=0.01)
    provider.ensure(None)
    provider._server._thread.join(20)
    assert not provider.alive()
    assert provider.ensure(None)[1]
    provider.stop()


def test_a_server_that_failed_can_be_stopped(
    provider: InProcessProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.ensure(None)
    provider._server._error = OSError("no more files")
    provider.stop()
    assert not provider.alive()
    assert "the server for 'echo' had failed: OSError('no more files')" in caplog.text


def test_nobody_else_gets_in(provider: InProcessProvider) -> None:
    base_url, _ = provider.ensure(None)
    with pytest.raises(AuthenticationError):
        Opener(ClientSettings(base_url=base_url), None).open(patient=False)


@pytest.mark.parametrize("handover", [True, False])
def test_the_token_stays_out_of_the_logs_of_this_process(
    handover: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = InProcessProvider("echo", handover=handover)
    base_url, _ = provider.ensure(None)
    assert provider.token is not None
    Opener(ClientSettings(base_url=base_url, token=provider.token), None).open(patient=False).close()
    provider.stop()
    assert provider.token not in caplog.text


def test_a_forked_child_cannot_use_it(provider: InProcessProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.ensure(None)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    assert not provider.alive()
    monkeypatch.undo()
    assert provider.alive()


@pytest.mark.parametrize("option", ["host", "port", "uds", "token", "workers", "ready_fd", "owner_fd"])
def test_what_it_sets_itself_cannot_be_set(option: str) -> None:
    with pytest.raises(ConfigError, match=f"'{option}' is set by the provider"):
        InProcessProvider("echo", **{option: 1})


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no option 'max_session'; did you mean 'max_sessions'\?"):
        InProcessProvider("echo", max_session=3).ensure(None)
    with pytest.raises(ConfigError, match=r"no option 'speed'$"):
        InProcessProvider("echo", speed=3).ensure(None)
