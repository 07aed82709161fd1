"""Arguments of typed clients."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.client.options import client_mode, client_settings, with_scheme
from openenv_gym.errors import ConfigError

DEFAULTS: dict[str, Any] = {
    "base_url": "ws://127.0.0.1:1",
    "connect_timeout_s": 10.0,
    "message_timeout_s": 60.0,
    "max_message_size_mb": 100.0,
    "websocket_ping_interval_s": 20.0,
    "websocket_ping_timeout_s": 20.0,
    "provider": None,
    "headers": None,
    "token": None,
    "env_kwargs": None,
    "provider_kwargs": None,
    "hosted": False,
}


def test_they_are_our_settings_by_other_names() -> None:
    settings = client_settings(
        **DEFAULTS | {"headers": {"X-A": "b"}, "token": "t", "env_kwargs": {"a": 1}, "connect_timeout_s": 3}
    )
    assert settings.connect_timeout == 3.0
    assert settings.step_timeout == 60.0
    assert settings.max_message == 100 << 20
    assert settings.keepalive == (20.0, 20.0)
    assert (settings.headers, settings.token, settings.env_kwargs) == ({"X-A": "b"}, "t", {"a": 1})


@pytest.mark.parametrize("name", ["websocket_ping_interval_s", "websocket_ping_timeout_s"])
def test_none_switches_the_questions_off(name: str) -> None:
    assert client_settings(**DEFAULTS | {name: None}).keepalive is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message_timeout_s", 0),
        ("message_timeout_s", float("nan")),
        ("connect_timeout_s", -1),
        ("max_message_size_mb", 0),
        ("max_message_size_mb", float("inf")),
        ("max_message_size_mb", "1"),
        ("websocket_ping_interval_s", 0),
        ("base_url", "ftp://x"),
        ("token", ""),
    ],
)
def test_impossible_values_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError):
        client_settings(**DEFAULTS | {name: value})


@pytest.mark.parametrize(
    "name",
    ["connect_timeout_s", "message_timeout_s", "websocket_ping_interval_s", "websocket_ping_timeout_s"],
)
@pytest.mark.parametrize("value", [-1, 0, "1", True, float("nan")])
def test_an_impossible_time_is_named_as_the_client_names_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is {value!r}; write a positive number of seconds"):
        client_settings(**DEFAULTS | {name: value})


def test_infinity_is_no_limit() -> None:
    endless = {name: float("inf") for name in DEFAULTS if name.endswith("_s")}
    settings = client_settings(**DEFAULTS | endless)
    assert (settings.connect_timeout, settings.step_timeout, settings.keepalive) == (None, None, None)


@pytest.mark.parametrize("where", [{}, {"base_url": None, "hosted": True}])
def test_options_of_a_provider_that_starts_nothing_are_refused(where: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="provider_kwargs are"):
        client_settings(**DEFAULTS | where | {"provider_kwargs": {"workers": 1}})


def test_variables_stand_in_for_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_BASE_URL", "ws://there:1")
    monkeypatch.setenv("OPENENV_TOKEN", "secret")
    assert client_settings(**DEFAULTS | {"base_url": None}).base_url == "ws://there:1"
    assert client_settings(**DEFAULTS).base_url == "ws://127.0.0.1:1"
    assert client_settings(**DEFAULTS).token == "secret"
    assert client_settings(**DEFAULTS | {"base_url": None, "hosted": True}).base_url is None


def test_the_mode_is_given_or_a_variable_or_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client_mode(None) == "simulation"
    assert client_mode("PRODUCTION") == "production"
    monkeypatch.setenv("OPENENV_CLIENT_MODE", "Production")
    assert client_mode(None) == "production"
    assert client_mode("simulation") == "simulation"
    monkeypatch.setenv("OPENENV_CLIENT_MODE", "both")
    with pytest.raises(ConfigError, match="OPENENV_CLIENT_MODE.*'both'"):
        client_mode(None)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:8000", "ws://localhost:8000"),
        ("http://h:1/p", "http://h:1/p"),
        ("unix:/run/s", "unix:/run/s"),
        ("", ""),
    ],
)
def test_a_host_and_port_alone_get_a_scheme(url: str, expected: str) -> None:
    assert with_scheme(url) == expected
