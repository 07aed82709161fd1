"""The ids that ``gym.make`` knows: ``openenv/...``, the mirrors ``remote/...``, and those of other packages.

Everything is registered by string, so nothing is imported before an env is made, and directly in the
registry: ``gymnasium.register`` compares each id with all others, which is slow for a thousand of them.

Gymnasium itself is not imported either: a program that only uses typed clients does without it. The ids are
registered when it is imported, before or after this package.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from gymnasium.envs.registration import EnvSpec

__all__ = ["mirror", "register", "register_all", "register_with_gymnasium"]

ENTRY_POINT = "openenv_gym.env:RemoteEnv"
VECTOR_ENTRY_POINT = "openenv_gym.wrappers.vector:RemoteVectorEnv"
GROUP = "openenv_gym.envs"
_OURS = ("openenv", "remote")


def register_with_gymnasium() -> None:
    """Call :func:`register_all`: now if Gymnasium is imported already, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register_all()
    elif not any(isinstance(finder, _WaitingForGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WaitingForGymnasium())


class _WaitingForGymnasium:
    """Finds nothing itself; lets the loader that imports Gymnasium call :func:`register_all` afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, _WaitingForGymnasium)]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        loader = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                del loader.exec_module  # the loader is as it was
                execute(module)
                sys.meta_path[:] = [at for at in sys.meta_path if not isinstance(at, _WaitingForGymnasium)]
                register_all()

            loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register_all() -> None:
    """Register our ids, those of the entry-point group ``openenv_gym.envs``, and a mirror of every other id.

    What is registered already is left as it is, so this may be called again after more ids came.
    """
    import gymnasium as gym

    _add("openenv/Echo-v0", {"target": "echo"})
    _add("openenv/Gym-v0", {"env_id": None})
    _add("openenv/Remote-v0", {})
    for name, target, package in _entry_points():
        try:
            _add(name if "/" in name else f"openenv/{name}", {"target": target, "time_limit": False})
        except gym.error.Error as exc:  # a package that has nothing to do with the script must not stop it
            warnings.warn(f"the entry point {name!r} of {package} cannot be an id: {exc}", stacklevel=2)
    for spec in list(gym.registry.values()):
        _mirror(spec)


def mirror(*ids: str) -> tuple[str, ...]:
    """Register mirrors of Gymnasium ids: ``remote/<id>`` runs the environment in a server of its own.

    A namespace is joined by a dot: the mirror of ``ALE/Pong-v5`` is ``remote/ALE.Pong-v5``.

    Args:
        ids: Registered ids; none: all that are registered now.

    Returns:
        The ids of the mirrors.

    Raises:
        ConfigError: An id is not registered.
    """
    import gymnasium as gym

    specs = list(gym.registry.values()) if not ids else [_spec(env_id) for env_id in ids]
    return tuple(name for spec in specs if (name := _mirror(spec)) is not None)


def register(
    id: str,
    target: str,
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    nondeterministic: bool = False,
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Register an id for a remote environment.

    Args:
        id: The new id, such as ``"acme/Maze-v0"``.
        target: What the server hosts, as ``python -m openenv_gym.serve`` takes it: ``"acme.envs:MazeEnv"``.
        max_episode_steps: After how many steps ``gym.make`` truncates an episode; ``None``: never.
        reward_threshold: The return from which on the task counts as solved.
        nondeterministic: Whether the same seed and actions may give different results.
        kwargs: Keyword arguments for every env of this id; JSON must be able to hold them.

    Raises:
        ConfigError: The id is registered already for something else, or cannot be an id.
    """
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    if not isinstance(target, str) or not target:
        raise ConfigError(f"target is {target!r}; write a text such as 'package.module:EnvClass'")
    arguments = {**(kwargs or {}), "target": target, "time_limit": False}
    if "time_limit" in (kwargs or {}) or "target" in (kwargs or {}):
        raise ConfigError("kwargs cannot hold 'target' or 'time_limit'; pass them to the env by env_kwargs")
    known = gym.registry.get(id)
    if known is not None and (known.entry_point, known.kwargs) != (ENTRY_POINT, arguments):
        raise ConfigError(f"the id {id!r} is registered already; choose another version or name")
    try:
        gym.registry[id] = EnvSpec(
            id,
            ENTRY_POINT,
            max_episode_steps=max_episode_steps,
            reward_threshold=reward_threshold,
            nondeterministic=nondeterministic,
            kwargs=arguments,
            vector_entry_point=VECTOR_ENTRY_POINT,
        )
    except gym.error.Error as exc:
        raise ConfigError(f"{id!r} cannot be the id of an environment: {exc}") from exc


def _add(name: str, kwargs: dict[str, Any]) -> None:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    if name not in gym.registry:
        gym.registry[name] = EnvSpec(name, ENTRY_POINT, kwargs=kwargs, vector_entry_point=VECTOR_ENTRY_POINT)


def _mirror(spec: EnvSpec) -> str | None:
    """Register the mirror of ``spec`` and return its id; ``None`` for what is remote already."""
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    if spec.namespace in _OURS or spec.entry_point == ENTRY_POINT:
        return None
    name = f"remote/{spec.id.replace('/', '.')}"
    if name not in gym.registry:
        gym.registry[name] = EnvSpec(
            name,
            ENTRY_POINT,
            reward_threshold=spec.reward_threshold,
            nondeterministic=spec.nondeterministic,
            max_episode_steps=spec.max_episode_steps,
            order_enforce=spec.order_enforce,
            disable_env_checker=spec.disable_env_checker,
            kwargs={"target": _importable(spec), "time_limit": False},
            vector_entry_point=VECTOR_ENTRY_POINT,
        )
    return name


def _importable(spec: EnvSpec) -> str:
    """Return the id with the package in front whose import registers it, as far as that can be told."""
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    package = module.partition(".")[0]
    return spec.id if package in ("gymnasium", "__main__", "") else f"{package}:{spec.id}"


def _spec(env_id: str) -> EnvSpec:
    """Return the registration of ``env_id``, which may name the module to import first."""
    import gymnasium as gym

    module, _, name = env_id.rpartition(":")
    try:
        if module:
            import_module(module)
        return gym.spec(name)
    except (gym.error.Error, ImportError) as exc:
        raise ConfigError(f"{env_id!r} cannot be mirrored: {exc}") from exc


def _entry_points() -> Iterator[tuple[str, str, str]]:
    """Yield name, value and package of the entry points of our group. Nothing is imported for it."""
    if any(_mentions_group(folder) for folder in sys.path):
        from importlib.metadata import entry_points

        for point in entry_points(group=GROUP):
            yield point.name, point.value, point.dist.name if point.dist is not None else "a package"


def _mentions_group(folder: str) -> bool:
    """Return whether a distribution in ``folder`` has our group; importlib.metadata alone costs 15 ms."""
    try:
        with os.scandir(folder or ".") as found:
            names = [entry.name for entry in found if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for name in names:
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                if b"[openenv_gym.envs]" in file.read():
                    return True
        except OSError:
            continue
    return False
