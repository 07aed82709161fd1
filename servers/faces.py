"""Environments as maps of fields: what a session shows whose client asked for the face ``typed``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4

import gymnasium as gym
import msgspec
from msgspec.structs import replace

from openenv_gym.environment import EnvironmentMetadata
from openenv_gym.errors import ResetNeededError, UnsupportedError, ValidationError
from openenv_gym.forms import space_schema, value_from_json
from openenv_gym.models import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    Observation,
    State,
    ToolError,
)
from openenv_gym.playing import Player, ending_of
from openenv_gym.structs import from_map, schema_of, to_map
from openenv_gym.tools import result_form
from openenv_gym.typed_env import TypedEnv

__all__ = ["Face", "Shown", "face_of"]

_TOOL_ACTIONS = {"list_tools": ListToolsAction, "call_tool": CallToolAction}


class Shown(msgspec.Struct):
    """An observation: its fields, and what travels beside them."""

    fields: dict[str, Any]
    reward: Any
    terminated: bool
    truncated: bool
    metadata: dict[str, Any]


class Face(Protocol):
    """An environment as a typed client sees it."""

    @property
    def has_tools(self) -> bool:
        """Whether it has tools."""
        ...

    def schemas(self) -> dict[str, Any]:
        """Return the JSON Schemas of ``action``, ``observation`` and ``state``."""
        ...

    def reset(self, seed: Any, options: dict[str, Any]) -> Shown:
        """Start an episode."""
        ...

    def step(self, action: Any) -> Shown:
        """Carry out the action that a map of fields stands for."""
        ...

    def state(self) -> dict[str, Any]:
        """Return where the episode stands."""
        ...

    def ask(self, topic: str, arguments: Mapping[str, Any]) -> Any:
        """Answer what is asked besides."""
        ...

    def patience(self, tool: str, asked: Any) -> float | None:
        """Return how many seconds a call of ``tool`` may take if ``asked`` are asked for; ``None``: any."""
        ...


def face_of(env: gym.Env[Any, Any], name: str) -> Face:
    """Return the face of an environment that is served under ``name``."""
    inner = env.unwrapped
    return _StructFace(inner.player) if isinstance(inner, TypedEnv) else _SpaceFace(env, name)


class _StructFace:
    """A typed environment."""

    def __init__(self, player: Player) -> None:
        environment = player.environment
        self._player = player
        self.has_tools = player.has_tools
        self._actions: Any = environment.action_type if environment.own_actions() else CallToolAction

    def schemas(self) -> dict[str, Any]:
        """See :class:`Face`."""
        environment = self._player.environment
        action = environment.action_type
        observation = environment.observation_type
        if not environment.own_actions():
            action, observation = CallToolAction | ListToolsAction, CallToolObservation
        return {
            "action": schema_of(action),
            "observation": schema_of(observation),
            "state": schema_of(environment.state_type),
        }

    def reset(self, seed: Any, options: dict[str, Any]) -> Shown:
        """See :class:`Face`."""
        options = dict(options)
        return _shown(self._player.reset(seed, options.pop("episode_id", None), options))

    def step(self, action: Any) -> Shown:
        """See :class:`Face`."""
        return _shown(self._player.step(self._action(action)))

    def state(self) -> dict[str, Any]:
        """See :class:`Face`."""
        return to_map(self._player.state())

    def ask(self, topic: str, arguments: Mapping[str, Any]) -> Any:
        """See :class:`Face`."""
        return self._player.ask(topic, arguments)

    def patience(self, tool: str, asked: Any) -> float | None:
        """See :class:`Face`."""
        table = self._player.environment.tool_table
        valid = isinstance(asked, int | float) and not isinstance(asked, bool) and asked > 0
        return None if table is None else table.timeout_of(tool, asked if valid else None)

    def _action(self, action: Any) -> Any:
        """Return the action; the form of a tool's is only taken where there are tools."""
        if type(action) is not dict and not isinstance(action, Mapping):
            raise ValidationError(f"an action is an object, not {type(action).__name__}", path="$")
        kind = None
        if self.has_tools:
            named = action.get("type")
            kind = _TOOL_ACTIONS.get(named) if isinstance(named, str) else None
        return from_map(kind or self._actions, action)


def _shown(observation: Observation) -> Shown:
    if isinstance(observation, CallToolObservation) and observation.error is None:
        observation = _told(observation)
    fields = to_map(observation)
    return Shown(fields, observation.reward, *ending_of(observation), observation.metadata)


def _told(observation: CallToolObservation) -> CallToolObservation:
    """Return the observation with the result in the form that agents get, or with why it has none."""
    form = result_form(observation.result)
    if not form["is_error"]:
        return replace(observation, result=form)
    error = ToolError(error_type="execution_error", message=form["content"][0]["text"])
    return replace(observation, result=None, error=error)


class _SpaceFace:
    """A plain Gymnasium environment: ``{"action": value}``, ``{"observation": value}``, or a dict itself.

    Args:
        env: The environment.
        name: What it is served as.
    """

    has_tools = False

    def __init__(self, env: gym.Env[Any, Any], name: str) -> None:
        self._env = env
        self._name = name
        self._episode: State | None = None
        self._bare = {
            kind: not isinstance(space, gym.spaces.Dict)
            or not all(isinstance(key, str) for key in space.spaces)
            for kind, space in (("action", env.action_space), ("observation", env.observation_space))
        }

    def schemas(self) -> dict[str, Any]:
        """See :class:`Face`."""
        schemas = {"action": self._schema("action"), "observation": self._schema("observation")}
        return {**schemas, "state": schema_of(State)}

    def reset(self, seed: Any, options: dict[str, Any]) -> Shown:
        """See :class:`Face`; what is left of the options are Gymnasium's."""
        options = dict(options)
        if isinstance(options.get("options"), dict):  # as with gymnasium.Env.reset; it would be one of them
            names = ", ".join(f"{name}=..." for name in options["options"])
            raise ValidationError(
                f"$.options: give a Gymnasium environment its options by themselves: reset({names})",
                path="$.options",
            )
        episode_id = options.pop("episode_id", None) or uuid4().hex
        self._episode = None
        observation, info = self._env.reset(seed=seed, options=options or None)
        self._episode = State(episode_id=episode_id)
        return Shown(self._fields(observation), None, False, False, info)

    def step(self, action: Any) -> Shown:
        """See :class:`Face`."""
        if self._episode is None:
            raise ResetNeededError("there is no episode; call reset() before step()")
        observation, reward, terminated, truncated, info = self._env.step(self._action(action))
        self._episode.step_count += 1
        return Shown(self._fields(observation), reward, bool(terminated), bool(truncated), info)

    def state(self) -> dict[str, Any]:
        """See :class:`Face`."""
        return to_map(self._episode or State())

    def ask(self, topic: str, arguments: Mapping[str, Any]) -> Any:
        """See :class:`Face`; there is nothing but ``metadata``."""
        if topic != "metadata":
            raise UnsupportedError(f"{self._name} is a plain Gymnasium environment: it has no {topic!r}")
        doc = (type(self._env.unwrapped).__doc__ or "").strip()
        return to_map(EnvironmentMetadata(name=self._name, description=doc.partition("\n\n")[0]))

    def patience(self, tool: str, asked: Any) -> float | None:
        """See :class:`Face`."""
        return None

    def _schema(self, kind: str) -> dict[str, Any]:
        schema = space_schema(getattr(self._env, f"{kind}_space"))
        if not self._bare[kind]:
            return schema
        return {
            "type": "object",
            "properties": {kind: schema},
            "required": [kind],
            "additionalProperties": False,
        }

    def _fields(self, observation: Any) -> dict[str, Any]:
        return {"observation": observation} if self._bare["observation"] else dict(observation)

    def _action(self, action: Any) -> Any:
        if not isinstance(action, Mapping):
            raise ValidationError(f"an action is an object, not {type(action).__name__}", path="$")
        action = {name: value for name, value in action.items() if name != "metadata"}
        if not self._bare["action"]:
            return value_from_json(self._env.action_space, action)
        if set(action) != {"action"}:
            path = "$.action" if "action" not in action else f"$.{next(n for n in action if n != 'action')}"
            raise ValidationError(
                f"an action is an object with the one field 'action', not {list(action)}", path=path
            )
        return value_from_json(self._env.action_space, action["action"], where="$.action")
