"""Settings are checked when they are made."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest

from openenv_gym.errors import ConfigError, ForbiddenError
from openenv_gym.servers.settings import ServerSettings, env_variable, flag


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"port": 70000}, "port"),
        ({"port": "8000"}, "port"),
        ({"workers": -1}, "workers"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"slot_wait": math.inf}, "slot_wait"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"step_deadline": math.nan}, "step_deadline"),
        ({"step_deadline": -1}, "step_deadline"),
        ({"reset_deadline": 0}, "reset_deadline"),
        ({"construction_deadline": True}, "construction_deadline"),
        ({"resume_grace": None}, "resume_grace"),
        ({"allowed_origins": "https://example.org"}, "allowed_origins"),
        ({"allow_env_kwargs": "size"}, "allow_env_kwargs"),
        ({"compression": "zip"}, "compression"),
        ({"env_kwargs": [1]}, "env_kwargs"),
        ({"token": "a b"}, "token"),
        ({"uds": ""}, "uds"),
    ],
)
def test_an_impossible_value_names_option_and_variable(values: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=f"{flag(option)}, {env_variable(option)}") as caught:
        ServerSettings(**values)
    assert caught.value.details["option"] == option


def test_a_token_never_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    settings = ServerSettings(token="env:MY_TOKEN")
    assert settings.token == "s3cret"
    assert "s3cret" not in repr(settings) + json.dumps(settings.to_wire())


def test_a_token_variable_that_is_not_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="'MY_TOKEN' is not set"):
        ServerSettings(token="env:MY_TOKEN")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST."])
def test_a_loopback_address_needs_no_protection(host: str) -> None:
    settings = ServerSettings(host=host)
    assert settings.is_local
    settings.check_exposure()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.com", "example.org"])
def test_a_reachable_address_needs_a_token_or_insecure(host: str) -> None:
    settings = ServerSettings(host=host)
    assert not settings.is_local
    with pytest.raises(ConfigError, match=r"--token.*--insecure"):
        settings.check_exposure()
    ServerSettings(host=host, token="t").check_exposure()
    ServerSettings(host=host, insecure=True).check_exposure()


def test_workers_get_everything_but_secrets_and_descriptors() -> None:
    settings = ServerSettings(
        allowed_origins=("https://example.org",), allow_env_kwargs=("a",), env_kwargs={"a": [1]}, ready_fd=5
    )
    wire = json.loads(json.dumps(settings.to_wire()))
    assert not wire.keys() & {"token", "ready_fd", "owner_fd"}
    copy = ServerSettings.from_wire(wire)
    assert copy.to_wire() == settings.to_wire()
    assert copy.allowed_origins == settings.allowed_origins


def test_one_worker_a_core_unless_said_otherwise() -> None:
    assert ServerSettings().worker_count >= 1
    assert ServerSettings(workers=0).worker_count == 0
    assert ServerSettings(workers=5).worker_count == 5


def test_without_linux_there_are_threads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert ServerSettings().worker_count == 0
    assert ServerSettings(workers=0).worker_count == 0
    with pytest.raises(ConfigError, match="need Linux"):
        _ = ServerSettings(workers=2).worker_count


@pytest.mark.parametrize(
    ("settings", "places"),
    [({}, 4097), ({"max_sessions": 2}, 3), ({"sessions_per_worker": 1}, 2)],
)
def test_a_worker_has_a_place_for_each_session(settings: dict[str, Any], places: int) -> None:
    assert ServerSettings(**settings).places == places


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({}, True),
        ({"uds": "s.sock"}, True),
        ({"allow_env_kwargs": ("size",)}, False),
        ({"allow_env_kwargs": ("*",)}, False),
        ({"host": "0.0.0.0", "allow_env_kwargs": ("size", "seed")}, False),
    ],
)
def test_a_client_may_set_what_is_allowed(settings: dict[str, Any], local: bool) -> None:
    ServerSettings(**settings).check_env_kwargs({"size": 8}, local=local)


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"allow_env_kwargs": ()}, True),
        ({"allow_env_kwargs": ("seed",)}, True),
    ],
)
def test_a_client_may_set_nothing_else(settings: dict[str, Any], local: bool) -> None:
    with pytest.raises(ForbiddenError, match=r"'size'.*--allow-env-kwargs") as caught:
        ServerSettings(**settings).check_env_kwargs({"size": 8}, local=local)
    assert caught.value.details["names"] == ["size"]
    ServerSettings(**settings).check_env_kwargs({}, local=local)
