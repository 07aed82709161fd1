"""A typed client whose methods block, whether an event loop runs or not."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..models import StepResult
from .pending import Pending, loop_runs

if TYPE_CHECKING:
    from ..models import Tool
    from .typed import EnvClient

__all__ = ["SyncEnvClient", "SyncToolClient"]

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """What :meth:`.EnvClient.sync` returns: the same session, with methods that block.

    Other attributes are those of the client. Its methods block as well, coroutine functions of subclasses
    included, which run on an event loop of their own.

    Args:
        client: The client.
    """

    def __init__(self, client: EnvClient[ActT, ObsT, StateT]) -> None:
        self._client = client

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        """The client itself."""
        return self._client

    def connect(self) -> Self:
        """Connect and open a session, unless there is one. See :meth:`.EnvClient.connect`."""
        self._client._core.run("connect()", self._client._connecting())
        return self

    def disconnect(self) -> None:
        """End the session. The next call opens a new one."""
        self._client._core.run("disconnect()", self._client._core.disconnecting())

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """Start an episode. See :meth:`.EnvClient.reset`."""
        result: StepResult[ObsT] = self._client._core.run("reset()", self._client._resetting(kwargs))
        return result

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        """Take a step. See :meth:`.EnvClient.step`."""
        result: StepResult[ObsT] = self._client._core.run("step()", self._client._stepping(action, kwargs))
        return result

    def state(self) -> StateT:
        """Return the environment's state."""
        state: StateT = self._client._core.run("state()", self._client._asking_state())
        return state

    def close(self) -> None:
        """End the session. See :meth:`.EnvClient.close`."""
        self._client._core.run("close()", self._client._closing())

    def new_session(self) -> Self:
        """Return another session on the same server. See :meth:`.EnvClient.new_session`."""
        client = self._client
        other: Self = client._core.run("new_session()", client._another()).sync()
        return other

    def sync(self) -> Self:
        """Return this client itself."""
        return self

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sync{repr(self._client)[1:]}"

    def __getattr__(self, name: str) -> Any:
        if name == "_client":
            raise AttributeError(name)
        found = getattr(self._client, name)
        if not inspect.ismethod(found):
            return found

        @wraps(found)
        def block(*args: Any, **kwargs: Any) -> Any:
            if inspect.iscoroutinefunction(found):
                return _run(partial(found, *args, **kwargs))
            result = found(*args, **kwargs)
            return result._now() if isinstance(result, Pending) else result

        return block


class SyncToolClient(SyncEnvClient[ActT, ObsT, StateT]):
    """What :meth:`.MCPToolClient.sync` returns: the same session, with methods that block, tools included."""

    # What a subclass of the client makes of these is found as its other methods are.
    if TYPE_CHECKING:
        last_result: StepResult[ObsT] | None

        def list_tools(self, use_cache: bool = True) -> list[Tool]:
            """Return the environment's tools."""

        def call_tool(self, name: str, /, **arguments: Any) -> Any:
            """Call a tool and return what it returns."""

        def get_tool(self, name: str) -> Tool | None:
            """Return the tool of that name, or ``None``."""

        def has_tool(self, name: str) -> bool:
            """Return whether there is a tool of that name."""


def _run(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return what a coroutine function returns, on an event loop of its own."""
    import asyncio

    if not loop_runs():
        return asyncio.run(make())
    outcome: list[Any] = []

    def body() -> None:
        try:
            outcome.extend((asyncio.run(make()), None))
        except BaseException as exc:
            outcome.extend((None, exc))

    thread = threading.Thread(target=body, name="openenv-client")
    thread.start()
    thread.join()
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]
