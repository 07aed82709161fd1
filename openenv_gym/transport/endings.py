"""How a channel ends, or seems to."""

from __future__ import annotations

from ..errors import ServerConnectionError, ServerTimeoutError

__all__ = ["ChannelClosed", "ChannelSilence", "lost", "said_goodbye"]


class ChannelClosed(ServerConnectionError):
    """The connection has ended.

    Attributes:
        close_code: What the peer's close frame said; 1005: nothing; 1006: there was no close frame.
        reason: The text that came with it, or what the system said.
    """

    @property
    def close_code(self) -> int:
        """Return the code in the peer's close frame."""
        return int(self.details.get("close_code", 1006))

    @property
    def reason(self) -> str:
        """Return the text that came with the code."""
        return str(self.details.get("reason", ""))


class ChannelSilence(ServerTimeoutError):
    """The peer is silent: nothing at all arrived, or it took nothing, for the time allowed."""


def lost(exc: OSError | None = None) -> ChannelClosed:
    """Return the error for a connection that ended without a close frame."""
    reason = "it ended without a close frame" if exc is None else exc.strerror or str(exc)
    return ChannelClosed(f"the connection is lost: {reason}; connect again", close_code=1006, reason=reason)


def said_goodbye(code: int, reason: str) -> ChannelClosed:
    """Return the error for a connection that the peer closed."""
    text = f" ({reason})" if reason else ""
    return ChannelClosed(
        f"the peer closed the connection with code {code}{text}; connect again",
        close_code=code,
        reason=reason,
    )
