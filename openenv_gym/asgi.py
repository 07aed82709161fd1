"""An environment as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["create_app"]


def create_app(
    environment: str | Callable[..., Any],
    action_type: type | None = None,
    observation_type: type | None = None,
    env_name: str | None = None,
    *,
    max_concurrent_envs: int | None = None,
    **options: Any,
) -> Any:
    """Return an ASGI application that serves an environment.

    Any ASGI server runs it (``uvicorn module:app``), and it can be mounted in another application; without
    its lifespan it starts with the first request, and if that fails (503) again with the next one. Sessions
    run in threads of the process, unless ``workers=N`` asks for processes. Connections are not handed over
    to them, because another server owns the sockets: ``python -m openenv_gym.serve`` is quicker.

    Args:
        environment: A class or a factory of an ``Environment`` or a ``gymnasium.Env``, or what
            ``python -m openenv_gym.serve`` takes.
        action_type: Type of a typed environment's actions, over the one that its class names.
        observation_type: Type of its observations, likewise.
        env_name: What clients see as its name.
        max_concurrent_envs: Most sessions at once; ``max_sessions`` by another name.
        options: The options of the server, over its environment variables. With a token, or
            ``insecure=True``, it answers to whatever name it is reached by, otherwise to this machine's only.

    Returns:
        A ``starlette.applications.Starlette``.

    Raises:
        ConfigError: An option is unknown or impossible.
    """
    make: Callable[..., Any] = import_module("openenv_gym.servers.asgi").create_app
    names = {"action_type": action_type, "observation_type": observation_type, "env_name": env_name}
    return make(environment, **names, max_concurrent_envs=max_concurrent_envs, **options)
