"""Servers that a provider object runs for one client: one of ours, or one made for OpenEnv's clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from ..providers.base import Provider, provider_class

__all__ = ["Host", "host_of_image", "host_of_space"]

_STARTING = ("port", "env_vars", "workers")


class Host:
    """The server of a provider object.

    Args:
        provider: A :class:`~openenv_gym.providers.base.Provider`; or an object with ``start_container()``,
            ``wait_for_ready(base_url)``, ``stop_container()``; or one with ``start()``, ``wait_for_ready()``,
            ``stop()``.
        begin: Starts it and returns its ``base_url``; ``None``: its own method without arguments.

    Attributes:
        starts: Whether the server is started by this.

    Raises:
        ConfigError: The object is none of these.
    """

    def __init__(self, provider: Any, begin: Callable[[], str] | None = None) -> None:
        self.provider = provider
        self._container = hasattr(provider, "start_container")
        self._running = False
        self.starts = True
        if not isinstance(provider, Provider) and not self._container and not hasattr(provider, "start"):
            raise ConfigError(
                f"provider is a {type(provider).__name__}, which has neither start_container() nor start();"
                " write a name such as 'process', or pass an object that has"
            )
        own: Callable[[], str] = getattr(provider, "start_container" if self._container else "start")
        self._begin = begin or own

    @property
    def token(self) -> str | None:
        """Bearer token of the server, if the provider made one."""
        return getattr(self.provider, "token", None)

    def start(self, timeout: float | None) -> str:
        """Start the server, wait until it takes connections, and return its ``base_url``.

        Args:
            timeout: Seconds that a provider of ours may take.

        Raises:
            ConfigError: ``start_container()`` wants arguments that nobody gave.
        """
        provider = self.provider
        if isinstance(provider, Provider):
            return provider.ensure(timeout)[0]
        self._check_arguments()
        self._running = True
        try:
            base_url = self._begin()
            if self._container:
                provider.wait_for_ready(base_url)
            else:
                provider.wait_for_ready()
        except BaseException:
            self.stop()
            raise
        return base_url

    def adopt(self) -> None:
        """Take over a server that runs already, which :meth:`stop` stops and nobody starts again."""
        self.starts, self._running = False, True

    def stop(self) -> None:
        """Stop the server, if it runs."""
        if isinstance(self.provider, Provider):
            self.provider.stop()
        elif self._running:
            self._running = False
            stop = "stop_container" if self._container else "stop"
            getattr(self.provider, stop, lambda: None)()

    def _check_arguments(self) -> None:
        import inspect

        try:
            parameters = inspect.signature(self._begin).parameters.values()
        except (TypeError, ValueError):
            return
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        missing = [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]
        if missing:
            raise ConfigError(
                f"{type(self.provider).__name__} wants {', '.join(missing)} to start; start it yourself and"
                " pass base_url=, or use from_docker_image()"
            )


def host_of_image(image: str, provider: Any, options: dict[str, Any]) -> Host:
    """Return the host for a container of ``image``; ``provider`` ``None``: Docker on this machine."""
    _check_text("image", image)
    if provider is None:
        return Host(_own("docker", image, options))
    return Host(provider, lambda: provider.start_container(image, **options))


def host_of_space(repo_id: str, provider: Any, options: dict[str, Any], *, docker: bool) -> Host:
    """Return the host for a Space of Hugging Face: its image, or its source run by uv.

    Raises:
        ConfigError: An option that nobody takes.
    """
    _check_text("repo_id", repo_id)
    options = dict(options)
    if docker:
        # The registry's name of a Space is its id in lower case, with "-" for all but letters and digits.
        name = re.sub(r"[^a-z0-9]", "-", repo_id.lower())
        return host_of_image(f"registry.hf.space/{name}:{options.pop('tag', 'latest')}", provider, options)
    starting = {key: options.pop(key) for key in _STARTING if key in options}
    if provider is None:
        source = options.pop("project_path", None) or f"git+https://huggingface.co/spaces/{repo_id}"
        return Host(_own("uv", source, {**options, **starting}))
    if options:
        raise ConfigError(
            f"{', '.join(map(repr, options))} are options of a provider made here; give them to yours instead"
        )
    return Host(provider, lambda: provider.start(**starting))


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {value!r:.80}; write its name, a str", argument=name)


def _own(name: str, target: str, options: dict[str, Any]) -> Provider:
    try:
        kind = provider_class(name)
    except ConfigError as exc:
        raise ConfigError(f"{exc.message}; or pass provider=, an object that starts {target!r}") from None
    return kind(target, **options)
