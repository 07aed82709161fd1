"""Settings come from one table: fields, options, environment variables."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from dataclasses import fields
from typing import Any

import pytest

from openenv_gym.errors import ConfigError, ForbiddenError
from openenv_gym.servers.settings import ServerSettings, add_options, env_variable, flag

NAMES = [item.name for item in fields(ServerSettings)]

SAMPLES = {
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("0", 0),
    "uds": ("x.sock", "x.sock"),
    "workers": ("3", 3),
    "sessions_per_worker": ("1", 1),
    "start_method": ("spawn", "spawn"),
    "max_sessions": ("2", 2),
    "slot_wait": ("0", 0.0),
    "max_lanes": ("9", 9),
    "lane_threads": ("4", 4),
    "idle_timeout": ("none", None),
    "http_session_ttl": ("60", 60.0),
    "resume_grace": ("0", 0.0),
    "step_deadline": ("1.5", 1.5),
    "reset_deadline": ("2", 2.0),
    "construction_deadline": ("3", 3.0),
    "token": ("s3cret", "s3cret"),
    "insecure": ("on", True),
    "allowed_origins": ("https://example.org", ("https://example.org",)),
    "allow_env_kwargs": ("size", ("size",)),
    "mode": ("Production", "production"),
    "attributes": ("off", False),
    "max_message_size": ("1MiB", 1 << 20),
    "keepalive": ("none", None),
    "compression": ("deflate", "deflate"),
    "handover": ("0", False),
    "env_kwargs": ('{"size": 8}', {"size": 8}),
    "drain_timeout": ("0", 0.0),
    "exit_when_idle": ("60", 60.0),
    "ready_fd": ("5", 5),
    "owner_fd": ("6", 6),
    "log_level": ("debug", "debug"),
}


def test_every_setting_has_a_sample_here() -> None:
    assert list(SAMPLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_comes_from_its_variable(name: str) -> None:
    text, value = SAMPLES[name]
    settings = ServerSettings.from_text({}, {"OPENENV_" + name.upper(): text})
    assert getattr(settings, name) == value


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_comes_from_its_option_which_wins(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    text, value = SAMPLES[name]
    words = ["--insecure"] if name == "insecure" else [flag(name), text]
    given = vars(parser.parse_args(words))
    settings = ServerSettings.from_text(given, {env_variable(name): "!"} if name != "uds" else {})
    assert getattr(settings, name) == value


@pytest.mark.parametrize("name", NAMES)
def test_help_names_variable_and_default(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    text = re.sub(r"\s+", " ", parser.format_help())
    start = text.index(f" {flag(name)} ", text.index("where it listens"))
    assert re.search(rf"\[[^\]]+\]+ \({env_variable(name)}\)", text[start:])


def test_an_empty_variable_is_not_set() -> None:
    assert ServerSettings.from_text({}, {"OPENENV_PORT": "", "OPENENV_TOKEN": ""}) == ServerSettings()


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


def test_an_unreadable_text_names_where_it_came_from() -> None:
    with pytest.raises(ConfigError, match=r"^OPENENV_PORT: 'x' is not a whole number"):
        ServerSettings.from_text({}, {"OPENENV_PORT": "x"})
    with pytest.raises(ConfigError, match=r"^--port: 'y' is not a whole number"):
        ServerSettings.from_text({"port": "y"}, {})


def test_socket_and_address_exclude_each_other_on_the_command_line_only() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        ServerSettings.from_text({"uds": "s.sock", "port": "1"}, {})
    assert ServerSettings.from_text({"uds": "s.sock"}, {"OPENENV_HOST": "0.0.0.0"}).is_local
    assert ServerSettings.from_text({"port": "1"}, {"OPENENV_UDS": "s.sock"}).uds is None


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
