"""Typed clients: ``reset``, ``step`` and ``state`` with Structs, on an event loop and without one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, overload

from ..errors import ConfigError, NotCopyableError, UnsupportedError
from ..models import State, StepResult
from .core import ClientCore, Steps
from .hosting import Host, host_of_image, host_of_space
from .line import Call, Line, Work
from .links import Request
from .opening import checked_target
from .options import client_mode, client_settings, with_scheme
from .parsing import action_map, check_types, parsed_result, parsed_state, types_in_bases
from .pending import Pending, loop_runs

if TYPE_CHECKING:
    from .blocking import SyncEnvClient

__all__ = ["EnvClient"]

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT_co = TypeVar("StateT_co", covariant=True)


class EnvClient(Generic[ActT, ObsT, StateT_co]):
    """A session with an environment server, as typed actions, observations and states.

    Every method that talks to the server may be used in three ways::

        result = await client.step(action)         # on an event loop
        result = client.step(action)               # where none runs: it blocks, and returns the result
        reward = client.step(action).reward        # on an event loop, without await: it blocks the loop

    What it returns on an event loop is a :class:`~openenv_gym.client.pending.Pending`, which has the
    attributes of the result; results may be awaited, too, and are themselves then. So what type checkers take
    for a :class:`.StepResult` may be used either way. Calls of several threads and tasks take turns.
    ``asyncio.wait_for`` around a call gives it up: the environment executes it if it was sent, and its result
    is dropped (where OpenEnv's JSON is spoken the session is over then). A connection belongs to no event
    loop: a client may be used in one ``asyncio.run`` after another, and without any.

    Servers of this package are spoken to in the binary protocol: a lost connection is resumed, nothing is
    executed twice. Others are spoken to in OpenEnv's JSON, where a lost connection loses the session. A lost
    session raises :class:`~openenv_gym.errors.SessionLostError` until :meth:`reset` opens a new one.

    Subclasses name their types, ``class GuessClient(EnvClient[Guess, Hint, State])``, as Structs or pydantic
    models; without, observations and states are dicts. They may override ``_step_payload``, ``_parse_result``
    and ``_parse_state``.

    Args:
        base_url: The server: ``ws(s)://``, ``http(s)://``, ``unix:`` or ``host:port``. ``None``: the variable
            ``OPENENV_BASE_URL``, unless there is a provider.
        connect_timeout_s: Longest time to reach the server, in seconds; ``None``: unlimited.
        message_timeout_s: Longest call, in seconds; ``None``: unlimited. What takes longer is stopped, and
            the session is over.
        max_message_size_mb: Largest message accepted, in MiB.
        websocket_ping_interval_s: After how many silent seconds the server is asked for a sign of life;
            ``None``: never.
        websocket_ping_timeout_s: How long it has to give one; ``None``: it is never asked.
        provider: Who runs the server: ``"process"``, ``"inprocess"``, ``"package.module:Class"``, or an
            object with ``start_container``, ``wait_for_ready`` and ``stop_container``, or with ``start``,
            ``wait_for_ready`` and ``stop``. :meth:`close` stops the server of an object.
        mode: ``"simulation"``, or ``"production"``: there are tools only, for
            :class:`~openenv_gym.client.MCPToolClient`; ``None``: the variable ``OPENENV_CLIENT_MODE``.
        headers: More headers for the handshake.
        token: Bearer token; ``"env:NAME"`` reads a variable; ``None``: the variable ``OPENENV_TOKEN``.
        target: What the server of a named provider hosts, such as ``"mymodule:GuessNumber"``.
        env_kwargs: Keyword arguments of the environment's constructor.
        provider_kwargs: Options of a named provider.

    Raises:
        ConfigError: An argument is wrong, or no reply could be read as its ``observation_type`` or
            ``state_type``.
    """

    action_type: ClassVar[Any] = None
    observation_type: ClassVar[Any] = None
    state_type: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        types_in_bases(cls, EnvClient)

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float | None = 10.0,
        message_timeout_s: float | None = 60.0,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Any = None,
        mode: str | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = None,
        *,
        target: str | None = None,
        env_kwargs: dict[str, Any] | None = None,
        provider_kwargs: dict[str, Any] | None = None,
    ) -> None:
        check_types(type(self))
        self._mode = client_mode(mode)
        named = provider if isinstance(provider, str) else None
        host = None if named is not None or provider is None else Host(provider)
        if host is not None and base_url is not None:
            host.adopt()
        #: What another client for the same server gets.
        self._same: dict[str, Any] = {
            "connect_timeout_s": connect_timeout_s,
            "message_timeout_s": message_timeout_s,
            "max_message_size_mb": max_message_size_mb,
            "websocket_ping_interval_s": websocket_ping_interval_s,
            "websocket_ping_timeout_s": websocket_ping_timeout_s,
            "headers": headers,
            "token": token,
            "env_kwargs": env_kwargs,
        }
        settings = client_settings(
            **self._same,
            base_url=None if base_url is None else with_scheme(base_url),
            provider=named,
            provider_kwargs=provider_kwargs,
            hosted=host is not None and base_url is None,
        )
        self._core = ClientCore(settings, host, checked_target(target))
        self._sync: SyncEnvClient[ActT, ObsT, StateT_co] | None = None
        self._rewards: list[Any] = []
        self._finished = False

    # -- what a user calls

    @property
    def base_url(self) -> str | None:
        """The server's address, without secrets; ``None``: a provider has not started it yet."""
        endpoint = self._core.endpoint
        return None if endpoint is None else str(endpoint)

    @property
    def mode(self) -> str:
        """``"simulation"`` or ``"production"``."""
        return self._mode

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards of the episode's steps; ``None`` while it is not over, or if there were none."""
        return sum(self._rewards) if self._finished and self._rewards else None

    def connect(self) -> Self:
        """Connect and open a session, unless there is one; return the client. Other calls do so themselves.

        Raises:
            OpenEnvError: There is no session to be had; the class says why.
        """
        same: Self = self._core.dispatch("connect()", self._connecting())
        return same

    def disconnect(self) -> Any:
        """End the session. The next call opens a new one."""
        return self._core.dispatch("disconnect()", self._core.disconnecting())

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """Start an episode, in a new session if the old one is lost; return a :class:`.StepResult`.

        Args:
            kwargs: ``seed``, ``episode_id`` and whatever else the environment's ``reset`` takes.

        Raises:
            ValidationError: The environment does not take an argument.
            OpenEnvError: There is no session to be had, or it was lost meanwhile; another call may succeed.
        """
        result: StepResult[ObsT] = self._core.dispatch("reset()", self._resetting(kwargs))
        return result

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        """Take a step; return a :class:`.StepResult`.

        Args:
            action: An instance of ``action_type``, or a dict of its fields.
            kwargs: Nothing; what is not sent is refused.

        Raises:
            ValidationError: A field of the action is wrong; the session goes on.
            RemoteEnvironmentError: The environment raised.
            SessionLostError: The episode is lost.
        """
        result: StepResult[ObsT] = self._core.dispatch("step()", self._stepping(action, kwargs))
        return result

    # Our own states may be awaited; what else a subclass names, type checkers cannot know to be awaitable.
    @overload
    def state(self: EnvClient[Any, Any, State]) -> StateT_co: ...

    @overload
    def state(self) -> Any: ...

    def state(self) -> Any:
        """Return the environment's state, a ``state_type`` or a dict."""
        return self._core.dispatch("state()", self._asking_state())

    def close(self) -> Any:
        """End the session and those of :meth:`new_session`, and stop the server of a provider object."""
        return self._core.dispatch("close()", self._closing(), at_last=True)

    def new_session(self) -> Self:
        """Return a client of the same class with another session on the same server; :meth:`close` closes it.

        Raises:
            CapacityError: The server has no free slot (from OpenEnv's servers the first call says so).
        """
        other: Self = self._core.dispatch("new_session()", self._another())
        return other

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT_co]:
        """Return the same client with methods that block, whether an event loop runs or not."""
        if self._sync is None:
            from .blocking import SyncEnvClient

            self._sync = SyncEnvClient(self)
        return self._sync

    @classmethod
    def from_docker_image(cls, image: str, provider: Any = None, **kwargs: Any) -> Self:
        """Start a container and return a connected client; :meth:`close` stops it.

        Args:
            image: Its image.
            provider: An object with ``start_container(image, **kwargs)``; ``None``: Docker on this machine.
            kwargs: More arguments of it.

        Raises:
            ConfigError: There is no such provider.
        """
        start = partial(host_of_image, image, provider, kwargs)
        client: Self = cls._bootstrap(f"from_docker_image({image!r})", start)
        return client

    @classmethod
    def from_env(cls, repo_id: str, *, use_docker: bool = True, provider: Any = None, **kwargs: Any) -> Self:
        """Start the environment of a Hugging Face Space here and return a connected client.

        Args:
            repo_id: ``owner/name`` of the Space.
            use_docker: Run its image (``tag=`` says which); otherwise its source, with uv.
            provider: As in :meth:`from_docker_image`, or an object with ``start(**kwargs)``.
            kwargs: Options of the provider.
        """
        start = partial(host_of_space, repo_id, provider, kwargs, docker=use_docker)
        client: Self = cls._bootstrap(f"from_env({repo_id!r})", start)
        return client

    def __await__(self) -> Generator[None, None, Self]:
        """Return the client itself, so that ``await client.connect()`` may be written where it is there."""
        yield from ()
        return self

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self._core.run("connect()", self._connecting())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._core.run("close()", self._closing())

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError(
            f"a {type(self).__name__} can be neither pickled nor copied, its session is its own; make another"
            " where it is needed, or call new_session()"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.base_url or 'not started'}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.abandon()

    # -- what subclasses may override

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """Return an action as what is sent."""
        return action_map(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Return the result in a reply: ``observation``, ``reward``, ``done``, ``metadata`` ..."""
        return parsed_result(self.observation_type, payload)

    def _parse_state(self, payload: dict[str, Any]) -> StateT_co:
        """Return the state in a reply."""
        state: StateT_co = parsed_state(self.state_type, payload)
        return state

    # -- flows, see :mod:`.core`

    def _connecting(self) -> Steps:
        yield from self._core.connecting()
        return self

    def _closing(self) -> Steps:
        yield from self._core.closing()

    def _check_simulation(self, what: str) -> None:
        if self._mode == "production":
            raise UnsupportedError(f"{what} needs mode='simulation'; in production mode there are tools only")

    def _resetting(self, options: dict[str, Any]) -> Steps:
        self._check_simulation("reset()")
        self._rewards, self._finished = [], False
        return self._parse_result((yield from self._core.exchange(Request("reset", options))))

    def _stepping(self, action: Any, options: dict[str, Any]) -> Steps:
        self._check_simulation("step()")
        if options:
            raise ConfigError(
                f"step() takes an action and nothing else; {', '.join(map(repr, options))} would not be sent"
            )
        payload = yield from self._core.exchange(Request("step", self._step_payload(action)))
        reward = payload.get("reward")
        if reward is not None:
            self._rewards.append(reward)
        self._finished = bool(payload.get("done"))
        return self._parse_result(payload)

    def _asking_state(self) -> Steps:
        self._check_simulation("state()")
        return self._parse_state((yield from self._core.exchange(Request("state"))))

    def _another(self) -> Steps:
        yield from self._connecting()
        client = self._like(self.base_url)
        client._core.join(self._core)
        yield from client._connecting()
        self._core.children.append(client.sync().close)
        return client

    def _like(self, base_url: str | None) -> Any:
        """Return another client with the same arguments, as far as the subclass takes them."""
        import inspect

        arguments = {"base_url": base_url, "mode": self._mode, **self._same}
        taken = inspect.signature(type(self)).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
            arguments = {name: value for name, value in arguments.items() if name in taken}
        return type(self)(**arguments)

    @classmethod
    def _bootstrap(cls, name: str, make: Callable[[], Host]) -> Any:
        """Start a server and return a connected client, now or when it is awaited."""
        line, call = Line(), Call(name, cls._starting(make))
        line.add(call)
        return Pending(line, call) if loop_runs() else line.run(call)

    @classmethod
    def _starting(cls, make: Callable[[], Host]) -> Steps:
        host = make()
        base_url = yield Work(partial(host.start, None), lambda base_url: host.stop())
        try:
            client = cls(base_url=base_url, provider=host.provider)
            yield from client._connecting()
        except BaseException:
            host.stop()
            raise
        return client
