"""What a session holds: the environment that a client asked for, as a stage."""

from __future__ import annotations

import platform
import re
from typing import Any

import gymnasium as gym

import openenv_gym
from openenv_gym.errors import (
    ConfigError,
    EnvironmentMismatchError,
    RemoteProtocolError,
    VersionMismatchError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import MAX_DEPTH

from .lane import Lane, facts_of
from .seat import Plan, Stage
from .settings import ServerSettings
from .targets import Target

__all__ = ["check_hello", "limits_of", "plan_of"]

_SESSION = re.compile("[0-9a-f]{32}")


def plan_of(settings: ServerSettings, target: Target) -> Plan:
    """Return how the seats of a host work under ``settings``."""

    def build(hello: m.Hello, local: bool) -> tuple[Stage, dict[str, Any]]:
        env = _build_env(settings, target, hello, local)
        try:
            return Lane(env, attributes=settings.attributes), facts_of(env, target.name, target.spec())
        except BaseException:
            env.close()
            raise

    def describe() -> dict[str, Any]:
        env = target.build(dict(settings.env_kwargs), render_mode=None, time_limit=True)
        try:
            return facts_of(env, target.name, target.spec())
        finally:
            env.close()

    server = f"openenv_gym/{openenv_gym.__version__} python/{platform.python_version()}"
    return Plan(build, describe, settings.resume_grace, limits_of(settings), server)


def limits_of(settings: ServerSettings) -> m.Limits:
    """Return the limits that a client is told."""
    return m.Limits(
        message=settings.max_message_size,
        lanes=1,
        depth=MAX_DEPTH,
        step=settings.step_deadline or 0.0,
        reset=settings.reset_deadline or 0.0,
        construction=settings.construction_deadline or 0.0,
        resume=settings.resume_grace,
    )


def check_hello(hello: m.Hello, target: Target) -> None:
    """Refuse a session that cannot be what its client expects.

    Raises:
        VersionMismatchError: It speaks another version.
        RemoteProtocolError: A field has a value that none can have.
        EnvironmentMismatchError: It expects another environment.
        ConfigError: It asks for what this server does not do.
    """
    if hello.version != m.VERSION:
        raise VersionMismatchError(
            f"the client speaks version {hello.version} of {m.SUBPROTOCOL}, the server version {m.VERSION}"
            f" (openenv-gym {openenv_gym.__version__}); install the same openenv-gym on both sides"
        )
    _check_form(hello)
    if not target.matches(hello.expect):
        raise EnvironmentMismatchError(
            f"the id promises {hello.expect!r}, but the server hosts {target.name!r};"
            ' use gym.make("openenv/Remote-v0", base_url=...) to take whatever it hosts',
            expected=hello.expect,
            hosted=target.name,
        )
    if hello.lanes != 1 or hello.native or hello.autoreset != "disabled":
        raise ConfigError(f"one lane a session is served here, {hello.lanes} were asked for")


def _check_form(hello: m.Hello) -> None:
    if not _SESSION.fullmatch(hello.session) or not 16 <= len(hello.token) <= 64:
        raise RemoteProtocolError(
            "'hello' names a session by 32 lower-case hexadecimal digits and has a token of 16 to 64 bytes;"
            " choose both at random"
        )
    limits = hello.limits
    numbers = {"slot_timeout": hello.slot_timeout, "limits.message": limits.message}
    numbers |= {"limits.step": limits.step, "limits.reset": limits.reset}
    numbers |= {"limits.construction": limits.construction}
    for name, number in numbers.items():
        if not number >= 0:  # NaN included
            raise RemoteProtocolError(f"'hello' has {name} = {number}; write 0 or more")


def _build_env(settings: ServerSettings, target: Target, hello: m.Hello, local: bool) -> gym.Env[Any, Any]:
    asked = {} if hello.env_kwargs is None else hello.env_kwargs
    if not isinstance(asked, dict):
        raise ConfigError(f"env_kwargs must be a map of keyword arguments, not a {type(asked).__name__}")
    for name in asked:
        if not isinstance(name, str):
            raise ConfigError(f"the names in env_kwargs must be str, not a {type(name).__name__}: {name!r}")
    settings.check_env_kwargs(asked, local=local)
    kwargs = {**settings.env_kwargs, **asked}
    return target.build(kwargs, render_mode=hello.render_mode, time_limit=hello.time_limit)
