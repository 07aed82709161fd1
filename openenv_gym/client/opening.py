"""From settings to an open session: which server, started if need be, and what its first message says."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from ..errors import ConfigError, ServerConnectionError, StartupTimeoutError, VersionMismatchError
from ..protocol.messages import Hello, Limits
from ..protocol.values import pack
from ..providers.base import Provider, shared_provider
from ..transport.channel import Channel
from ..transport.texts import TextChannel
from .connect import connect, request_headers
from .deadline import deadline_in, earliest
from .endpoint import Endpoint, parse_endpoint
from .flows import Conversation, Unreachable
from .settings import ClientSettings
from .split import SplitConnection
from .sync import Connection

if TYPE_CHECKING:
    from .jsonlink import JsonLink
    from .links import BinaryLink
    from .rpc import Rpc

__all__ = ["JsonSpokenError", "Offer", "Opener", "checked_target", "take_target"]

_C = TypeVar("_C", bound=Connection)


def take_target(target: Any, time_limit: Any, kwargs: dict[str, Any]) -> str | None:
    """Return what the server has to host: ``target``, or ``env_id``, which is taken out of ``kwargs``.

    Raises:
        ConfigError: It is no text, or ``time_limit`` is no bool.
    """
    if target is None and "env_id" in kwargs:
        target = kwargs.pop("env_id")
        if target is None:
            raise ConfigError("pass env_id=, any Gymnasium id, such as env_id='CartPole-v1'")
    if not isinstance(time_limit, bool):
        raise ConfigError("time_limit is True or False; an argument of the environment goes into env_kwargs")
    return checked_target(target)


def checked_target(target: Any) -> str | None:
    """Return what the server has to host, or ``None``.

    Raises:
        ConfigError: It is no text.
    """
    if target is None or (isinstance(target, str) and target):
        return target
    if isinstance(target, type):
        text = f"{target.__module__}:{target.__qualname__}"
        how = f"write {text!r}, not the class itself"
        if target.__module__ == "__main__" or "<locals>" in text:  # which no other process can import
            name = target.__name__
            how = f"put {name} at the top of a file of its own, my_env.py, and write 'my_env.py:{name}'"
        raise ConfigError(f"the server imports what it runs: {how}")
    raise ConfigError(f"what to run is a text, such as 'CartPole-v1', not {target!r}")


def _nothing_to_connect_to(provider: str | None) -> ConfigError:
    if provider is not None:
        return ConfigError(
            f"provider={provider!r} has nothing to run; pass target=, such as 'my_module:MyEnv'"
        )
    return ConfigError(
        "there is no server to connect to; pass base_url= (OPENENV_BASE_URL), such as"
        " 'ws://127.0.0.1:8000' or 'unix:/run/server.sock'"
    )


class Offer(NamedTuple):
    """What a server says in its handshake.

    Attributes:
        workers: How many worker processes it has, at least 1.
        free: Free slots.
        maximum: Slots in all.
    """

    workers: int
    free: int
    maximum: int


class JsonSpokenError(VersionMismatchError):
    """The server speaks OpenEnv's JSON; :meth:`Opener.take_json` goes on with that."""


class Opener:
    """Opens sessions of one environment, again and again if need be.

    Args:
        settings: The client's settings.
        target: What the server has to host; ``None``: whatever ``base_url`` hosts.
        time_limit: Whether the environment keeps the time limit of its registration.
        render_mode: The environment's render mode.
        client: Name and version of this program.
        number: Which server, where the provider shall run several for the same target.
        face: How the environment shows itself, see :class:`~openenv_gym.protocol.messages.Hello`.
        json: Whether a server that speaks OpenEnv's JSON will do.

    Attributes:
        endpoint: Where the server is; ``None`` until a provider said so.
        provider: Who runs the server, if it is ours.
        hello: What opens a session.
        offer: What the server said in its newest handshake; ``None``: nothing.

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
        number: int = 0,
        face: str = "",
        json: bool = False,
    ) -> None:
        self._settings = settings
        self._json = json
        self._text: TextChannel | None = None
        self.offer: Offer | None = None
        self._spare: Channel | None = None
        self._fresh: float | None = None
        self.endpoint: Endpoint | None = None
        self.provider: Provider | None = None
        if settings.base_url is not None:
            self.endpoint = parse_endpoint(settings.base_url)
        elif target is None:
            raise _nothing_to_connect_to(settings.provider)
        else:
            name = settings.provider or "process"
            self.provider = shared_provider(name, target, settings.provider_kwargs, number)
        if self.endpoint is not None and self.endpoint.user is not None and settings.token is not None:
            raise ConfigError("token and a user in base_url exclude each other; leave one out")
        limit = settings.step_timeout or 0.0
        self.hello = Hello(
            session="",
            token=b"",
            capabilities=["timing"] if settings.timing else [],
            env_kwargs=pack(dict(settings.env_kwargs), "env_kwargs") if settings.env_kwargs else None,
            render_mode=render_mode,
            expect=target if self.provider is None else None,
            time_limit=time_limit,
            slot_timeout=settings.slot_timeout,
            limits=Limits(message=settings.max_message, step=limit, reset=limit),
            client=client,
            face=face,
        )

    def open(self, *, patient: bool) -> Connection:
        """Return a new session.

        Args:
            patient: Whether to go on trying, up to ``connect_timeout``, while nobody answers.

        Raises:
            JsonSpokenError: The server speaks OpenEnv's JSON only.
            OpenEnvError: There is none to be had.
        """
        return self._session(Connection, patient)

    def open_link(self, *, patient: bool) -> BinaryLink | JsonLink:
        """Return a new session for a typed client, in either language. See :meth:`open`."""
        from .links import BinaryLink

        try:
            connection = self.begin(patient=patient)
        except JsonSpokenError:
            return self.take_json()
        self.complete(connection)
        return BinaryLink(connection)

    def take_json(self) -> JsonLink:
        """Return the session on the connection of which :class:`JsonSpokenError` told.

        Raises:
            ConfigError: Constructor arguments were given, which that language cannot say.
        """
        from .jsonlink import JsonLink

        channel, self._text = self._text, None
        assert channel is not None
        settings = self._settings
        if settings.env_kwargs:
            channel.close()
            names = ", ".join(map(repr, settings.env_kwargs))
            raise ConfigError(
                f"{self.endpoint} speaks OpenEnv's JSON, which cannot hand {names} to the environment's"
                " constructor; leave it out, and configure the environment at the server"
            )
        return JsonLink(
            channel, str(self.endpoint), timeout=settings.step_timeout, keepalive=settings.keepalive
        )

    def begin(self, *, patient: bool) -> SplitConnection:
        """Ask for a new session; :meth:`complete` waits for it. Arguments and errors as for :meth:`open`."""
        return self._session(SplitConnection, patient)

    def complete(self, connection: SplitConnection) -> None:
        """Wait until the session is open.

        Raises:
            OpenEnvError: It could not be opened.
        """
        try:
            connection.complete()
        except TimeoutError:
            raise self._late() from None

    def rpc(self) -> Rpc:
        """Return JSON-RPC with the server, which is started if need be.

        Raises:
            StartupError: It does not start.
        """
        from .rpc import Rpc

        self._locate()
        settings, endpoint = self._settings, self.endpoint
        assert endpoint is not None
        return Rpc(
            endpoint,
            settings.step_timeout,
            token=settings.token if self.provider is None else self.provider.token,
            headers=settings.headers,
            max_message=settings.max_message,
        )

    def fetch(self, path: str) -> Any:
        """Return the JSON that the server answers to an HTTP GET of ``path``.

        Raises:
            OpenEnvError: There is none.
        """
        from .rpc import fetch_json

        settings, endpoint = self._settings, self.endpoint
        assert endpoint is not None
        return fetch_json(
            endpoint,
            path,
            deadline_in(settings.connect_timeout),
            headers=request_headers(endpoint, settings.token, settings.headers),
            max_message=settings.max_message,
        )

    def variant(self, **fields: Any) -> Opener:
        """Return an opener of the same server whose sessions differ in these fields of ``hello``.

        The first one takes over the connection of a :meth:`survey`.
        """
        other = copy.copy(self)
        other.hello = msgspec.structs.replace(self.hello, **fields)
        self._spare, other._text = None, None
        return other

    def launch(self) -> None:
        """Have the provider, if there is one, start its server, and wait for nothing.

        Raises:
            StartupError: It cannot be started.
        """
        if self.provider is not None:
            self.provider.launch()

    def survey(self) -> Offer | None:
        """Connect, and return what the server says in its handshake; the next session uses the connection.

        Raises:
            OpenEnvError: There is no connection to be had.
        """
        self._fresh = self._locate()
        try:
            self._spare = self._dial(earliest(deadline_in(self._settings.connect_timeout), self._fresh))
        except Unreachable as exc:
            raise exc.public() from exc.__cause__
        except TimeoutError:
            raise self._late() from None
        return self.offer

    def forget(self) -> None:
        """Close the connection of a survey that no session used."""
        channel, self._spare = self._spare, None
        if channel is not None:
            channel.abort()

    def forward(self) -> None:
        """Log what environments of an embedded server printed."""
        if self.provider is not None:
            self.provider.forward()

    # -- inside

    def _session(self, kind: type[_C], patient: bool) -> _C:
        provider = self.provider
        try:
            return self._attempt(kind, patient)
        except ServerConnectionError:
            if provider is None or provider.alive():
                raise
            # It ended between our look and our call, as an idle one does.
            return self._attempt(kind, patient)

    def _attempt(self, kind: type[_C], patient: bool) -> _C:
        settings = self._settings
        fresh, self._fresh = self._fresh, None
        deadline = self._locate() or fresh
        try:
            return kind(
                Conversation(self.hello, settings.keepalive, settings.connect_timeout, str(self.endpoint)),
                self._dial,
                request_timeout=settings.step_timeout,
                deadline=deadline,
                patient=patient or self.provider is not None,
            )
        except TimeoutError:
            raise self._late() from None

    def _locate(self) -> float | None:
        """Make sure there is a server; return when the first session on it must be open, if it is new."""
        if self.provider is None:
            return None
        timeout = self._settings.startup_timeout
        deadline = deadline_in(timeout)
        base_url, fresh = self.provider.ensure(timeout)
        self.endpoint = parse_endpoint(base_url)
        return deadline if fresh else None

    def _dial(self, deadline: float | None) -> Channel:
        settings, provider, endpoint = self._settings, self.provider, self.endpoint
        spare, self._spare = self._spare, None
        if spare is not None and spare.attend() == 0:
            return spare
        assert endpoint is not None
        if provider is not None and not provider.alive():
            raise self._died(provider)
        if self._text is not None:
            self._text.abort()
        interval = settings.keepalive[0] if settings.keepalive is not None else None
        channel = connect(
            endpoint,
            deadline,
            token=settings.token if provider is None else provider.token,
            headers=settings.headers,
            max_message=settings.max_message,
            compression=settings.compression,
            keepalive=interval,
            answered=self._answered,
            json=self._json,
        )
        if isinstance(channel, TextChannel):
            self._text = channel
            raise JsonSpokenError(f"{endpoint} speaks OpenEnv's JSON only", server=str(endpoint))
        return channel

    def _answered(self, headers: Mapping[str, str]) -> None:
        numbers = [headers.get(f"openenv-{name}", "") for name in ("workers", "slots-free", "slots-max")]
        if all(map(str.isdecimal, numbers)):
            workers, free, maximum = map(int, numbers)
            self.offer = Offer(max(workers, 1), free, maximum)

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
