"""What a server hosts: from the text of the command line to an environment.

A text is tried as the name of a bundled environment, as a Gymnasium id (also ``module:Id-v0``, which
imports ``module`` first), as an import string (``package.module:EnvClass``, a class or a factory) and as a
path (``env.py``, ``env.py:EnvClass``, a folder that is a package), in this order. Ids of remote environments
(``openenv/Echo-v0``, ``remote/CartPole-v1``) stand for the environment that they lead to.

Resolving imports no module of the user's: :meth:`Target.preload` does, in the process that will run
environments. So if ``Name`` of ``module:Name`` could be both an id and an attribute, only that process sees
which it is.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, find_highest_version, load_env_creator, parse_env_id

from openenv_gym.environment import Environment
from openenv_gym.errors import ArgumentError, ConfigError, ConstructionError
from openenv_gym.structs import schema_of
from openenv_gym.tools.marking import marked
from openenv_gym.typed_env import TypedEnv

from . import modules

__all__ = ["Kind", "Target", "resolve"]

_REMOTE = "openenv_gym.env:RemoteEnv"
_BUNDLED = "openenv_gym.envs"
_Creator = Callable[..., Any]


class Kind(StrEnum):
    """What a text was taken as."""

    BUNDLED = "bundled environment"
    GYMNASIUM = "Gymnasium id"
    IMPORT = "import string"
    PATH = "path"


class Target:
    """An environment that can be built here, or in another process from :attr:`text`.

    Args:
        text: What :func:`resolve` makes an equal target from.
        name: Canonical name, which clients expect.
        kind: What the text was taken as.
        load: Imports what is needed; returns the registration, or the class or factory.
    """

    def __init__(self, text: str, name: str, kind: Kind, load: Callable[[], EnvSpec | _Creator]) -> None:
        self.text = text
        self.name = name
        self.kind = kind
        self._load = load
        self._loaded: EnvSpec | _Creator | None = None

    def __repr__(self) -> str:
        return f"Target({self.text!r}, {self.how})"

    @property
    def how(self) -> str:
        """What the text was taken as, in words."""
        return str(self.kind)

    def matches(self, expected: str | None) -> bool:
        """Return whether a client that expects this name (``None``: any) gets what it wants."""
        if expected in (None, self.name, self.text):
            return True
        if self.kind is Kind.PATH:
            return modules.absolute(expected) == self.text
        if self.kind is Kind.IMPORT:  # a bundled environment may be installed alone, from its folder
            return f"{_BUNDLED}.{self.text}" == _bundled_names().get(expected)
        return self.kind is Kind.GYMNASIUM and expected.rpartition(":")[2] == self.name

    def preload(self) -> None:
        """Import the module of the environment; nothing is built.

        Raises:
            ConfigError: There is no such environment in the module, or a class that is none.
            Exception: Whatever the module raises.
        """
        creator = _creator(self.source())
        if inspect.isclass(creator):
            _check_class(creator, self.text)

    def spec(self) -> dict[str, Any]:
        """Return ``max_episode_steps``, ``reward_threshold``, ``nondeterministic`` of the registration."""
        source = self.source()
        if isinstance(source, EnvSpec):
            return {
                "max_episode_steps": source.max_episode_steps,
                "reward_threshold": source.reward_threshold,
                "nondeterministic": source.nondeterministic,
            }
        return {"max_episode_steps": None, "reward_threshold": None, "nondeterministic": False}

    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the environment's class; none when a factory builds it."""
        metadata = getattr(_creator(self.source()), "metadata", None)
        return metadata if isinstance(metadata, Mapping) else {}

    def doc(self) -> str:
        """Return the docstring of the environment's class; none when a factory builds it."""
        creator = _creator(self.source())
        return (creator.__doc__ or "") if inspect.isclass(creator) else ""

    def typed(self) -> type[Environment[Any, Any, Any]] | None:
        """Return the class if it is a typed environment's; ``None``: it is not, or a factory builds it."""
        creator = _creator(self.source())
        return creator if inspect.isclass(creator) and issubclass(creator, Environment) else None

    def has_tools(self) -> bool:
        """Return whether the class says that the environment has tools."""
        kind = self.typed()
        return kind is not None and (bool(kind.tools) or any(marked(kind)))

    def is_exclusive(self) -> bool:
        """Return whether the class says that a process can have one such environment only."""
        kind = self.typed()
        return kind is not None and not kind.concurrency_safe

    def build(
        self,
        kwargs: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        time_limit: bool = True,
        episode: int = 0,
    ) -> gym.Env[Any, Any]:
        """Build the environment.

        Gymnasium's order and API checks are left out: they are the client's business. Other wrappers of the
        registration are kept.

        Args:
            kwargs: Arguments of the constructor, over those of the registration.
            render_mode: Given to the constructor only when it is not ``None``.
            time_limit: Whether the environment keeps the ``max_episode_steps`` of its registration.
            episode: Steps after which episodes are truncated instead; 0: as ``time_limit`` says.

        Raises:
            ArgumentError: ``render_mode`` is not supported.
            ConstructionError: What was built is neither a ``gymnasium.Env`` nor an ``Environment``.
            Exception: Whatever the constructor raises.
        """
        source = self.source()
        creator = _creator(source)
        _check_render_mode(getattr(creator, "metadata", None), render_mode, self.name, declared=False)
        arguments = dict(kwargs or {})
        if render_mode is not None:
            arguments["render_mode"] = render_mode
            if not modules.accepts(creator, "render_mode"):
                raise ArgumentError(f"{self.name!r} has no argument render_mode; use render_mode=None")
        typed = False
        if isinstance(source, EnvSpec):
            env = _make(source, arguments, time_limit, episode)
        else:
            env = source(**arguments)
            if typed := isinstance(env, Environment):
                env = _as_gym(env, render_mode, episode)
        _check_env(env, self.text)
        if episode and not isinstance(source, EnvSpec) and not typed:
            env = gym.wrappers.TimeLimit(env, episode)
        try:
            _check_render_mode(env.metadata, render_mode, self.name, declared=True)
        except (ConfigError, ArgumentError):
            env.close()
            raise
        return env

    def source(self) -> EnvSpec | _Creator:
        """Return the registration, or the class or factory; imports its module."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded


def resolve(text: str) -> Target:
    """Return the target that ``text`` names; see the top of this module for the order.

    Raises:
        ConfigError: It names none; ``details["tried"]`` lists what was tried.
    """
    given, text = text, _behind_remote(text.strip())
    tried: list[str] = []
    for attempt in (_bundled, _registered, _importable, _path):
        found = attempt(text)
        if isinstance(found, Target):
            return found
        tried.append(found)
    lines = "".join(f"\n  {line}" for line in tried)
    raise ConfigError(f"{given!r} names no environment to serve. Tried:{lines}", tried=tried)


def _behind_remote(text: str) -> str:
    """Return what the id of a remote environment leads to; any other text as it is."""
    name = text.removeprefix("openenv_gym:")
    spec = gym.registry.get(name)
    if spec is not None and spec.entry_point == _REMOTE:
        behind = spec.kwargs.get("target") or spec.kwargs.get("env_id")
        if behind is None:
            raise ConfigError(
                f"{text!r} hosts no environment of its own; serve the id or class it shall lead to"
            )
        return str(behind)
    if spec is None and name.startswith("remote/"):
        return name.removeprefix("remote/")
    return name


# -- the attempts: a target, or a line that says why not


def _bundled_names() -> dict[str, str]:
    names: dict[str, str] = importlib.import_module(_BUNDLED).BUNDLED
    return names


def _bundled(text: str) -> Target | str:
    bundled = _bundled_names()
    if text not in bundled:
        return f"{Kind.BUNDLED}: none of {', '.join(sorted(bundled))}{_hint(text, bundled)}"
    module, _, name = bundled[text].partition(":")
    return Target(text, text, Kind.BUNDLED, lambda: modules.attribute(importlib.import_module(module), name))


def _registered(text: str) -> Target | str:
    module, _, name = text.rpartition(":")
    if not module:
        spec = _spec(text)
        if spec is None:
            hint = _hint(text, gym.registry)
            if not hint and re.search(r"-v\d+$", text):
                hint = f"; if importing a module registers it, write module:{text}"
            return f"{Kind.GYMNASIUM}: not registered{hint}"
        return Target(text, spec.id, Kind.GYMNASIUM, lambda: spec)
    if modules.is_dotted(name) or not modules.exists(module):
        return f"{Kind.GYMNASIUM}: {module!r} is no module" if not modules.exists(module) else _AMBIGUOUS
    return Target(text, name, Kind.GYMNASIUM, lambda: _spec_of_module(module, name))


_AMBIGUOUS = f"{Kind.GYMNASIUM}: not registered before the import"


def _importable(text: str) -> Target | str:
    module, _, name = text.partition(":")
    if not name:
        return f"{Kind.IMPORT}: it has the form package.module:EnvClass"
    if not modules.is_dotted(name) or not modules.exists(module):
        return f"{Kind.IMPORT}: there is no module {module!r} (tried with the import path of the server)"
    return Target(text, text, Kind.IMPORT, lambda: _id_or_attribute(module, name))


def _path(text: str) -> Target | str:
    path, name = modules.split_path(text)
    if path is None:
        return f"{Kind.PATH}: no such file or folder"
    text = f"{path}:{name}" if name else str(path)

    def load() -> _Creator:
        module = modules.load_path(path)
        return modules.attribute(module, name) if name else modules.only_env(module)

    return Target(text, text, Kind.PATH, load)


def _id_or_attribute(module: str, name: str) -> EnvSpec | _Creator:
    loaded = importlib.import_module(module)
    return _spec(name) or modules.attribute(loaded, name)


def _spec_of_module(module: str, name: str) -> EnvSpec:
    importlib.import_module(module)
    spec = _spec(name)
    if spec is None:
        raise ConfigError(f"{module!r} is imported, but registers no {name!r}{_hint(name, gym.registry)}")
    return spec


def _spec(name: str) -> EnvSpec | None:
    """Return the registration of an id; of one without version the newest."""
    spec = gym.registry.get(name)
    if spec is None:
        try:
            namespace, base, version = parse_env_id(name)
        except gym.error.Error:
            return None
        newest = find_highest_version(namespace, base) if version is None else None
        if newest is not None:
            spec = gym.registry.get(f"{name}-v{newest}")
    return spec


def _hint(text: str, known: Iterable[str]) -> str:
    """Return a remark on names that look like ``text``."""
    names = {name.lower(): name for name in known if not name.startswith("remote/")}
    close = difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(names[item]) for item in close)}?" if close else ""


# -- building


def _creator(source: EnvSpec | _Creator) -> Any:
    if not isinstance(source, EnvSpec):
        return source
    entry_point = source.entry_point
    if entry_point is None:
        raise ConfigError(
            f"the registration of {source.id!r} has no entry_point, so it makes vector environments only"
        )
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _make(spec: EnvSpec, arguments: dict[str, Any], time_limit: bool, episode: int) -> gym.Env[Any, Any]:
    spec = copy.deepcopy(spec)
    spec.order_enforce = False
    spec.disable_env_checker = True
    if episode or not time_limit:
        spec.max_episode_steps = episode or None
    # Through the specification, because make() has arguments of its own that the names could collide with.
    spec.kwargs.update(arguments)
    return gym.make(spec)


def _as_gym(
    environment: Environment[Any, Any, Any], render_mode: str | None, limit: int
) -> gym.Env[Any, Any]:
    environment.render_mode = render_mode
    return TypedEnv(environment, limit)


def _check_render_mode(metadata: Any, mode: str | None, name: str, *, declared: bool) -> None:
    """Check ``mode`` against what a class (``declared`` false: may leave it open) or an instance says."""
    if mode is None:
        return
    if mode == "human":
        raise ConfigError(
            "render_mode 'human' would open a window on the server; with gym.make it opens at the client, "
            "from 'rgb_array' frames"
        )
    modes = metadata.get("render_modes") if isinstance(metadata, Mapping) else None
    if (modes or declared) and mode not in (modes or ()):
        known = ", ".join(repr(item) for item in modes or () if item != "human") or "none"
        raise ArgumentError(f"{name!r} does not support render_mode {mode!r}; it supports {known}")


def _check_class(kind: type, text: str) -> None:
    """Find out before the first session comes what will not work in any."""
    if issubclass(kind, Environment):
        for types in (kind.action_type, kind.observation_type, kind.state_type):
            schema_of(types)
    elif not issubclass(kind, gym.Env):
        raise ConfigError(f"{text!r} is no class of a gymnasium.Env; {_advice(kind)}")


def _check_env(env: Any, text: str) -> None:
    if isinstance(env, gym.Env):
        return
    kind = type(env)
    got = f"{text!r} built a {kind.__module__}.{kind.__qualname__}, not a gymnasium.Env"
    advice = "name the class itself, or let the factory return an instance"
    if not inspect.isclass(env):
        advice = _advice(kind)
    raise ConstructionError(f"{got}; {advice}", type=kind.__qualname__)


def _advice(kind: type) -> str:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "gym" in packages:
        return "environments of the old 'gym' package must be ported to gymnasium, or wrapped by shimmy"
    if "openenv" in packages:
        return "derive it from openenv_gym.Environment instead of the openenv package's"
    if issubclass(kind, gym.vector.VectorEnv):
        return "serve the environment that it is made of"
    return "it must derive from gymnasium.Env or openenv_gym.Environment"
