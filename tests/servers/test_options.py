"""Settings come from one table: fields, options, environment variables."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields

import pytest

from openenv_gym.errors import ConfigError
from openenv_gym.servers.options import add_options, settings_from_text, settings_from_values
from openenv_gym.servers.settings import ServerSettings, env_variable, flag

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
    settings = settings_from_text({}, {"OPENENV_" + name.upper(): text})
    assert getattr(settings, name) == value


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_comes_from_its_option_which_wins(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    text, value = SAMPLES[name]
    words = ["--insecure"] if name == "insecure" else [flag(name), text]
    given = vars(parser.parse_args(words))
    settings = settings_from_text(given, {env_variable(name): "!"} if name != "uds" else {})
    assert getattr(settings, name) == value


@pytest.mark.parametrize("name", NAMES)
def test_help_names_variable_and_default(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    text = re.sub(r"\s+", " ", parser.format_help())
    start = text.index(f" {flag(name)} ", text.index("where it listens"))
    assert re.search(rf"\[[^\]]+\]+ \({env_variable(name)}\)", text[start:])


def test_an_empty_variable_is_not_set() -> None:
    assert settings_from_text({}, {"OPENENV_PORT": "", "OPENENV_TOKEN": ""}) == ServerSettings()


def test_an_unreadable_text_names_where_it_came_from() -> None:
    with pytest.raises(ConfigError, match=r"^OPENENV_PORT: 'x' is not a whole number"):
        settings_from_text({}, {"OPENENV_PORT": "x"})
    with pytest.raises(ConfigError, match=r"^--port: 'y' is not a whole number"):
        settings_from_text({"port": "y"}, {})


def test_socket_and_address_exclude_each_other_on_the_command_line_only() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        settings_from_text({"uds": "s.sock", "port": "1"}, {})
    assert settings_from_text({"uds": "s.sock"}, {"OPENENV_HOST": "0.0.0.0"}).is_local
    assert settings_from_text({"port": "1"}, {"OPENENV_UDS": "s.sock"}).uds is None


def test_a_program_s_values_win_over_the_environment() -> None:
    settings = settings_from_values({"port": 1}, {"OPENENV_PORT": "2", "OPENENV_MAX_SESSIONS": "3"})
    assert (settings.port, settings.max_sessions) == (1, 3)


def test_a_name_that_is_no_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no option 'max_session'; did you mean 'max_sessions'\?"):
        settings_from_values({"max_session": 1}, {})
