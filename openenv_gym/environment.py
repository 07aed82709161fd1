"""The base class of typed environments.

An author writes the types of action, observation and state, and two methods::

    class Guess(Action):
        number: Annotated[int, Meta(ge=1, le=100)]

    class Hint(Observation):
        text: Annotated[str, Meta(max_length=64)] = ""

    class GuessNumber(Environment[Guess, Hint, State]):
        def reset(self, *, seed=None, episode_id=None, **options):
            self.secret = int(self.np_random.integers(1, 101))
            return Hint("between 1 and 100")

        def step(self, action):
            if action.number == self.secret:
                return Hint("that is it", done=True, reward=1.0)
            return Hint("more" if action.number < self.secret else "less", reward=0.0)

``python -m openenv_gym.serve module:GuessNumber`` serves it to Gymnasium, to typed clients, to OpenEnv's
clients and, if it has tools, to MCP clients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import gymnasium as gym
import msgspec
import numpy as np

from .errors import ConfigError, UnsupportedError
from .models import Action, CallToolAction, ListToolsAction, Observation, State
from .rubrics import Rubric
from .tool_actions import call_tool, list_tools
from .tools import ToolTable, check_tool_names
from .tools.marking import marked

__all__ = ["Environment", "EnvironmentMetadata"]

_UNKNOWN = object()

ActionT = TypeVar("ActionT", bound=Action)
ObservationT = TypeVar("ObservationT", bound=Observation)
StateT = TypeVar("StateT", bound=State)


class EnvironmentMetadata(msgspec.Struct, kw_only=True):
    """What an environment says of itself.

    Attributes:
        name: Its name.
        description: What it is, in a sentence.
        version: Its version.
        author, documentation_url: Who made it, and where more is to be read.
        readme_content: Its README, in Markdown.
    """

    name: str
    description: str = ""
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None
    readme_content: str | None = None


class Environment(Generic[ActionT, ObservationT, StateT]):
    """An environment whose actions, observations and states are Structs.

    ``reset`` and ``step`` may be coroutine functions, and so may tools and rubrics: they run on an event loop
    of the environment's own, on its own thread.

    Attributes:
        action_type, observation_type, state_type: Read from the bases: ``Environment[Guess, Hint, State]``.
        metadata: Gymnasium's: ``render_modes``, ``render_fps``.
        concurrency_safe: Whether several may live in one process. If not, each session gets a process.
        rubric: Computes the rewards, over whatever ``step`` says; reset with the episode.
        transforms: Called in turn with each observation; return it, or another.
        tools: MCP servers whose tools are the environment's too.
        tool_timeout: How long a call of a tool may take unless the tool says otherwise, in seconds.
        action_space, observation_space: Spaces to use instead of those that are derived from the types; then
            :meth:`from_gym` and :meth:`to_gym` say what their values mean.
        render_mode: The mode it was made with.
    """

    action_type: ClassVar[Any] = Action
    observation_type: ClassVar[Any] = Observation
    state_type: ClassVar[Any] = State
    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    concurrency_safe: ClassVar[bool] = True
    rubric: Rubric | None = None
    transforms: Sequence[Callable[[Any], Any]] = ()
    tools: Sequence[Any] = ()
    tool_timeout: float = 30.0
    action_space: gym.Space[Any] | None = None
    observation_space: gym.Space[Any] | None = None
    render_mode: str | None = None

    _state: StateT | None = None
    _np_random: np.random.Generator | None = None
    _tool_table: Any = _UNKNOWN

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if isinstance(origin := get_origin(base), type) and issubclass(origin, Environment):
                names = ("action_type", "observation_type", "state_type")
                for name, kind in zip(names, get_args(base), strict=False):
                    if not isinstance(kind, TypeVar) and name not in cls.__dict__:
                        setattr(cls, name, kind)
        check_tool_names(cls)
        for name, mark in marked(cls):
            if hasattr(Environment, name):
                raise ConfigError(
                    f"{cls.__name__}.{name} is a tool and hides Environment.{name}; call the method something"
                    f" else: @tool(name={mark.name!r}) keeps the tool's name"
                )

    # -- what an author writes

    # Of a method that takes anything, type checkers let any signature be an override.
    def reset(self, *args: Any, **options: Any) -> Any:
        """Start an episode and return its first observation.

        Write it with the keyword arguments that it has::

            def reset(self, *, seed: int | None = None, level: int = 1) -> Hint: ...

        Args:
            args: Nothing is given by position.
            options: ``seed``, which :attr:`np_random` was seeded with; ``episode_id``, the name of the
                episode; whatever else the client gave. One that the signature lacks is an error that names
                it; ``episode_id`` is left out then.
        """
        if self.own_actions():
            raise UnsupportedError(f"{type(self).__name__} has no reset(); write one")
        return Observation()

    def step(self, action: Any) -> Any:
        """Carry out ``action`` and return an observation.

        This one lists and calls tools, and refuses everything else. An environment with actions of its own
        and tools passes on what it does not know: ``return super().step(action)``.
        """
        table = self.tool_table
        if isinstance(action, ListToolsAction) and table is not None:
            return list_tools(table)
        if isinstance(action, CallToolAction) and table is not None:
            return call_tool(table, action)
        known = "tools only" if table is not None else "no action at all"
        raise UnsupportedError(f"{type(self).__name__}.step() takes {known}, not {type(action).__name__}")

    def render(self) -> Any:
        """Return a picture of the episode: an ``(h, w, 3)`` uint8 array, a str ..."""
        raise UnsupportedError(f"{type(self).__name__} cannot be rendered")

    def close(self) -> Any:
        """Let go of what the environment holds."""

    def describe(self) -> EnvironmentMetadata:
        """Return what the environment says of itself."""
        doc = inspect.getdoc(type(self)) or ""
        inherited = inspect.getdoc(Environment)
        return EnvironmentMetadata(
            name=type(self).__name__, description="" if doc == inherited else doc.partition("\n\n")[0]
        )

    def from_gym(self, value: Any) -> Any:
        """Return the action that a value of :attr:`action_space` stands for, where that is given."""
        raise ConfigError(f"{type(self).__name__} has an action_space of its own; write from_gym(value)")

    def to_gym(self, observation: Any) -> Any:
        """Return an observation as a value of :attr:`observation_space`, where that is given."""
        raise ConfigError(
            f"{type(self).__name__} has an observation_space of its own; write to_gym(observation)"
        )

    # -- what it has

    @property
    def state(self) -> StateT:
        """Where the episode stands. ``episode_id`` and ``step_count`` are kept for you."""
        if self._state is None:
            try:
                self._state = self.state_type()
            except TypeError as exc:
                kind = self.state_type.__name__
                raise ConfigError(
                    f"{type(self).__name__} has no state yet, and none can be made: {kind}: {exc}; set"
                    " self.state in reset(), or give the fields defaults"
                ) from exc
        return self._state

    @state.setter
    def state(self, state: StateT) -> None:
        self._state = state

    @property
    def np_random(self) -> np.random.Generator:
        """Random numbers, seeded by ``reset(seed=...)`` before it is called."""
        if self._np_random is None:
            self._np_random = np.random.default_rng()
        return self._np_random

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self._np_random = generator

    @property
    def tool_table(self) -> ToolTable | None:
        """Its tools: decorated methods, and those of :attr:`tools`; ``None``: it has none."""
        if self._tool_table is _UNKNOWN:
            table = ToolTable(self, mounted=self.tools, timeout=self.tool_timeout)
            self._tool_table = table if len(table) or self.tools else None
        found: ToolTable | None = self._tool_table
        return found

    def own_actions(self) -> bool:
        """Return whether it takes other actions than calls of tools."""
        return self.action_type not in (Action, CallToolAction, CallToolAction | ListToolsAction)
