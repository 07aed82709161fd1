"""A client that lists and calls tools."""

from __future__ import annotations

import logging
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import (
    EnvClosedError,
    OpenEnvError,
    SessionLostError,
    ToolError,
    ToolFailedError,
    ToolNotFoundError,
    ToolTimeoutError,
    UnsupportedError,
    ValidationError,
)
from ..models import (
    CallToolAction,
    ListToolsAction,
    ListToolsObservation,
    Observation,
    StepResult,
    Tool,
    ToolList,
)
from .compat import also_builtin
from .core import Steps
from .line import Work
from .parsing import parsed_result, tool_of, unwrapped
from .typed import EnvClient

if TYPE_CHECKING:
    import typing_extensions

    from .blocking import SyncToolClient
    from .rpc import Rpc

    ActT = typing_extensions.TypeVar("ActT", default=Any)
    ObsT = typing_extensions.TypeVar("ObsT", default=Any)
    StateT = typing_extensions.TypeVar("StateT", default=Any)
else:  # defaults came with Python 3.13
    ActT, ObsT, StateT = TypeVar("ActT"), TypeVar("ObsT"), TypeVar("StateT")

__all__ = ["MCPToolClient"]

_LOG = logging.getLogger("openenv_gym.client")
_KINDS: dict[str, type[OpenEnvError]] = {
    "tool_not_found": ToolNotFoundError,
    "execution_error": ToolFailedError,
    "timeout": ToolTimeoutError,
    "invalid_args": ValidationError,
}


class MCPToolClient(EnvClient[ActT, ObsT, StateT]):
    """A client of environments whose actions are tools.

    Without types it takes any action; a subclass may name them, as those of
    :class:`~openenv_gym.client.typed.EnvClient` do.

    With ``mode="simulation"`` a call of a tool is a step of the episode, and :attr:`last_result` has its
    reward. With ``mode="production"`` tools are reached at the server's ``/mcp`` (JSON-RPC over HTTP) as
    agents reach them: there is no ``reset`` and no ``step``, and nobody learns of rewards. A session that the
    server no longer knows, after a restart for instance, is opened again once, and a warning says that the
    environment's state is lost.

    Arguments, methods and errors are those of :class:`~openenv_gym.client.typed.EnvClient`. Where a server
    gives the state more fields than our ``State`` has, a subclass names its class; without, states are dicts.

    Attributes:
        last_result: What the last step returned; ``None``: there was none.
    """

    last_result: StepResult[ObsT] | None = None
    _tools: list[Tool] | None = None
    _session: str | None = None
    _rpc: Rpc | None = None

    def list_tools(self, use_cache: bool = True) -> ToolList:
        """Return the environment's tools, a list of :class:`~openenv_gym.models.Tool`.

        Args:
            use_cache: Whether what was learned last time will do.

        Raises:
            UnsupportedError: The environment has no tools.
            OpenEnvError: They cannot be had.
        """
        tools: ToolList = self._core.dispatch("list_tools()", self._listing(use_cache))
        return tools

    def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return what it returns.

        Args:
            name: Its name.
            arguments: Its arguments.

        Raises:
            ToolNotFoundError: There is no such tool.
            ValidationError: An argument is wrong.
            ToolFailedError: It raised.
            ToolTimeoutError: It did not return in time.
        """
        return self._core.dispatch(f"call_tool({name!r})", self._calling(name, arguments))

    def get_tool(self, name: str) -> Any:
        """Return the tool of that name, or ``None``."""
        return self._core.dispatch(f"get_tool({name!r})", self._getting(name))

    def has_tool(self, name: str) -> Any:
        """Return whether there is a tool of that name."""
        return self._core.dispatch(f"has_tool({name!r})", self._having(name))

    def close(self) -> Any:
        """End the session and those of :meth:`new_session`, and stop the server of a provider object."""
        return self._core.dispatch("close()", self._closing(), at_last=True)

    def sync(self) -> SyncToolClient[ActT, ObsT, StateT]:
        """Return the same client with methods that block, whether an event loop runs or not."""
        if self._sync is None:
            from .blocking import SyncToolClient

            self._sync = SyncToolClient(self)
        same: Any = self._sync
        return same  # type: ignore[no-any-return]

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        fields = payload.get("observation") or {}
        kind = Observation if "tools" in fields or "tool_name" in fields else None
        return parsed_result(self.observation_type or kind, payload)

    # -- flows

    def _listing(self, use_cache: bool) -> Steps:
        if use_cache and self._tools is not None:
            return ToolList(self._tools)
        if self.mode == "production":
            result = yield from self._method("tools/list", {})
            found = result.get("tools") if isinstance(result, dict) else None
            tools = [tool_of(tool) for tool in found or []]
        else:
            result = yield from super()._stepping(ListToolsAction(), {})
            if not isinstance(result.observation, ListToolsObservation):
                raise UnsupportedError("the environment has no tools; its steps take other actions")
            tools = result.observation.tools
        self._tools = tools
        return ToolList(tools)

    def _calling(self, name: str, arguments: dict[str, Any]) -> Steps:
        if self.mode == "production":
            params = {"name": name, "arguments": arguments}
            return _result_of(name, (yield from self._method("tools/call", params)))
        result = yield from self._stepping(CallToolAction(tool_name=name, arguments=arguments), {})
        observation = result.observation
        error = getattr(observation, "error", None)
        if error is None:
            return observation.result if hasattr(observation, "result") else observation
        kind = _KINDS.get(error.error_type, ToolError)
        details = {"path": "$.arguments"} if kind is ValidationError else {"tool": name}
        failure = kind(f"the tool {name!r} gave no result: {error.message}", server=self.base_url, **details)
        raise also_builtin(failure)

    def _getting(self, name: str) -> Steps:
        tools = yield from self._listing(True)
        return next((tool for tool in tools if tool.name == name), None)

    def _having(self, name: str) -> Steps:
        return (yield from self._getting(name)) is not None

    def _connecting(self) -> Steps:
        if self.mode != "production":
            return (yield from super()._connecting())
        yield from self._in_session()
        return self

    def _resetting(self, options: dict[str, Any]) -> Steps:
        self._tools = None
        return (yield from super()._resetting(options))

    def _stepping(self, action: Any, options: dict[str, Any]) -> Steps:
        self.last_result = yield from super()._stepping(action, options)
        return self.last_result

    def _closing(self) -> Steps:
        session, self._session = self._session, None
        if session is not None and self._rpc is not None:
            try:
                yield Work(partial(self._rpc.call, "openenv/session/close", {"session_id": session}))
            except OpenEnvError as exc:
                _LOG.debug("%s: the session was not closed in order: %s", self.base_url, exc)
        yield from super()._closing()

    # -- production mode

    def _in_session(self) -> Steps:
        if self._rpc is None:
            self._rpc = yield Work(self._core.rpc)
        if self._session is None:
            created = yield Work(partial(self._rpc.call, "openenv/session/create", {}), self._undo)
            self._session = created["session_id"]
        self._core.closed = False

    def _undo(self, created: Any) -> None:
        if self._rpc is not None:
            self._rpc.call("openenv/session/close", {"session_id": created["session_id"]})

    def _method(self, method: str, params: dict[str, Any]) -> Steps:
        if self._core.closed:
            raise EnvClosedError("the client was closed; connect() opens it again")
        try:
            return (yield from self._once(method, params))
        except SessionLostError as exc:
            self._session = None
            warnings.warn(
                f"{self.base_url} no longer knows the session, so the environment's state is lost, and a new"
                f" one was opened ({exc.message})",
                UserWarning,
                2,
            )
        except OpenEnvError as exc:
            raise also_builtin(exc) from exc.__cause__
        return (yield from self._once(method, params))

    def _once(self, method: str, params: dict[str, Any]) -> Steps:
        yield from self._in_session()
        assert self._rpc is not None
        return (yield Work(partial(self._rpc.call, method, {**params, "session_id": self._session})))


def _result_of(name: str, result: Any) -> Any:
    """Return what a tool returned, out of the result of ``tools/call``."""
    if isinstance(result, dict) and (result.get("is_error") or result.get("isError")):
        blocks = [block.get("text", "") for block in result.get("content", ()) if isinstance(block, dict)]
        raise also_builtin(ToolFailedError(f"the tool {name!r} failed: {' '.join(blocks)}", tool=name))
    return unwrapped(result)
