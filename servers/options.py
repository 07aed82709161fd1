"""Settings from the command line, from environment variables, and from programs.

The command line wins over the environment, and that over the default. An empty variable counts as unset.
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from openenv_gym.errors import ConfigError

from .settings import ServerSettings, env_variable, flag

__all__ = ["add_options", "settings_from_text", "settings_from_values"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every setting to ``parser``; the namespace then holds the texts that were given, and only those."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for item in fields(ServerSettings):
        about = item.metadata
        group = groups.get(about["group"]) or parser.add_argument_group(about["group"])
        groups[about["group"]] = group
        kind = about["kind"]
        default = about["shown"] or kind.show(item.default if item.name != "env_kwargs" else {})
        text = f"{about['help']} [{default}] ({env_variable(item.name)})".replace("%", "%%")
        if item.name == "insecure":
            group.add_argument(
                flag(item.name), action="store_const", const="on", help=text, default=argparse.SUPPRESS
            )
        else:
            group.add_argument(flag(item.name), metavar=kind.metavar, help=text, default=argparse.SUPPRESS)


def settings_from_values(
    given: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> ServerSettings:
    """Return the settings that a program asks for; what it leaves open comes from the environment.

    Args:
        given: Values by field name.
        environ: Environment variables; ``None``: those of this process.

    Raises:
        ConfigError: A name is unknown, a text is not understood, or a value is impossible.
    """
    names = [item.name for item in fields(ServerSettings)]
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"the server has no option {name!r}{hint}", option=name)
    found = settings_from_text({}, os.environ if environ is None else environ)
    return replace(found, **given)


def settings_from_text(given: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ServerSettings:
    """Return the settings that command line and environment ask for.

    Args:
        given: Texts of the command line by field name.
        environ: Environment variables; ``None``: those of this process.

    Raises:
        ConfigError: A text is not understood, or a value is impossible.
    """
    environ = os.environ if environ is None else environ
    values = {}
    for item in fields(ServerSettings):
        text = given.get(item.name)
        source = flag(item.name)
        if text is None:
            text = environ.get(env_variable(item.name)) or None
            source = env_variable(item.name)
        if text is None or (item.name == "uds" and "uds" not in given and given.keys() & {"host", "port"}):
            continue
        try:
            values[item.name] = item.metadata["kind"].read(text)
        except ValueError as exc:
            raise ConfigError(f"{source}: {exc}", option=item.name) from None
    if "uds" in given and given.keys() & {"host", "port"}:
        raise ConfigError("--uds and --host or --port exclude each other", option="uds")
    return ServerSettings(**values)
