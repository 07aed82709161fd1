"""Sessions of ``RemoteEnv``: on our servers by the binary protocol, on others by OpenEnv's JSON.

A foreign server says in ``GET /schema`` what actions and observations look like; spaces are made of that. It
has nothing to render and no attributes. A reward that it leaves out (``null``) is 0.0 here, and
``info["openenv"]["reward"]`` is ``None``; ``done`` without more is ``terminated``; metadata are the info.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import msgspec

from .client.jsonlink import JsonLink
from .client.links import Request
from .client.opening import JsonSpokenError, Opener
from .client.sync import Connection
from .errors import (
    ConfigError,
    ForbiddenError,
    InvalidActionError,
    OpenEnvError,
    RemoteProtocolError,
    UnsupportedError,
    ValidationError,
)
from .protocol import messages as m
from .protocol.columns import column_codec
from .protocol.specs import from_spec
from .protocol.values import unpack_ext

__all__ = ["ForeignConnection", "Translation", "open_session", "translation"]


class Translation(NamedTuple):
    """Spaces, and how their values travel."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    decode: Callable[[Any], Any]
    encode: Callable[[Any, str], Any]


def open_session(opener: Opener, *, patient: bool) -> Connection | ForeignConnection:
    """Return a new session. Arguments and errors are those of :meth:`.Opener.open`."""
    try:
        return opener.open(patient=patient)
    except JsonSpokenError:
        link = opener.take_json()
    try:
        if opener.hello.render_mode is not None:
            raise ConfigError(
                f"{opener.endpoint} speaks OpenEnv's JSON, which renders nothing; leave out render_mode"
            )
        return ForeignConnection(link, opener.fetch("/schema"), str(opener.endpoint))
    except BaseException:
        link.close()
        raise


def translation(connection: Connection | ForeignConnection) -> Translation:
    """Return spaces and codecs of a session."""
    if isinstance(connection, ForeignConnection):
        return connection.translation
    observation_space = from_spec(connection.welcome.observation_space)
    action_space = from_spec(connection.welcome.action_space)
    return Translation(
        observation_space,
        action_space,
        column_codec(observation_space).decode_one,
        column_codec(action_space, actions=True).encode_one,
    )


class ForeignConnection:
    """A session on a server that speaks OpenEnv's JSON, as :class:`.Connection` is one on ours.

    Args:
        link: The open session.
        schemas: What ``GET /schema`` answered.
        server: What errors call the server.

    Attributes:
        welcome: What our own server would have said.
        translation: Spaces, and how their values travel.

    Raises:
        RemoteProtocolError: There are no such schemas.
    """

    def __init__(self, link: JsonLink, schemas: Any, server: str) -> None:
        self._link = link
        self._server = server
        self.welcome = m.Welcome(session="", token=b"", target=server)
        self.translation = self._translation(schemas)

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return self._link.over

    @property
    def lock(self) -> threading.RLock:
        """Held during a call."""
        return self._link.lock

    def request(self, kind: type, *args: Any) -> Any:
        """Send a request and return the reply. An interrupt ends the session.

        Raises:
            UnsupportedError: The language has no such request.
            OpenEnvError: What the server reports, or how the session was lost.
        """
        if kind is m.Reset:
            return self._reset(*args)
        if kind is m.Step:
            return self._transition(self._ask(Request("step", args[0])))
        if kind is m.State:
            return m.Value(0, [self._ask(Request("state"))])
        if kind is m.Get:
            raise ForbiddenError(f"{self._server} speaks OpenEnv's JSON, which gives no access to attributes")
        name = kind.__name__.lower()
        raise UnsupportedError(f"{self._server} speaks OpenEnv's JSON, which has no {name!r}")

    def check(self) -> None:
        """Make sure, without a request, that the session still stands.

        Raises:
            SessionLostError: It does not.
        """
        if not self._link.ready():
            self._link.restore()

    def close(self) -> None:
        """End the session. Never raises."""
        self._link.close()

    def discard(self) -> None:
        """End the session without waiting. Never raises."""
        self._link.discard()

    def drop(self) -> None:
        """Close the connection; the session is over."""
        self._link.drop()

    # -- inside

    def _ask(self, request: Request) -> Any:
        with self._link.lock:
            try:
                self._link.post(request)
                return self._link.collect()
            except OpenEnvError:
                raise
            except BaseException:
                self._link.give_up()
                raise

    def _reset(self, seeds: list[Any] | None, options: Any) -> m.Observation:
        data = dict(_unpacked(options) or {})
        if seeds is not None:
            if "seed" in data:
                raise ValidationError("the seed is given twice, by itself and in options", path="$.seed")
            data["seed"] = _unpacked(seeds[0])
        payload = self._ask(Request("reset", data))
        return m.Observation(0, payload["observation"], [payload["metadata"]])

    def _transition(self, payload: Mapping[str, Any]) -> m.Transition:
        reward, info = payload["reward"], payload["metadata"]
        if reward is None:
            reward, info = 0.0, {**info, "openenv": {"reward": None}}
        flags = bytes([payload["terminated"] | payload["truncated"] << 1])
        return m.Transition(0, payload["observation"], [reward], flags, [info])

    def _translation(self, schemas: Any) -> Translation:
        from .forms import schema_form
        from .structs import BESIDE

        try:
            action = schema_form(schemas["action"], exclude={"metadata"})
            observation = schema_form(_observation_schema(schemas), exclude=BESIDE)
        except (LookupError, TypeError, AttributeError, ConfigError) as exc:
            raise RemoteProtocolError(
                f"{self._server}/schema does not say what actions and observations look like: {exc!r}",
                server=self._server,
            ) from exc

        def encode(value: Any, path: str) -> Any:
            if not action.space.contains(value):
                raise InvalidActionError(f"{path} {value!r:.200} is not in the action space {action.space}")
            return action.from_value(value)

        def decode(fields: Any) -> Any:
            try:
                return observation.to_value(fields)
            except ValidationError as exc:
                raise RemoteProtocolError(f"an observation does not fit the server's schema: {exc}") from exc

        return Translation(observation.space, action.space, decode, encode)


def _observation_schema(schemas: Any) -> Any:
    """Return what the observations of both ``reset`` and ``step`` meet.

    Servers may have a schema for each. That of environments whose steps are tool calls says that every
    observation has the tool's name, which those of ``reset`` lack.
    """
    step, reset = schemas["observation"], schemas.get("reset_observation")
    if not isinstance(step.get("properties"), dict):
        return step
    found = [step, reset] if isinstance(reset, dict) and isinstance(reset.get("properties"), dict) else [step]
    if "tool_name" in step["properties"]:
        found.append({"properties": {}})
    merged = {**step, "properties": {}, "$defs": {}}
    for schema in found:
        merged["$defs"] |= schema.get("$defs", {})
        for name, kind in schema["properties"].items():
            known = merged["properties"].setdefault(name, kind)
            if known != kind:
                merged["properties"][name] = {"anyOf": [known, kind]}
    needed = [set(schema.get("required", ())) for schema in found]
    merged["required"] = sorted(set.intersection(*needed))
    return merged


def _unpacked(value: Any) -> Any:
    """Return what was packed for the binary protocol."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), ext_hook=unpack_ext)
