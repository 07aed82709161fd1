"""The blocking WebSocket channel that clients and server workers share."""

from .channel import Channel
from .endings import ChannelClosed, ChannelSilence
from .sockets import tune

__all__ = ["Channel", "ChannelClosed", "ChannelSilence", "tune"]
