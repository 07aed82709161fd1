"""What a vector environment is told: its own arguments, and for each server those of the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from openenv_gym.client.settings import ClientSettings, take_settings
from openenv_gym.errors import ConfigError

__all__ = ["Arguments", "autoreset_of", "take_arguments"]

_MOST_SERVERS = 4096


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one vector environment, checked.

    Attributes:
        num_envs: Number of lanes.
        servers: Settings of the client, for each server.
        numbered: Whether the servers are several that a provider starts for the same target.
        lane_kwargs: Arguments of the environment for each lane, if the lanes differ.
        autoreset: The mode; ``None``: that of the environment's own vector class.
        native: Whether the lanes are the environment's own vector class.
        lanes_per_worker: Most lanes in one session; ``None``: spread evenly over the server's workers.
        lane_threads: On how many threads a session runs its lanes; 0: the server decides.
        max_episode_steps: When a lane's episode is truncated; ``None``: never.
        max_restarts: How often in a row lost lanes are started again; ``None``: without limit.
    """

    num_envs: int
    servers: list[ClientSettings]
    numbered: bool
    lane_kwargs: list[dict[str, Any]] | None
    autoreset: AutoresetMode | None
    native: bool
    lanes_per_worker: int | None
    lane_threads: int
    max_episode_steps: int | None
    max_restarts: int | None


def take_arguments(
    kwargs: Mapping[str, Any],
    *,
    num_envs: Any,
    servers: Any,
    lanes: Any,
    lanes_per_worker: Any,
    lane_threads: Any,
    autoreset_mode: Any,
    max_episode_steps: Any,
    max_restarts: Any,
) -> Arguments:
    """Return the arguments, checked; ``kwargs`` are those of ``RemoteEnv`` and of the environment.

    Raises:
        ConfigError: One of them is wrong; nothing was started.
    """
    count = _positive("num_envs", num_envs)
    rest = dict(kwargs)
    lane_kwargs = _lane_kwargs(rest, count)
    native = _is_native(lanes)
    if native and lane_kwargs is not None:
        raise ConfigError(
            "lanes='native' is one vector environment, which has one set of arguments: env_kwargs is a dict"
        )
    settings, numbered = _servers(rest, servers)
    if len(settings) > count:
        raise ConfigError(
            f"num_envs={count} lanes cannot be spread over {len(settings)} servers; each needs at least one"
        )
    if lane_kwargs is not None:
        lane_kwargs = [_join(settings[0].env_kwargs, each) for each in lane_kwargs]
    steps = None if max_episode_steps in (None, -1) else _positive("max_episode_steps", max_episode_steps)
    restarts = None if max_restarts is None else _positive("max_restarts", max_restarts, least=0)
    return Arguments(
        num_envs=count,
        servers=settings,
        numbered=numbered,
        lane_kwargs=lane_kwargs,
        autoreset=autoreset_of(autoreset_mode, native),
        native=native,
        lanes_per_worker=None
        if lanes_per_worker is None
        else _positive("lanes_per_worker", lanes_per_worker),
        lane_threads=0 if lane_threads in (None, "auto") else _positive("lane_threads", lane_threads),
        max_episode_steps=steps,
        max_restarts=restarts,
    )


def autoreset_of(mode: Any, native: bool = False) -> AutoresetMode | None:
    """Return the mode that a member, value or name of ``AutoresetMode`` says; ``None`` says the default.

    Raises:
        ConfigError: It is none of these.
    """
    if mode is None:
        return None if native else AutoresetMode.NEXT_STEP
    for member in AutoresetMode:
        if mode is member or (isinstance(mode, str) and mode in (member.value, member.name)):
            return member
    known = ", ".join(repr(member.value) for member in AutoresetMode)
    raise ConfigError(f"autoreset_mode is {mode!r}; write {known}, or a member of AutoresetMode")


def _is_native(lanes: Any) -> bool:
    if lanes not in (None, "native"):
        raise ConfigError(
            f"lanes is {lanes!r}; write 'native' for the environment's own vector class, or leave it out; the"
            " number of lanes is num_envs"
        )
    return lanes is not None


def _servers(rest: dict[str, Any], servers: Any) -> tuple[list[ClientSettings], bool]:
    """Return the settings for each server, and whether a provider starts several."""
    urls = rest.get("base_url")
    if isinstance(urls, Sequence) and not isinstance(urls, str):
        if not urls:
            raise ConfigError("base_url is an empty list; name at least one server")
        if servers is not None:
            raise ConfigError("base_url and servers exclude each other: servers=N starts N servers here")
        return [take_settings({**rest, "base_url": url}) for url in urls], False
    if servers is None:
        return [take_settings(rest)], False
    count = _positive("servers", servers)
    if count > _MOST_SERVERS:
        raise ConfigError(f"servers is {count}; at most {_MOST_SERVERS} are started")
    if urls is not None:
        raise ConfigError("base_url and servers exclude each other: servers=N starts N servers here")
    # A provider that is named keeps the environment variables from naming a server.
    settings = take_settings({**rest, "provider": rest.get("provider") or "process"})
    return [settings] * count, True


def _lane_kwargs(rest: dict[str, Any], count: int) -> list[dict[str, Any]] | None:
    """Take ``env_kwargs`` out of ``rest`` if it is a list of one dict a lane."""
    chosen = rest.get("env_kwargs")
    if not isinstance(chosen, Sequence) or isinstance(chosen, str):
        return None
    if len(chosen) != count:
        raise ConfigError(f"env_kwargs lists {len(chosen)} dicts; num_envs={count} lanes need one each")
    for lane, each in enumerate(chosen):
        if not isinstance(each, Mapping) or not all(isinstance(key, str) for key in each):
            raise ConfigError(
                f"env_kwargs[{lane}] is a {type(each).__name__}; pass a dict with names as keys"
            )
    del rest["env_kwargs"]
    return [dict(each) for each in chosen]


def _join(common: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    for name in own:
        if name in common:
            raise ConfigError(f"{name!r} is given twice, for all lanes and in env_kwargs; leave one out")
    return {**common, **own}


def _positive(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} is {value!r}; write a whole number, at least {least}")
    return int(value)
