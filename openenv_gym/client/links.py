"""A session as typed clients use it, whatever language is spoken.

What comes back for ``reset`` and ``step`` has the form of OpenEnv's JSON: ``observation`` (a map),
``reward``, ``done``, ``metadata``, and ours: ``terminated``, ``truncated``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..errors import RemoteProtocolError
from ..protocol import messages as m
from ..protocol.values import pack
from .split import SplitConnection

__all__ = ["BinaryLink", "Request", "payload_of"]

_TERMINATED, _TRUNCATED = 1, 2


class Request(Struct, frozen=True):
    """What a typed client asks.

    Attributes:
        kind: What.
        data: The keyword arguments of ``reset``, the fields of the action, or ``None``.
    """

    kind: Literal["reset", "step", "state"]
    data: Mapping[str, Any] | None = None


class BinaryLink:
    """A session over the binary protocol, with the face ``typed``.

    A lost connection is resumed, and what was sent is executed once.

    Args:
        connection: The open session.
    """

    def __init__(self, connection: SplitConnection) -> None:
        self._connection = connection
        self.span = connection.pulse.span

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return self._connection.over

    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._connection.connected()

    @property
    def due(self) -> float | None:
        """When the reply must be there (``time.monotonic()``)."""
        return self._connection.due

    def ready(self) -> bool:
        """Return, without waiting, whether the connection still stands, as far as one can tell."""
        return self._connection.stands()

    def restore(self) -> None:
        """Make sure that the session still stands; connect again if need be.

        Raises:
            OpenEnvError: It does not.
        """
        self._connection.check()

    def post(self, request: Request) -> None:
        """Send a request.

        Raises:
            ValueNotCarriedError: Something in it has no form on the wire; nothing was sent.
        """
        post, data = self._connection.post, request.data or {}
        match request.kind:
            case "step":
                post(m.Step, pack(data if type(data) is dict else dict(data), "action"))
            case "reset":
                options = dict(data)
                seed = options.pop("seed", None)
                packed = pack(options, "options") if options else None
                post(m.Reset, None if seed is None else [pack(seed, "seed")], packed)
            case "state":
                post(m.State)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something arrives."""
        return self._connection.fileno()

    def poll(self) -> bool:
        """Return, without waiting, whether :meth:`collect` has something to say."""
        return self._connection.poll()

    def collect(self, patience: float | None = None) -> Any:
        """Return the reply to the outstanding request.

        Args:
            patience: When to stop waiting (``time.monotonic()``).

        Raises:
            OpenEnvError: What the server reports, or how the session was lost.
            TimeoutError: ``patience`` is over; the request stays outstanding.
        """
        reply = self._connection.collect(patience)
        return reply.values[0] if type(reply) is m.Value else payload_of(reply)

    def give_up(self) -> None:
        """Wait no longer for the outstanding request: it is executed, and its reply is dropped."""
        self._connection.abandon()

    def close(self) -> None:
        """End the session. Never raises."""
        self._connection.abandon()
        self._connection.close()

    def discard(self) -> None:
        """End the session without waiting. Never raises."""
        self._connection.discard()

    def forget(self) -> None:
        """In a forked child: leave the connection to the parent."""
        self._connection.forget()


def payload_of(reply: Any) -> dict[str, Any]:
    """Return an ``observation`` or ``transition`` in the form of OpenEnv's JSON.

    Raises:
        RemoteProtocolError: It is none of a session with the face ``typed``.
    """
    rewards, flags, infos = reply.rewards, reply.flags or b"\0", reply.infos
    fields = reply.observations
    if not isinstance(fields, dict) or not isinstance(rewards, list | None) or len(flags) != 1:
        raise RemoteProtocolError("the reply is not one of a typed session; the server is faulty")
    terminated, truncated = bool(flags[0] & _TERMINATED), bool(flags[0] & _TRUNCATED)
    return {
        "observation": fields,
        "reward": rewards[0] if rewards else None,
        "done": terminated or truncated,
        "terminated": terminated,
        "truncated": truncated,
        "metadata": infos[0] if infos else {},
    }
