"""What a typed client says to its server, as flows: generators that yield what has to be waited for."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ..errors import EnvClosedError, OpenEnvError, ServerConnectionError, SessionLostError
from .compat import also_builtin
from .endpoint import Endpoint
from .hosting import Host
from .line import Call, Line, Reply, Work
from .links import BinaryLink, Request
from .opening import Opener
from .pending import Pending, loop_runs
from .settings import ClientSettings

if TYPE_CHECKING:
    from .jsonlink import JsonLink
    from .rpc import Rpc

__all__ = ["ClientCore", "Steps"]

_LOG = logging.getLogger("openenv_gym.client")
_PRINTED = logging.getLogger("openenv_gym.server")
#: Yields what has to be waited for, and returns a result.
Steps = Generator[Any, Any, Any]


class ClientCore:
    """The session of a typed client, opened when it is needed.

    Args:
        settings: The client's settings.
        host: Who runs the server, if a provider object does.
        target: What the server has to host.

    Attributes:
        settings: The client's settings.
        line: The client's calls.
        closed: Whether :meth:`closing` came last.
        children: Close what is closed together with this.
    """

    def __init__(self, settings: ClientSettings, host: Host | None, target: str | None) -> None:
        self.settings = settings
        self.line = Line()
        self.closed = False
        self.children: list[Callable[[], Any]] = []
        self._host = host
        self._target = target
        self._link: BinaryLink | JsonLink | None = None
        self._opener: Opener | None = None
        self._ending = ""
        self._before = False
        if host is None or settings.base_url is not None:
            self._opener = self._make_opener()
        _cores.add(self)

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the server is; ``None``: a provider has not said so yet."""
        return None if self._opener is None else self._opener.endpoint

    def dispatch(self, name: str, flow: Steps, *, at_last: bool = False) -> Any:
        """Carry out ``flow`` now, or return what is to be awaited if an event loop runs in this thread.

        Args:
            name: What errors and warnings call it.
            flow: What to do.
            at_last: Whether to carry it out even if nobody awaits it.
        """
        call = Call(name, flow)
        self.line.add(call)
        return Pending(self.line, call, at_last=at_last) if loop_runs() else self.line.run(call)

    def run(self, name: str, flow: Steps) -> Any:
        """Carry out ``flow`` now, and the calls that were made before."""
        call = Call(name, flow)
        self.line.add(call)
        return self.line.run(call)

    # -- flows

    def connecting(self) -> Steps:
        """Open a session, unless there is one."""
        link = self._link
        if link is not None and not link.over:
            try:
                if not link.ready():
                    yield Work(link.restore)
                self.closed = False
                return
            except (SessionLostError, ServerConnectionError) as exc:
                _LOG.warning("%s: a new session is opened, the old one is lost: %s", self, exc.message)
        yield from self._opening()

    def exchange(self, request: Request) -> Steps:
        """Send a request and return what comes back; ``reset`` opens a new session if the old one is lost.

        Raises:
            SessionLostError: The session is over.
            EnvClosedError: The client was closed.
        """
        if self.closed:
            raise EnvClosedError("the client was closed; connect() opens it again")
        if request.kind == "reset" or self._link is None:
            yield from self.connecting()
        link = self._link
        if link is None or link.over:
            raise SessionLostError(
                f"call reset() to start a new session; the last one ended: {self._ending}", server=str(self)
            )
        try:
            if not link.connected():
                yield Work(link.restore)
            link.post(request)
            return (yield Reply(link))
        except OpenEnvError as exc:
            self._note(exc, link)
            raise also_builtin(exc) from exc.__cause__
        except BaseException:
            link.give_up()
            self._ending = f"the last {request.kind} was given up, and its reply cannot be told from others"
            raise
        finally:
            if request.kind == "reset" or _PRINTED.isEnabledFor(logging.INFO):
                self.forward()

    def disconnecting(self) -> Steps:
        """End the session."""
        link, self._link = self._link, None
        if link is not None and not link.over:
            yield Work(link.close)

    def closing(self) -> Steps:
        """End this session and those of the children, and stop the server of a provider object."""
        children, self.children = self.children, []
        self.closed = True
        try:
            for close in children:
                yield Work(close)
            yield from self.disconnecting()
        except BaseException:
            self._stop_host()
            raise
        yield Work(self._stop_host)
        self.forward()

    def join(self, other: ClientCore) -> None:
        """Use the server of ``other``, whoever runs it and whatever it asks for."""
        if other._opener is not None:
            self._opener = other._opener.variant()

    def abandon(self) -> None:
        """End the session without waiting; called when nobody holds the client any more."""
        link = self._link
        if link is None or link.over or sys.is_finalizing():
            return
        link.discard()
        warnings.warn(f"a client of {self} was not closed; call close()", ResourceWarning, 3)

    def forward(self) -> None:
        """Log what environments of an embedded server printed."""
        if self._opener is not None:
            self._opener.forward()

    def after_fork(self) -> None:
        """In a forked child: leave the session to the parent."""
        self.line = Line()
        if self._link is not None:
            self._link.forget()
            self._ending = "it belongs to the process that this one was forked from"

    def __str__(self) -> str:
        return str(self.endpoint or "the server")

    # -- inside

    def _opening(self) -> Steps:
        try:
            self._link = yield Work(self._open, lambda link: link.discard())
        except OpenEnvError as exc:
            raise also_builtin(exc) from exc.__cause__
        finally:
            self.forward()
        self.closed, self._before, self._ending = False, True, ""

    def _open(self) -> BinaryLink | JsonLink:
        if self._opener is None:
            self._opener = self._make_opener(self._start_host())
        return self._opener.open_link(patient=self._before)

    def _make_opener(self, base_url: str | None = None) -> Opener:
        settings = self.settings
        if self._host is not None:
            settings = dataclasses.replace(
                settings, base_url=base_url or settings.base_url, token=settings.token or self._host.token
            )
        return Opener(settings, self._target, client="openenv_gym.client", face="typed", json=True)

    def rpc(self) -> Rpc:
        """Return JSON-RPC with the server, which is started if need be."""
        if self._opener is None:
            self._opener = self._make_opener(self._start_host())
        return self._opener.rpc()

    def _start_host(self) -> str:
        assert self._host is not None
        return self._host.start(self.settings.startup_timeout)

    def _stop_host(self) -> None:
        if self._host is not None:
            self._host.stop()
            if self._host.starts:
                self._opener = None

    def _note(self, exc: OpenEnvError, link: BinaryLink | JsonLink) -> None:
        if link.over:
            self._ending = str(exc).partition("\n")[0]


_cores: weakref.WeakSet[ClientCore] = weakref.WeakSet()


def _after_fork() -> None:
    for core in list(_cores):
        core.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
