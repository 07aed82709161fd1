"""What a session holds: the environment that a client asked for, as a stage."""

from __future__ import annotations

import platform
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym

import openenv_gym
from openenv_gym.errors import (
    CapacityError,
    ConfigError,
    EnvironmentMismatchError,
    RemoteProtocolError,
    VersionMismatchError,
)
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import MAX_DEPTH

from .episodes import MODES
from .faces import face_of
from .grouping import build_group, lane_kwargs
from .lane import Lane, TimedLane, facts_of
from .native import Native, build_native, native_facts, single_lane
from .settings import ServerSettings
from .stages import Desk, Plan, Stage
from .targets import Target
from .typed_stage import about, build_typed, told_about

__all__ = ["check_hello", "limits_of", "plan_of"]

_Make = Callable[[int], gym.Env[Any, Any]]

_SESSION = re.compile("[0-9a-f]{32}")


def plan_of(settings: ServerSettings, target: Target) -> Plan:
    """Return how the seats of a host work under ``settings``."""
    told = threading.Event()

    def build(hello: m.Hello, desk: Desk) -> tuple[Stage, dict[str, Any]]:
        stage, facts = build_stage(hello, desk)
        if "about" in facts:
            facts["about"]["render_mode"] = None  # which is the session's own
            told.set()
        return stage, facts

    def build_stage(hello: m.Hello, desk: Desk) -> tuple[Stage, dict[str, Any]]:
        kwargs = _checked_kwargs(settings, hello, desk.local)
        tell = not (told.is_set() or any(lane_kwargs(hello)))
        if hello.native:
            return _build_native(settings, target, hello, kwargs, tell)
        make: _Make = partial(_make, target, hello, kwargs)
        if hello.face == "typed":
            return build_typed(settings, target, make, tell=tell)
        if hello.lanes == 1 and hello.autoreset == "disabled" and "lanes" not in hello.capabilities:
            return _build_lane(settings, target, hello, make, tell)
        if hello.lanes > 1 and target.is_exclusive():
            raise CapacityError(
                f"{target.name!r} allows one instance in a process (concurrency_safe = False), and"
                f" {hello.lanes} lanes were asked for in one; pass lanes_per_worker=1",
                option="lanes_per_worker",
            )
        found: dict[str, Any] = {}
        make = _telling(make, target, found) if tell else make
        group = build_group(make, hello, settings, desk, target.metadata())
        return group, {**facts_of(group.first, target.name, target.spec()), **found}

    def describe() -> dict[str, Any]:
        env = target.build(dict(settings.env_kwargs), render_mode=None, time_limit=True)
        try:
            return about(face_of(env, target.name), facts_of(env, target.name, target.spec()))
        finally:
            env.close()

    server = f"openenv_gym/{openenv_gym.__version__} python/{platform.python_version()}"
    return Plan(build, describe, settings.resume_grace, limits_of(settings), server)


def limits_of(settings: ServerSettings) -> m.Limits:
    """Return the limits that a client is told."""
    return m.Limits(
        message=settings.max_message_size,
        lanes=settings.max_lanes,
        depth=MAX_DEPTH,
        step=settings.step_deadline or 0.0,
        reset=settings.reset_deadline or 0.0,
        construction=settings.construction_deadline or 0.0,
        resume=settings.resume_grace,
    )


def check_hello(hello: m.Hello, target: Target, max_lanes: int) -> None:
    """Refuse a session that cannot be what its client expects.

    Raises:
        VersionMismatchError: It speaks another version.
        RemoteProtocolError: A field has a value that none can have.
        EnvironmentMismatchError: It expects another environment.
        CapacityError: It asks for more lanes than a session may have.
    """
    if hello.version != m.VERSION:
        raise VersionMismatchError(
            f"the client speaks version {hello.version} of {m.SUBPROTOCOL}, the server version {m.VERSION}"
            f" (openenv-gym {openenv_gym.__version__}); install the same openenv-gym on both sides"
        )
    _check_form(hello)
    if not target.matches(hello.expect):
        raise EnvironmentMismatchError(
            f"{hello.expect!r} was asked for, but the server hosts {target.name!r}; leave the target out to"
            ' take whatever it hosts, as gym.make("openenv/Remote-v0", base_url=...) does',
            expected=hello.expect,
            hosted=target.name,
        )
    if hello.lanes > max_lanes:
        raise CapacityError(
            f"a session may have {max_lanes} lanes here and {hello.lanes} were asked for; raise --max-lanes"
            " there, or spread them over several sessions",
            max=max_lanes,
            option="max_lanes",
        )


def _check_form(hello: m.Hello) -> None:
    if hello.lanes < 1:
        raise RemoteProtocolError(f"'hello' has {hello.lanes} lanes; write 1 or more")
    if not _SESSION.fullmatch(hello.session) or not 16 <= len(hello.token) <= 64:
        raise RemoteProtocolError(
            "'hello' names a session by 32 lower-case hexadecimal digits and has a token of 16 to 64 bytes;"
            " choose both at random"
        )
    limits = hello.limits
    numbers = {"slot_timeout": hello.slot_timeout, "limits.message": limits.message}
    numbers |= {"limits.step": limits.step, "limits.reset": limits.reset}
    numbers |= {"limits.construction": limits.construction}
    numbers |= {"limits.episode": limits.episode, "limits.threads": limits.threads}
    for name, number in numbers.items():
        if not number >= 0:  # NaN included
            raise RemoteProtocolError(f"'hello' has {name} = {number}; write 0 or more")
    if hello.face not in ("", "typed"):
        raise RemoteProtocolError(f"'hello' has the unknown face {hello.face!r}")
    if hello.face and (hello.lanes != 1 or hello.native):
        raise RemoteProtocolError("a session with the face 'typed' has one lane, and no vector class")
    if hello.autoreset not in MODES and not (hello.native and hello.autoreset == "any"):
        raise RemoteProtocolError(f"'hello' has the unknown autoreset {hello.autoreset!r}")


def _checked_kwargs(settings: ServerSettings, hello: m.Hello, local: bool) -> list[dict[str, Any]]:
    """Return the constructor arguments of each lane, those of the server among them."""
    asked = lane_kwargs(hello)
    for kwargs in asked:
        settings.check_env_kwargs(kwargs, local=local)
    return [{**settings.env_kwargs, **kwargs} for kwargs in asked]


def _make(target: Target, hello: m.Hello, kwargs: list[dict[str, Any]], lane: int) -> gym.Env[Any, Any]:
    return target.build(kwargs[lane], hello.render_mode, hello.time_limit, hello.limits.episode)


def _build_lane(
    settings: ServerSettings,
    target: Target,
    hello: m.Hello,
    make: _Make,
    tell: bool,
) -> tuple[Stage, dict[str, Any]]:
    env = make(0)
    try:
        kind = TimedLane if "timing" in hello.capabilities else Lane
        facts = facts_of(env, target.name, target.spec())
        if tell:
            facts |= _told(env, target)
        return kind(env, attributes=settings.attributes), facts
    except BaseException:
        env.close()
        raise


def _telling(make: _Make, target: Target, found: dict[str, Any]) -> _Make:
    """Return ``make`` such that the first lane, or what is tried for it, is described on its own thread."""

    def telling(lane: int) -> gym.Env[Any, Any]:
        env = make(lane)
        if lane == 0 and not found:
            try:
                found.update(_told(env, target))
            except BaseException:
                env.close()
                raise
        return env

    return telling


def _told(env: gym.Env[Any, Any], target: Target) -> dict[str, Any]:
    return told_about(face_of(env, target.name), facts_of(env, target.name, target.spec()))


def _build_native(
    settings: ServerSettings, target: Target, hello: m.Hello, kwargs: list[dict[str, Any]], tell: bool
) -> tuple[Stage, dict[str, Any]]:
    if isinstance(hello.env_kwargs, list):
        raise ConfigError("native lanes have their constructor arguments in common; env_kwargs must be a map")
    env = build_native(target, hello, kwargs[0])
    try:
        stage = Native(env, attributes=settings.attributes, timed="timing" in hello.capabilities)
        facts = native_facts(env, target)
        return stage, {**facts, **_told(single_lane(env, target), target)} if tell else facts
    except BaseException:
        env.close()
        raise
