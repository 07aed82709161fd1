"""A typed environment as Gymnasium sees it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from .environment import Environment
from .errors import ConfigError, UnsupportedError, ValidationError
from .forms import form_of
from .models import Action, CallToolObservation, ListToolsAction, Observation
from .playing import Player, ending_of
from .structs import from_map, to_map
from .tools.actions import tools_form

__all__ = ["TypedEnv"]


class TypedEnv(gym.Env[Any, Any]):
    """A :class:`~openenv_gym.Environment` with the spaces that its types stand for.

    An action of a Struct with one field is that field's value, an observation likewise; otherwise both are
    dicts of the fields. An environment that only has tools takes calls of them (see
    :func:`~openenv_gym.tools.actions.tools_form`).

    A reward of ``None`` becomes 0.0, with ``info["openenv"]["reward"] = None``. ``info`` is the observation's
    ``metadata``. ``options`` of ``reset`` are further arguments of the environment's ``reset``.

    ``metadata["names"]`` gives the names behind integers that stand for ``Literal`` and ``Enum``.

    Public attributes and methods that a ``gymnasium.Env`` has not are those of the environment.

    Args:
        environment: The environment.
        limit: Steps after which an episode is truncated; 0: none.

    Attributes:
        player: What plays its episodes.
    """

    def __init__(self, environment: Environment[Any, Any, Any], limit: int = 0) -> None:
        player = Player(environment, limit)
        self.render_mode = environment.render_mode
        self.action_space, self._from_value, actions = _actions(environment)
        self.observation_space, self._to_value, observations = _observations(environment)
        self.metadata = dict(environment.metadata)
        names = {"action": actions, "observation": observations}
        if any(names.values()):
            self.metadata["names"] = {kind: found for kind, found in names.items() if found}
        self.player = player  # from here on other attributes are the environment's

    @property
    def environment(self) -> Environment[Any, Any, Any]:
        """The environment itself."""
        return self.player.environment

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            ValidationError: ``options`` is no dict, has a seed in it, or something that the environment's
                ``reset`` does not take.
        """
        if not isinstance(options, dict | None):
            raise ValidationError(f"options is a {type(options).__name__}; pass a dict", path="$")
        options = dict(options or {})
        if "seed" in options:
            raise ValidationError("options has a seed; pass it as reset(seed=...)", path="$.seed")
        super().reset(seed=seed)
        observation = self.player.reset(seed, options.pop("episode_id", None), options)
        return self._seen(observation), dict(observation.metadata)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action: a value of the action space, or an ``Action``.

        Raises:
            ValidationError: It is neither; ``details["path"]`` names the field.
            UnsupportedError: It asks for the tools, whose list is in no observation space.
        """
        if isinstance(action, ListToolsAction):
            raise UnsupportedError(
                "a list of tools is no observation here; env.environment.tool_table.list() returns it"
            )
        if isinstance(action, Action):
            known: Any = from_map(type(action), to_map(action))
        else:
            known = self._from_value(action)
        observation = self.player.step(known)
        reward, info = observation.reward, dict(observation.metadata)
        if reward is None:
            reward, info = 0.0, {**info, "openenv": {"reward": None}}
        return (self._seen(observation), reward, *ending_of(observation), info)

    def render(self) -> Any:
        """Return what the environment renders."""
        return self.environment.render()

    def close(self) -> None:
        """Close the environment."""
        self.player.close()

    def remote_state(self) -> dict[str, Any]:
        """Return where the episode stands, as :class:`~openenv_gym.RemoteEnv` does."""
        return to_map(self.player.state())

    def _seen(self, observation: Any) -> Any:
        """Return an observation as a value; one that will not do is the author's mistake."""
        try:
            return self._to_value(observation)
        except ValidationError as exc:
            name = type(self.environment).__name__
            raise ConfigError(
                f"{name} gave an observation that its type does not allow: {exc.message}"
            ) from exc

    def __getattr__(self, name: str) -> Any:
        player: Player | None = vars(self).get("player")
        if player is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(player.environment, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **kwargs: player.settle(found(*args, **kwargs))

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self)
        if name.startswith("_") or "player" not in own or name in own or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self.environment, name, value)


_Part = tuple[gym.Space[Any], Callable[[Any], Any], dict[str, list[str]]]


def _actions(environment: Environment[Any, Any, Any]) -> _Part:
    """Return the action space, what makes actions of its values, and the names in it."""
    if environment.action_space is not None:
        return environment.action_space, environment.from_gym, {}
    if not environment.own_actions():
        table = environment.tool_table
        if table is None:
            raise ConfigError(f"{type(environment).__name__} has no actions: name their type, or add tools")
        form = tools_form(table.list())
    else:
        form = form_of(environment.action_type)
    return form.space, form.from_value, form.names


def _observations(environment: Environment[Any, Any, Any]) -> _Part:
    """Return the observation space, what makes its values of observations, and the names in it."""
    if environment.observation_space is not None:
        return environment.observation_space, environment.to_gym, {}
    kind = environment.observation_type
    if kind is Observation and not environment.own_actions():
        form = form_of(CallToolObservation)

        def to_value(observation: Any) -> Any:
            """Take an observation that is none of a call, as a reset gives, for that of no call."""
            called = isinstance(observation, CallToolObservation)
            return form.to_value(observation if called else CallToolObservation(tool_name=""))

        return form.space, to_value, form.names
    form = form_of(kind)
    return form.space, form.to_value, form.names
