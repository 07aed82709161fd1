"""What the server knows of how quick environments are: one worker tries one of a kind for all others."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from openenv_gym.protocol.codec import Greeting

__all__ = ["Paces"]

_MOST_KINDS = 1024


class Paces:
    """Remembers, by constructor arguments, whether lanes are slow; see :mod:`.probe`.

    All methods run on the server's event loop.

    Args:
        needed: Whether it matters: it does not where the number of lane threads is set.
    """

    def __init__(self, needed: bool) -> None:
        self._needed = needed
        self._kinds: dict[bytes, asyncio.Future[bool | None]] = {}
        self._trying: dict[str, bytes] = {}

    async def of(self, hello: Greeting) -> bool | None:
        """Return whether the lanes of a session are slow; ``None``: its worker has to try, if it matters.

        Waits while another worker tries.
        """
        if not self._needed or hello.lanes == 1 or hello.native or hello.limits.threads:
            return None
        kind = hashlib.blake2b(msgspec.msgpack.encode([hello.env_kwargs, hello.render_mode])).digest()
        while (known := self._kinds.get(kind)) is not None:
            if (slow := await asyncio.shield(known)) is not None:
                return slow
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds = {kind: self._kinds[kind] for kind in self._trying.values()}
        self._kinds[kind] = asyncio.get_running_loop().create_future()
        self._trying[hello.session] = kind
        return None

    def trying(self, session: str) -> bool:
        """Return whether a session's worker has to try an environment and has not said what it found."""
        return session in self._trying

    def measured(self, session: str, slow: bool) -> None:
        """Note what the worker of a session found."""
        kind = self._trying.pop(session, None)
        if kind is not None:
            self._kinds[kind].set_result(slow)

    def ended(self, session: str) -> None:
        """Let another one try, if this session was to and has ended."""
        kind = self._trying.pop(session, None)
        if kind is not None:
            self._kinds.pop(kind).set_result(None)
