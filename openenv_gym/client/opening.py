"""From settings to an open session: which server, started if need be, and what its first message says."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ConfigError, ServerConnectionError, StartupTimeoutError
from ..protocol.messages import Hello, Limits
from ..protocol.values import pack
from ..providers.base import Provider, shared_provider
from ..transport.channel import Channel
from .connect import connect
from .deadline import deadline_in
from .endpoint import Endpoint, parse_endpoint
from .flows import Conversation
from .settings import ClientSettings
from .sync import Connection

__all__ = ["Opener"]


class Opener:
    """Opens sessions of one environment, again and again if need be.

    Args:
        settings: The client's settings.
        target: What the server has to host; ``None``: whatever ``base_url`` hosts.
        time_limit: Whether the environment keeps the time limit of its registration.
        render_mode: The environment's render mode.
        client: Name and version of this program.

    Attributes:
        endpoint: Where the server is; ``None`` until a provider said so.
        provider: Who runs the server, if it is ours.

    Raises:
        ConfigError: There is neither a target nor a server, or the provider is unknown.
        ValueNotCarriedError: A keyword argument of the environment has no form on the wire.
    """

    def __init__(
        self,
        settings: ClientSettings,
        target: str | None,
        *,
        time_limit: bool = True,
        render_mode: str | None = None,
        client: str = "",
    ) -> None:
        self._settings = settings
        self.endpoint: Endpoint | None = None
        self.provider: Provider | None = None
        if settings.base_url is not None:
            self.endpoint = parse_endpoint(settings.base_url)
        elif target is None:
            raise ConfigError(
                "there is no server to connect to; pass base_url= (OPENENV_BASE_URL), such as"
                " 'ws://127.0.0.1:8000' or 'unix:/run/server.sock'"
            )
        else:
            name = settings.provider or "process"
            self.provider = shared_provider(name, target, settings.provider_kwargs)
        if self.endpoint is not None and self.endpoint.user is not None and settings.token is not None:
            raise ConfigError("token and a user in base_url exclude each other; leave one out")
        limit = settings.step_timeout or 0.0
        self.hello = Hello(
            session="",
            token=b"",
            env_kwargs=pack(dict(settings.env_kwargs), "env_kwargs") if settings.env_kwargs else None,
            render_mode=render_mode,
            expect=target if self.provider is None else None,
            time_limit=time_limit,
            slot_timeout=settings.slot_timeout,
            limits=Limits(message=settings.max_message, step=limit, reset=limit),
            client=client,
        )

    def open(self, *, patient: bool) -> Connection:
        """Return a new session.

        Args:
            patient: Whether to go on trying, up to ``connect_timeout``, while nobody answers.

        Raises:
            OpenEnvError: There is none to be had.
        """
        provider = self.provider
        try:
            return self._attempt(patient)
        except ServerConnectionError:
            if provider is None or provider.alive():
                raise
            # It ended between our look and our call, as an idle one does.
            return self._attempt(patient)

    def forward(self) -> None:
        """Log what environments of an embedded server printed."""
        if self.provider is not None:
            self.provider.forward()

    # -- inside

    def _attempt(self, patient: bool) -> Connection:
        settings, provider, deadline = self._settings, self.provider, None
        if provider is not None:
            started = deadline_in(settings.startup_timeout)
            base_url, fresh = provider.ensure(settings.startup_timeout)
            self.endpoint = parse_endpoint(base_url)
            deadline = started if fresh else None
        try:
            return Connection(
                Conversation(self.hello, settings.keepalive, settings.connect_timeout, str(self.endpoint)),
                self._dial,
                request_timeout=settings.step_timeout,
                deadline=deadline,
                patient=patient or provider is not None,
            )
        except TimeoutError:
            raise self._late() from None

    def _dial(self, deadline: float | None) -> Channel:
        settings, provider, endpoint = self._settings, self.provider, self.endpoint
        assert endpoint is not None
        if provider is not None and not provider.alive():
            raise self._died(provider)
        interval = settings.keepalive[0] if settings.keepalive is not None else None
        return connect(
            endpoint,
            deadline,
            token=settings.token if provider is None else provider.token,
            headers=settings.headers,
            max_message=settings.max_message,
            compression=settings.compression,
            keepalive=interval,
        )

    def _died(self, provider: Provider) -> ServerConnectionError:
        log = provider.logs()
        how = provider.ending() or "it is gone"
        words = f" Its last lines:\n{log}" if log else ""
        return ServerConnectionError(
            f"the embedded server for {provider.target!r} has ended ({how}); reset() starts another.{words}",
            server=str(self.endpoint),
            log=log,
        )

    def _late(self) -> StartupTimeoutError:
        timeout = self._settings.startup_timeout or math.inf
        log: Any = self.provider.logs() if self.provider is not None else ""
        words = f" The server's last lines:\n{log}" if log else ""
        return StartupTimeoutError(
            f"the session was not open within startup_timeout={timeout:g} s of starting the server.{words}",
            server=str(self.endpoint),
            log=log,
        )
