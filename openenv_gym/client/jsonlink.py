"""A session over OpenEnv's JSON: text frames, one reply to each message, in order, without ids.

There is nothing to resume: with the connection the session is gone. A reply that nobody waits for any more
cannot be told from the next one, so a request that is given up takes the connection along.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any

import msgspec

from ..errors import (
    CapacityError,
    ConstructionError,
    DeadlineExceededError,
    LocalProtocolError,
    MessageTooLargeError,
    OpenEnvError,
    ProtocolError,
    RemoteEnvironmentError,
    RemoteProtocolError,
    ServerConnectionError,
    SessionLostError,
    UnsupportedError,
    ValidationError,
    from_wire,
)
from ..structs.maps import jsonable
from ..transport.texts import TextChannel
from .attending import attend_to
from .deadline import deadline_in, earliest
from .links import Request
from .pulse import Pulse

__all__ = ["JsonLink", "error_from_json", "number"]

_DECODE = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode
#: The type of the reply that each request asks for.
_ANSWERS = {"reset": "observation", "step": "observation", "state": "state"}
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonLink:
    """A session with a server that speaks OpenEnv's JSON.

    Args:
        channel: The open connection.
        server: What errors call the server.
        timeout: For how many seconds a reply is waited for; ``None``: as long as it takes.
        keepalive: ``(interval, timeout)`` in seconds, or ``None``.

    Attributes:
        over: Whether the session has ended.
        span: For how many seconds at most :meth:`poll` need not be called.
        due: When the outstanding reply must be there (``time.monotonic()``).
        lock: Held while something is sent or received.
    """

    def __init__(
        self,
        channel: TextChannel,
        server: str,
        *,
        timeout: float | None,
        keepalive: tuple[float, float] | None,
    ) -> None:
        self.over = False
        self.due: float | None = None
        self._channel = channel
        self._server = server
        self._timeout = timeout
        self._keepalive = keepalive
        self._pulse = Pulse(keepalive)
        self.span = self._pulse.span
        self._asked: str | None = None
        self.lock = threading.RLock()
        attend_to(self)

    def connected(self) -> bool:
        """Whether there is a connection; without one :meth:`collect` says how it ended, at once."""
        return True

    def ready(self) -> bool:
        """Return, without waiting, whether the connection still stands, as far as one can tell."""
        with self.lock:
            return not self.over and self._channel.attend() >= 0

    def restore(self) -> None:
        """Say that the session is gone, since nothing restores it.

        Raises:
            SessionLostError: Always.
        """
        self.drop()
        raise SessionLostError(
            "the connection was lost, and with it the session; reset() starts a new one", server=self._server
        )

    def post(self, request: Request) -> None:
        """Send a request.

        Raises:
            ValueNotCarriedError: Something in it has no form in JSON; nothing was sent.
        """
        message: dict[str, Any] = {"type": request.kind}
        if request.kind != "state":
            message["data"] = jsonable(dict(request.data or {}), "$")
        with self.lock:
            self.due = deadline_in(self._timeout)
            self._asked = request.kind
            try:
                self._channel.send(_text(message))
            except ServerConnectionError:
                pass  # the channel says so again when it is asked for the reply, unless there are last words

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something arrives."""
        return self._channel.fileno()

    def poll(self) -> bool:
        """Return, without waiting, whether :meth:`collect` has something to say."""
        with self.lock:
            if self._channel.attend() != 0:
                return True
            if self._pulse.gone(self._channel):
                self._channel.abort()
                return True
            return False

    def attend(self) -> None:
        """Answer the server's pings while nothing is asked. For another thread."""
        if self._asked is None and not self.over and self.lock.acquire(blocking=False):
            try:
                if self._asked is None and not self.over:
                    self._channel.attend()
            finally:
                self.lock.release()

    def collect(self, patience: float | None = None) -> Any:
        """Return the reply to the outstanding request.

        Args:
            patience: When to stop waiting (``time.monotonic()``).

        Raises:
            OpenEnvError: What the server reports, or how the session was lost.
            TimeoutError: ``patience`` is over; the request stays outstanding.
        """
        with self.lock:
            if self._asked is None:
                raise LocalProtocolError("no request is outstanding; post() one first")
            try:
                data = self._receive(patience)
            except TimeoutError:
                raise
            except MessageTooLargeError:
                self._asked = None
                raise
            except ServerConnectionError as exc:
                self.drop()
                raise self._lost(exc) from exc
            except BaseException:
                self.drop()
                raise
            asked, self._asked = self._asked, None
            return self._reply(asked, data)

    def give_up(self) -> None:
        """Wait no longer for the outstanding reply; that ends the session."""
        if self._asked is not None:
            self.drop()

    def close(self) -> None:
        """End the session. Never raises."""
        with self.lock:
            if not self.over and self._asked is None:
                try:
                    self._channel.send_timeout = 1.0
                    self._channel.send(_text({"type": "close"}))
                except OpenEnvError:
                    pass
            self.over = True
            self._channel.close()

    def discard(self) -> None:
        """End the session without waiting. Never raises."""
        self.drop()

    def drop(self) -> None:
        """Close the connection; the session is over."""
        self.over, self._asked = True, None
        self._channel.abort()

    def forget(self) -> None:
        """In a forked child: leave the connection to the parent."""
        self.lock = threading.RLock()
        self.drop()

    # -- inside

    def _receive(self, patience: float | None) -> bytes | bytearray:
        """Receive a message; a silent peer is asked for a sign of life meanwhile."""
        while True:
            self.poll()
            now = monotonic()
            try:
                return self._channel.recv(earliest(now + self.span, self.due, patience))
            except TimeoutError:
                now = monotonic()
                if self.due is not None and self.due <= now:
                    raise self._overdue() from None
                if patience is not None and patience <= now:
                    raise

    def _reply(self, asked: str, text: bytes | bytearray) -> Any:
        try:
            message = _DECODE(text)
            kind, data = message["type"], message.get("data")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, TypeError, LookupError) as exc:
            raise self._malformed(f"it is no message of OpenEnv's JSON ({exc!r})") from exc
        if kind == "error":
            error, ended = error_from_json(data, self._server)
            if ended:
                self.drop()
            raise error
        if kind != _ANSWERS[asked] or not isinstance(data, dict):
            raise self._malformed(f"{kind!r} does not answer {asked!r}")
        return data if asked == "state" else self._payload(data)

    def _payload(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return an observation with everything that a server may leave out."""
        observation, done = data.get("observation"), data.get("done") or False
        if not isinstance(observation, dict) or type(done) is not bool:
            raise self._malformed("an observation is no object, or 'done' is neither true nor false")
        metadata = data.get("metadata")
        if metadata is None:
            metadata = observation.get("metadata")
        truncated = bool(data.get("truncated", False))
        return {
            **data,
            "observation": {key: value for key, value in observation.items() if key != "metadata"},
            "reward": number(data.get("reward")),
            "done": done,
            "terminated": bool(data.get("terminated", done and not truncated)),
            "truncated": truncated,
            "metadata": metadata if isinstance(metadata, dict) else {},
        }

    def _malformed(self, what: str) -> RemoteProtocolError:
        self.drop()
        text = f"{self._server} sent something else than a reply: {what}"
        return RemoteProtocolError(text, server=self._server)

    def _overdue(self) -> DeadlineExceededError:
        return DeadlineExceededError(
            f"{self._asked} was not answered within {self._timeout:g} s, and the session is over, since a"
            " late answer could not be told from the next one; message_timeout_s (step_timeout) allows more",
            server=self._server,
            operation=self._asked,
            deadline=self._timeout,
        )

    def _lost(self, exc: ServerConnectionError) -> SessionLostError:
        text = (
            f"the connection was lost ({exc.details.get('reason') or exc.message}), and with it the session;"
            " reset() starts a new one"
        )
        if exc.details.get("reason") == "closed here" and self._keepalive is not None:
            text = (
                f"{self._server} gave no sign of life within {sum(self._keepalive):g} s; reset() starts a new"
                " session. If something in between drops WebSocket pings, switch them off:"
                " websocket_ping_interval_s=None (keepalive=None)"
            )
        return SessionLostError(text, server=self._server)


def error_from_json(data: Any, server: str) -> tuple[OpenEnvError, bool]:
    """Return the error in an ``error`` message, and whether the session has ended with it.

    Our own servers add ``error`` and ``details``, the code and facts of the binary protocol.
    """
    data = data if isinstance(data, Mapping) else {}
    code, message = str(data.get("code", "")), str(data.get("message", "the server gave no reason"))
    ended = code in ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
    details = data.get("details")
    if isinstance(data.get("error"), str) and isinstance(details, dict):
        return from_wire(data["error"], message, details, server=server), ended
    if code == "CAPACITY_REACHED":
        slots = {"active": data.get("active_sessions"), "max": data.get("max_sessions")}
        return CapacityError(message, server=server, **slots), ended
    if code == "VALIDATION_ERROR":
        return _invalid(message, data.get("errors"), server), ended
    if code == "EXECUTION_ERROR":
        return RemoteEnvironmentError(message, server=server), ended
    if code == "FACTORY_ERROR":
        return ConstructionError(message, server=server), ended
    if code == "SESSION_ERROR":
        return SessionLostError(f"{message}; reset() starts a new session", server=server), ended
    if code == "UNKNOWN_TYPE":
        return UnsupportedError(message, server=server), ended
    return ProtocolError(f"the server refused a message: {message} ({code})", server=server), ended


def number(value: Any) -> Any:
    """Return a reward; numbers that JSON lacks are spelled ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


def _invalid(message: str, errors: Any, server: str) -> ValidationError:
    """Return the error for a list of errors as pydantic writes them."""
    found = [error for error in errors or [] if isinstance(error, dict)] if isinstance(errors, list) else []
    if not found:
        return ValidationError(message, server=server, path="$")
    paths = ["$" + "".join(_place(step) for step in error.get("loc", ())) for error in found]
    said = "; ".join(f"{path}: {error.get('msg', 'wrong')}" for path, error in zip(paths, found, strict=True))
    return ValidationError(f"{message}: {said}", server=server, path=paths[0])


def _place(step: Any) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _text(message: Any) -> bytes:
    try:
        return _ENCODE(message)
    except UnicodeEncodeError:  # a text with lone surrogates, which JSON can escape and UTF-8 cannot hold
        import json

        return json.dumps(message, separators=(",", ":")).encode()
