"""What ``/metadata``, ``/schema`` and the documents say of the environment."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec

import openenv_gym
from openenv_gym.errors import OpenEnvError
from openenv_gym.forms import space_form, space_schema
from openenv_gym.protocol.specs import from_spec
from openenv_gym.protocol.values import unpack_ext

from ..pool import QUESTION_WAIT, Pool
from ..settings import ServerSettings
from ..targets import Target
from .peer import Peer

__all__ = ["About", "visit"]

_LOG = logging.getLogger("openenv_gym.server")
_BESIDE = {
    "done": {"type": "boolean"},
    "reward": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}]},
    "metadata": {"type": "object"},
}


@contextlib.asynccontextmanager
async def visit(pool: Pool, settings: ServerSettings) -> AsyncIterator[Peer]:
    """Open a session for a question or two; it waits for a slot, but not long."""
    peer = await Peer.open(pool, patience=min(settings.slot_wait, QUESTION_WAIT))
    try:
        yield peer
    finally:
        try:
            await peer.close()
        except OpenEnvError as exc:  # the answer is none the worse for it
            _LOG.warning("closing the environment of a session raised: %s", exc)


class About:
    """Facts of the environment, in JSON's terms or nearly so.

    Args:
        pool: Builds an environment when the first question comes, unless a session described its own.
        settings: The server's settings.
        target: What is served.
    """

    def __init__(self, pool: Pool, settings: ServerSettings, target: Target) -> None:
        self._pool = pool
        self._settings = settings
        self._target = target

    async def name(self) -> str:
        """Return the environment's name."""
        return str((await self._facts())["own"]["name"])

    async def metadata(self) -> dict[str, Any]:
        """Return the environment's description of itself, and what the server knows of it.

        Raises:
            OpenEnvError: The environment could not be built.
        """
        facts = await self._facts()
        return {
            **facts["own"],
            "target": self._target.name,
            "taken_as": self._target.how,
            "server": f"openenv_gym {openenv_gym.__version__}",
            "mode": self._settings.mode,
            "metadata": facts.get("metadata"),
            "render_mode": facts.get("render_mode"),
            "spec": facts.get("spec"),
        }

    async def schemas(self) -> dict[str, Any]:
        """Return the JSON Schemas of ``action``, ``observation``, ``state``.

        Raises:
            OpenEnvError: The environment could not be built.
        """
        schemas = dict((await self._facts())["schemas"])
        schemas["observation"] = _with_what_travels_beside(schemas["observation"])
        return schemas

    async def spaces(self) -> dict[str, Any]:
        """Return the Gymnasium spaces as JSON, and JSON Schemas of their values."""
        facts = await self._facts()
        spaces = {kind: from_spec(facts[f"{kind}_space"]) for kind in ("action", "observation")}
        return {
            "spaces": {kind: space_form(space) for kind, space in spaces.items()},
            "values": {kind: space_schema(space) for kind, space in spaces.items()},
        }

    async def _facts(self) -> dict[str, Any]:
        packed = msgspec.msgpack.encode(await self._pool.describe())
        facts: dict[str, Any] = msgspec.msgpack.decode(packed, ext_hook=unpack_ext)
        return facts


def _with_what_travels_beside(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an observation with the fields that clients of OpenEnv look for in it."""
    if schema.get("type") != "object":
        return schema
    return {**schema, "properties": {**_BESIDE, **schema.get("properties", {})}}
