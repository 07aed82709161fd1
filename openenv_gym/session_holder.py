"""The session behind an env: opened, asked, and replaced once it is lost."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, NoReturn

from .client.attributes import RemoteAttributes
from .client.episode import INTERRUPTED, Episode, Obstacle
from .client.opening import Opener
from .client.sync import Connection
from .errors import (
    OpenEnvError,
    RemoteProtocolError,
    ResetNeededError,
    ServerConnectionError,
    SessionLostError,
)
from .foreign import ForeignConnection, open_session

__all__ = ["RESET_FAILED", "SessionHolder"]

RESET_FAILED: Obstacle = ResetNeededError, "the last reset() failed; call it again"
_LOG = logging.getLogger("openenv_gym.client")


class SessionHolder(RemoteAttributes):
    """Has a session, or is told why it has none."""

    _opener: Opener | None = None
    _connection: Connection | ForeignConnection | None = None
    _episode: Episode
    _closed: bool = False

    @property
    def base_url(self) -> str:
        """The server's address, without secrets."""
        return str(self._opener.endpoint) if self._opener is not None else ""

    def _ask(self, kind: type, *args: Any) -> Any:
        connection, episode, done = self._connection, self._episode, False
        if connection is None:
            self._refuse()
        try:
            with connection.lock:
                if episode.interrupted:
                    self._refuse()
                before = episode.live, episode.obstacle
                if kind in INTERRUPTED:
                    episode.live, episode.obstacle = False, INTERRUPTED[kind]
                try:
                    reply = connection.request(kind, *args)
                except BaseException as exc:
                    self._failed(exc, *before)
                    raise
                episode.live, episode.obstacle = before
                done = kind in INTERRUPTED
            return reply
        except BaseException:
            if done:  # an interrupt at the very end: nobody gets the result
                episode.live, episode.obstacle = False, INTERRUPTED[kind]
            raise

    @abstractmethod
    def _adopt(self, connection: Connection | ForeignConnection) -> None:
        """Take over what the server of a new session says of the environment."""

    def _standing(self) -> Connection | ForeignConnection:
        """Return a session, a new one if the old is lost."""
        if self._closed or self._opener is None:
            self._refuse()
        connection = self._connection
        if connection is not None and not connection.over:
            try:
                connection.check()
                return connection
            except (SessionLostError, ServerConnectionError) as exc:
                _LOG.warning(
                    "%s: a new session is opened, the old one is lost: %s", self.base_url, exc.message
                )
        self._connection = None
        self._episode.live, self._episode.obstacle = False, RESET_FAILED
        return self._open(patient=True)

    def _open(self, *, patient: bool) -> Connection | ForeignConnection:
        assert self._opener is not None
        connection = open_session(self._opener, patient=patient)
        try:
            self._adopt(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _refuse(self) -> NoReturn:
        kind, message = self._episode.obstacle
        raise kind(message)

    def _failed(self, exc: BaseException, live: bool, obstacle: Obstacle) -> None:
        """Note what a failed request means for the next ones; the rest is what holds if it was answered."""
        connection, episode = self._connection, self._episode
        if connection is not None and connection.over:
            self._connection, episode.live = None, False
            what = str(exc).partition("\n")[0]
            text = f"call reset() to start a new session; the last one ended: {what}"
            episode.obstacle = ResetNeededError, text
        elif isinstance(exc, OpenEnvError):
            episode.live, episode.obstacle = live, obstacle
        self._forward()

    def _malformed(self, exc: Exception) -> RemoteProtocolError:
        if self._connection is not None:
            self._connection.drop()
        self._connection, self._episode.live = None, False
        self._episode.obstacle = ResetNeededError, "the server sent a reply that cannot be read; call reset()"
        return RemoteProtocolError(
            f"{self.base_url} sent a reply that does not fit the protocol: {exc}", server=self.base_url
        )

    def _forward(self) -> None:
        if self._opener is not None:
            self._opener.forward()
