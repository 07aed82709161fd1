"""From ``hello`` to a group of lanes: arguments, threads, construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import msgspec

from openenv_gym.errors import ConfigError
from openenv_gym.protocol import messages as m
from openenv_gym.protocol.values import pack

from .access import release
from .episodes import MODES, Episodes
from .failures import error_of_lane
from .lane_threads import LaneThreads, OneThread, Runner
from .lanes import CLOSING, Group
from .probe import MOST_THREADS, is_slow, threads_declared
from .settings import ServerSettings
from .stages import Desk

__all__ = ["build_group", "lane_kwargs"]

_Make = Callable[[int], gym.Env[Any, Any]]


def lane_kwargs(hello: m.Hello) -> list[dict[str, Any]]:
    """Return the constructor arguments that a client asks for, lane by lane.

    Raises:
        ConfigError: They are no map, and no list of one map a lane.
    """
    asked = hello.env_kwargs
    each = asked if isinstance(asked, list) else [{} if asked is None else asked] * hello.lanes
    if len(each) != hello.lanes:
        raise ConfigError(
            f"env_kwargs is a list of {len(each)} maps for {hello.lanes} lanes; give one a lane"
        )
    for kwargs in each:
        if not isinstance(kwargs, dict):
            kind = type(kwargs).__name__
            raise ConfigError(f"env_kwargs must be a map of keyword arguments, or one a lane, not a {kind}")
        for name in kwargs:
            if not isinstance(name, str):
                kind = type(name).__name__
                raise ConfigError(f"the names in env_kwargs must be str, not a {kind}: {name!r}")
    return each


def build_group(
    make: _Make, hello: m.Hello, settings: ServerSettings, desk: Desk, metadata: Mapping[str, Any]
) -> Group:
    """Build the lanes of a session, each on its thread.

    Args:
        make: Builds the environment of a lane.
        hello: What the client asks for.
        settings: The server's settings.
        desk: The seat.
        metadata: The metadata of the environment's class.

    Raises:
        ConstructionError: A constructor raised; ``details["lanes"]`` says where. Nothing is left open.
        ConfigError: The lanes have different spaces.
    """
    deadlines = bool(settings.step_deadline or settings.reset_deadline or settings.construction_deadline)
    limits = hello.limits
    tick = desk.tick if deadlines or limits.step or limits.reset or limits.construction else None
    threads = _threads(make, hello, settings, desk, metadata)
    if threads == 1:
        runner: Runner = OneThread(hello.lanes, tick)
    else:
        longest = min((span for span in (settings.step_deadline, limits.step) if span), default=0.0)
        runner = LaneThreads(threads, hello.lanes, tick, longest)
    lanes = _build(make, runner, hello, settings.attributes)
    return Group(lanes, runner, timed="timing" in hello.capabilities)


def _threads(
    make: _Make, hello: m.Hello, settings: ServerSettings, desk: Desk, metadata: Mapping[str, Any]
) -> int:
    lanes = hello.lanes
    if lanes == 1:
        return 1
    count = settings.lane_threads or hello.limits.threads or _found(make, hello, desk, metadata)
    return min(count, lanes, MOST_THREADS)


def _found(make: _Make, hello: m.Hello, desk: Desk, metadata: Mapping[str, Any]) -> int:
    """Return the number of threads that suits these lanes; the parent is told, for others wait to hear it."""
    declared = threads_declared(metadata, "the environment")
    if declared:
        desk.measured(declared > 1)
        return declared
    slow = desk.slow
    if slow is None:
        slow = any(is_slow(_tried(make, lane, hello)) for lane in _kinds(hello))
        desk.measured(slow)
    return MOST_THREADS if slow else 1


def _tried(make: _Make, lane: int, hello: m.Hello) -> gym.Env[Any, Any]:
    """Return an environment as ``lane`` will have it; where lanes differ, the error says which one it is."""
    try:
        return make(lane)
    except Exception as exc:
        if isinstance(hello.env_kwargs, list):
            raise error_of_lane([(lane, exc)], construction=True) from exc
        raise


def _kinds(hello: m.Hello) -> list[int]:
    """Return the first lanes of the first few different sets of constructor arguments."""
    kinds: dict[bytes, int] = {}
    for lane, kwargs in enumerate(lane_kwargs(hello)):
        kinds.setdefault(msgspec.msgpack.encode(pack(kwargs, opaque=True)), lane)
    return list(kinds.values())[:4]


def _build(make: _Make, runner: Runner, hello: m.Hello, attributes: bool) -> list[Episodes]:
    kind = MODES[hello.autoreset]
    built: dict[int, Episodes] = {}

    def build(lane: int) -> None:
        built[lane] = kind(make(lane), attributes=attributes)

    try:
        runner.start(range(hello.lanes), [build] * hello.lanes, range(hello.lanes))
        while runner.running:
            failed = runner.collect(1).failed
            if failed:
                raise error_of_lane(failed, construction=True) from failed[0][1]
        lanes = [built[lane] for lane in range(hello.lanes)]
        _check_spaces(lanes)
    except BaseException:
        runner.finish(lambda team: release(built[lane] for lane in team if lane in built), CLOSING)
        raise
    return lanes


def _check_spaces(lanes: list[Episodes]) -> None:
    first = lanes[0].env
    for at, lane in enumerate(lanes):
        for name in ("observation_space", "action_space"):
            ours, theirs = getattr(lane.env, name), getattr(first, name)
            if ours != theirs:
                raise ConfigError(
                    f"lane {at}: its {name} is {ours}, that of the first lane of its session is {theirs}; all"
                    " lanes of a vector environment need the same spaces",
                    lanes=[at],
                )
