from __future__ import annotations

import math
from typing import Any

import pytest

from openenv_gym.client.secrets import redact
from openenv_gym.client.settings import VECTOR_OPTIONS, ClientSettings, take_settings
from openenv_gym.errors import ConfigError


def take(environ: dict[str, str] | None = None, **kwargs: Any) -> ClientSettings:
    return take_settings(kwargs, environ or {})


def test_defaults() -> None:
    settings = take()
    assert settings == ClientSettings()
    assert settings.step_timeout is None
    assert settings.keepalive == (20.0, 20.0)
    assert settings.on_error == "raise"
    assert settings.slot_timeout == 0.0
    assert settings.env_kwargs == {}


def test_what_is_not_ours_goes_to_the_environment() -> None:
    settings = take(is_slippery=False, step_timeout=3, env_kwargs={"size": 8})
    assert settings.step_timeout == 3.0
    assert settings.env_kwargs == {"is_slippery": False, "size": 8}


def test_an_argument_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'size' is given twice"):
        take(size=1, env_kwargs={"size": 8})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("step_timout", "step_timeout"),
        ("tokens", "token"),
        ("header", "headers"),
        ("baseurl", "base_url"),
        ("keep_alive", "keepalive"),
        ("env_kwarg", "env_kwargs"),
        ("on_errors", "on_error"),
        ("slot_time_out", "slot_timeout"),
    ],
)
def test_a_near_miss_is_named(wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown argument '{wrong}'; did you mean '{right}'\?"):
        take(**{wrong: 1})
    assert take(env_kwargs={wrong: 1}).env_kwargs == {wrong: 1}


@pytest.mark.parametrize(
    "name", ["is_slippery", "map_name", "timeout", "difficulty", "render_fps", "url", "steps", "errors"]
)
def test_names_of_environments_are_left_alone(name: str) -> None:
    assert take(**{name: 1}).env_kwargs == {name: 1}


@pytest.mark.parametrize("name", ["step_timeout", "connect_timeout", "startup_timeout"])
@pytest.mark.parametrize("value", [0, -1, -math.inf, math.nan, "3", True])
def test_impossible_timeouts_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} is .*write a positive number of seconds, or None"):
        take(**{name: value})


@pytest.mark.parametrize("name", ["step_timeout", "connect_timeout", "startup_timeout"])
@pytest.mark.parametrize("value", [None, math.inf])
def test_none_and_infinity_mean_no_limit(name: str, value: float | None) -> None:
    assert getattr(take(**{name: value}), name) is None
    assert getattr(take({f"OPENENV_{name.upper()}": "3"}, **{name: value}), name) is None


def test_waiting_for_a_slot_may_be_nothing_or_unlimited() -> None:
    assert take(slot_timeout=0).slot_timeout == 0.0
    assert take(slot_timeout=None).slot_timeout == math.inf
    for value in (-1, math.nan, "1"):
        with pytest.raises(ConfigError, match="slot_timeout is"):
            take(slot_timeout=value)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (math.inf, None),
        (5, (5.0, 5.0)),
        ((5, 7.5), (5.0, 7.5)),
        ([5, 7.5], (5.0, 7.5)),
    ],
)
def test_keepalive(value: Any, stored: object) -> None:
    assert take(keepalive=value).keepalive == stored


@pytest.mark.parametrize(
    "value", [0, -1, math.nan, (1,), (1, 2, 3), (1, 0), (1, math.inf), "20", True, (1, None)]
)
def test_impossible_keepalive_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="keepalive is"):
        take(keepalive=value)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"base_url": "localhost:1"}, "no scheme"),
        ({"provider": ""}, "provider is ''"),
        ({"provider": 3}, "provider is 3"),
        ({"provider_kwargs": [1]}, "provider_kwargs is a list"),
        ({"env_kwargs": {1: 2}}, "env_kwargs is a dict"),
        ({"token": 3}, "token is not a text"),
        ({"token": "a b"}, "token holds spaces"),
        ({"token": "env:OPENENV_NO_SUCH_VARIABLE"}, "'OPENENV_NO_SUCH_VARIABLE' is not set"),
        ({"headers": "X: y"}, "headers is a str"),
        ({"headers": {"Host": "x"}}, "set by the handshake"),
        ({"headers": {"Sec-WebSocket-Key": "x"}}, "set by the handshake"),
        ({"headers": {"X": "a\r\nb"}}, r"headers\['X'\]"),
        ({"headers": {"X y": "a"}}, "not the name of a header"),
        ({"headers": {"Authorization": "x"}, "token": "t"}, "exclude each other"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"base_url": "ws://h", "provider": "process"}, "exclude each other"),
    ],
)
def test_impossible_values_say_what_to_write(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        take(**kwargs)


def test_environment_variables() -> None:
    settings = take(
        {
            "OPENENV_BASE_URL": "ws://h:1",
            "OPENENV_TOKEN": "t",
            "OPENENV_HEADERS": '{"X": "y"}',
            "OPENENV_STEP_TIMEOUT": "2.5",
            "OPENENV_CONNECT_TIMEOUT": "none",
            "OPENENV_SLOT_TIMEOUT": "inf",
            "OPENENV_ON_ERROR": "truncate",
            "OPENENV_KEEPALIVE": "5,7",
            "OPENENV_MAX_MESSAGE_SIZE": "64MiB",
            "OPENENV_COMPRESSION": "deflate",
            "OPENENV_STARTUP_TIMEOUT": "",
        }
    )
    assert settings.base_url == "ws://h:1"
    assert settings.token == "t"
    assert settings.headers == {"X": "y"}
    assert settings.step_timeout == 2.5
    assert settings.connect_timeout is None
    assert settings.slot_timeout == math.inf
    assert settings.on_error == "truncate"
    assert settings.keepalive == (5.0, 7.0)
    assert settings.max_message == 64 << 20
    assert settings.compression is True
    assert settings.startup_timeout == 120.0


def test_arguments_win_over_environment_variables() -> None:
    environ = {"OPENENV_STEP_TIMEOUT": "2", "OPENENV_KEEPALIVE": "5", "OPENENV_TOKEN": "t"}
    settings = take(environ, step_timeout=9, keepalive=None, token=None)
    assert (settings.step_timeout, settings.keepalive, settings.token) == (9.0, None, "t")


def test_an_argument_decides_where_the_server_is() -> None:
    url, provider = {"OPENENV_BASE_URL": "ws://h"}, {"OPENENV_PROVIDER": "inprocess"}
    assert take(url, provider="process").base_url is None
    assert take(provider, base_url="ws://other").provider is None
    assert take(provider).provider == "inprocess"
    with pytest.raises(ConfigError, match="exclude each other"):
        take(url | provider)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OPENENV_STEP_TIMEOUT", "soon"),
        ("OPENENV_HEADERS", "X: y"),
        ("OPENENV_KEEPALIVE", "a,b"),
        ("OPENENV_MAX_MESSAGE_SIZE", "big"),
        ("OPENENV_COMPRESSION", "zip"),
    ],
)
def test_an_unreadable_variable_is_named(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"the environment variable {variable} cannot be read"):
        take({variable: text})


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("OPENENV_STEP_TIMEOUT", "0", "step_timeout is 0.0; write a positive number"),
        ("OPENENV_STEP_TIMEOUT", "soon", "not a number of seconds, or 'none'"),
        ("OPENENV_BASE_URL", "127.0.0.1:8000", "no scheme; write ws://127.0.0.1:8000"),
        ("OPENENV_MAX_MESSAGE_SIZE", "64", "at least 1024"),
        ("OPENENV_MAX_MESSAGE_SIZE", "big", "such as 67108864, 64MiB or 1GiB"),
        ("OPENENV_PROVIDER_KWARGS", "{workers: 1}", "is not JSON, such as"),
    ],
)
def test_an_impossible_value_of_a_variable_says_which_one_and_what_to_write(
    variable: str, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=f"the environment variable {variable}.*{words}"):
        take({variable: text})


def test_a_token_out_of_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    assert take(token="env:MY_TOKEN").token == "s3cret"
    assert take({"OPENENV_TOKEN": "env:MY_TOKEN"}).token == "s3cret"


def test_redacted_arguments_are_restored() -> None:
    kwargs = {"token": "s3cret", "base_url": "ws://h/?key=k", "headers": {"X": "y"}}
    assert take(**redact(kwargs)) == take(**kwargs)


def test_no_secret_is_shown() -> None:
    settings = take(
        token="s3cret", headers={"X": "k3y"}, base_url="ws://h/?key=h1dden", env_kwargs={"key": "env1"}
    )
    for secret in ("s3cret", "k3y", "h1dden", "env1"):
        assert secret not in repr(settings)


@pytest.mark.parametrize("name", VECTOR_OPTIONS)
def test_an_option_of_vector_environments_is_not_taken_for_an_argument_of_the_environment(name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"'{name}' is an option of vector environments.*env_kwargs="
    ) as caught:
        take_settings({name: 2}, {})
    assert caught.value.details["argument"] == name
    assert take_settings({"env_kwargs": {name: 2}}, {}).env_kwargs == {name: 2}


def test_options_of_a_provider_go_with_one_that_starts_a_server() -> None:
    options = {"provider_kwargs": {"workers": 1}}
    with pytest.raises(ConfigError, match="provider_kwargs are for a server that a provider starts"):
        take_settings({"base_url": "ws://a:1", **options}, {})
    # A script that names options and no server may be sent to another one by a variable.
    assert take_settings(options, {"OPENENV_BASE_URL": "ws://a:1"}).base_url == "ws://a:1"


def test_one_environment_has_one_address() -> None:
    with pytest.raises(ConfigError, match="pass one address here"):
        take_settings({"base_url": ["ws://a", "ws://b"]}, {})
