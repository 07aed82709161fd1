"""Plays the episodes of a typed environment: what surrounds an author's ``reset`` and ``step``.

A player keeps the books of the episode, runs coroutines, applies transforms and the rubric, and answers what
is asked of the environment besides. Its methods are all called on the environment's thread.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from msgspec.structs import replace

from .environment import Environment, EnvironmentMetadata
from .errors import ConfigError, ResetNeededError, ToolNotFoundError, UnsupportedError, ValidationError
from .models import CallToolAction, CallToolObservation, ListToolsAction, Observation, State
from .reset_options import ResetOptions
from .rubrics import Rubric, TrajectoryRubric
from .structs import check_readable, from_map
from .tools import error_form, result_form

__all__ = ["Player", "ending_of"]


_REWARDS = (float, int, type(None))
_USUAL = (bool, bool, bool)
_FLAGS: dict[str, tuple[type, ...]] = {
    "done": (bool, np.bool_),
    "terminated": (bool, np.bool_),
    "truncated": (bool, np.bool_),
    "metadata": (dict,),
}
_NOT_BEGUN = "there is no episode; call reset() before step()"
_OVER = "the episode is over; call reset() to begin another"


def ending_of(observation: Observation) -> tuple[bool, bool]:
    """Return whether the episode terminated and whether it was truncated."""
    truncated = bool(observation.truncated)
    return bool(observation.terminated or (observation.done and not truncated)), truncated


class Player:
    """One environment and its episodes.

    Args:
        environment: The environment.
        limit: Steps after which an episode is truncated; 0: none.

    Raises:
        ConfigError: It is none, something that its author set is of the wrong kind, or its type of actions
            or the signature of its ``reset`` says what cannot be checked.
    """

    def __init__(self, environment: Environment[Any, Any, Any], limit: int = 0) -> None:
        _check(environment)
        check_readable(environment.action_type)
        self.environment = environment
        if environment.rubric is not None and "rubric" not in vars(environment):
            environment.rubric = copy.deepcopy(environment.rubric)  # the class's is everybody's
        self._limit = limit
        self._steps = 0
        #: Why there can be no step; ``None``: there can.
        self._obstacle: str | None = _NOT_BEGUN
        self._loop: asyncio.Runner | None = None
        self._keeps_state = type(environment).state is Environment.state
        self._makes_state = self._keeps_state and not _required_fields(environment.state_type)
        self._reset = getattr(environment, "reset_async", environment.reset)
        self._step = getattr(environment, "step_async", environment.step)
        self._options = ResetOptions(self._reset)

    @property
    def has_tools(self) -> bool:
        """Whether the environment has tools."""
        return self.environment.tool_table is not None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, options: Mapping[str, Any] | None = None
    ) -> Any:
        """Start an episode and return its first observation.

        Raises:
            ValidationError: The environment's ``reset`` takes no such option, or no seed; the value of an
                option does not fit its annotation; the seed or the name of the episode is none.
        """
        _check_named(seed, episode_id)
        episode_id = episode_id or uuid.uuid4().hex
        arguments = self._options.bind(seed, episode_id, options or {})
        environment, self._obstacle = self.environment, _NOT_BEGUN
        if seed is not None:
            environment.np_random, _ = gym.utils.seeding.np_random(seed)
        if self._keeps_state:
            environment._state = None
            if self._makes_state:
                environment.state = environment.state_type(episode_id=episode_id)
        if environment.rubric is not None:
            environment.rubric.reset()
        observation = self._checked(self.settle(self._reset(**arguments)), "reset")
        if self._keeps_state and self.state().episode_id is None:
            environment.state.episode_id = episode_id
        self._obstacle, self._steps = None, 0
        return self._transformed(observation)

    def step(self, action: Any) -> Any:
        """Carry out an action and return the observation.

        Raises:
            ResetNeededError: There is no episode, or it is over. The first call of a tool begins one.
        """
        environment = self.environment
        if self._obstacle is _NOT_BEGUN and isinstance(action, CallToolAction | ListToolsAction):
            self.reset()
        if self._obstacle is not None:
            raise ResetNeededError(self._obstacle)
        before = self.state().step_count if self._keeps_state else 0
        observation = self._checked(self.settle(self._step(action)), "step")
        self._steps += 1
        if self._keeps_state and (state := self.state()).step_count == before:
            state.step_count = before + 1
        if self._limit and self._steps >= self._limit:
            observation = replace(observation, truncated=True)  # the author may keep this one
        if environment.transforms:
            observation = self._transformed(observation)
        if True in ending_of(observation):
            self._obstacle = _OVER
        if environment.rubric is not None and not isinstance(action, ListToolsAction):
            observation = self._scored(action, observation)
        return observation

    def state(self) -> Any:
        """Return where the episode stands."""
        state = self.environment.state
        if not isinstance(state, State):
            raise ConfigError(f"{self._name}.state is a {type(state).__name__}, not a State")
        return state

    def ask(self, topic: str, arguments: Mapping[str, Any]) -> Any:
        """Answer what is asked besides; the topics stand in ``protocol.messages.Ask``.

        Raises:
            UnsupportedError: The environment has nothing to say on the topic.
            ValidationError: An argument is missing, or there is one too many.
        """
        answer = _TOPICS.get(topic)
        if answer is None:
            raise UnsupportedError(f"nothing is known of {topic!r}; there are {', '.join(_TOPICS)}")
        names, method = answer
        for name in (name for name in names if not name.endswith("?") and name not in arguments):
            raise ValidationError(f"{topic}: the argument {name!r} is missing", path=f"$.{name}")
        known = {name.rstrip("?") for name in names}
        for name in arguments:
            if name not in known:
                raise ValidationError(f"{topic}: there is no argument {name!r}", path=f"$.{name}")
        return method(self, **arguments)

    def close(self) -> None:
        """Close the environment, and what it had running."""
        try:
            close: Callable[[], Any] = self.environment.close
            self.settle(close())
        finally:
            table = self.environment.tool_table
            if table is not None:
                table.close()
            if self._loop is not None:
                self._loop.close()

    def settle(self, result: Any) -> Any:
        """Return ``result``; of an awaitable, what it comes to on the environment's loop.

        Raises:
            UnsupportedError: A loop runs in this thread already; nothing was executed.
        """
        if isinstance(result, Observation) or not inspect.isawaitable(result):
            return result
        if _loop_runs():
            if inspect.iscoroutine(result):
                result.close()
            raise UnsupportedError(
                f"{self._name} has coroutines, and an event loop runs in this thread: use it in another one"
                " (asyncio.to_thread), or as a remote environment"
            )
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(_waiting(result))

    # -- inside

    @property
    def _name(self) -> str:
        return type(self.environment).__name__

    def _checked(self, observation: Any, method: str) -> Observation:
        if not isinstance(observation, Observation):
            raise ConfigError(
                f"{self._name}.{method}() returned a {type(observation).__name__}; return an Observation"
            )
        reward = observation.reward
        if type(reward) not in _REWARDS and not isinstance(reward, Real | np.bool_):
            raise ConfigError(
                f"{self._name}.{method}() gave a {type(reward).__name__} as reward; give a number, or None"
            )
        flags = type(observation.done), type(observation.terminated), type(observation.truncated)
        if flags != _USUAL or type(observation.metadata) is not dict:
            self._check_flags(observation, method)
        return observation

    def _check_flags(self, observation: Observation, method: str) -> None:
        for name, kinds in _FLAGS.items():
            value = getattr(observation, name)
            if not isinstance(value, kinds):
                raise ConfigError(
                    f"{self._name}.{method}() gave a {type(value).__name__} as {name}; give a"
                    f" {kinds[0].__name__}"
                )

    def _transformed(self, observation: Observation) -> Observation:
        for transform in self.environment.transforms:
            observation = self._checked(self.settle(transform(observation)), "transforms")
        return observation

    def _scored(self, action: Any, observation: Observation) -> Observation:
        rubric = self.environment.rubric
        assert rubric is not None
        done = any(ending_of(observation))
        if observation.done != done:
            observation = replace(observation, done=done)  # what trajectory rubrics look at
        reward = self.settle(rubric(action, observation))
        tree = {"": rubric, **dict(rubric.named_rubrics())}
        facts: dict[str, Any] = {"scores": {path: part.last_score for path, part in tree.items()}}
        if done:
            credit = {
                path: part.credit()
                for path, part in tree.items()
                if isinstance(part, TrajectoryRubric) and part.final_score is not None
            }
            if credit:
                facts["credit"] = credit
        return replace(observation, reward=reward, metadata={**observation.metadata, "rubric": facts})

    def _metadata(self) -> dict[str, Any]:
        about = self.environment.describe()
        if not isinstance(about, EnvironmentMetadata):
            raise ConfigError(
                f"{self._name}.describe() returned a {type(about).__name__}; return an EnvironmentMetadata"
            )
        described: dict[str, Any] = msgspec.structs.asdict(about)
        return described

    def _tools_list(self) -> list[dict[str, Any]]:
        return [msgspec.structs.asdict(tool) for tool in self._table().list()]

    def _tools_call(
        self, name: str, arguments: dict[str, Any] | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        self._table()
        asked = {"tool_name": name, "arguments": arguments or {}, "timeout": timeout}
        action: CallToolAction = from_map(CallToolAction, asked)
        observation = self.step(action)
        if not isinstance(observation, CallToolObservation):
            raise ConfigError(
                f"{self._name}.step() answered the call of a tool with a {type(observation).__name__};"
                " return super().step(action) for CallToolAction"
            )
        error = observation.error
        if error is None:
            return result_form(observation.result)
        if error.error_type == "tool_not_found":
            raise ToolNotFoundError(error.message, tool=name)
        if error.error_type == "invalid_args":
            raise ValidationError(error.message, path="$.arguments", tool=name)
        return error_form(error.message)

    def _table(self) -> Any:
        table = self.environment.tool_table
        if table is None:
            raise UnsupportedError(f"{self._name} has no tools")
        return table

    def _tasks(self, method: str, *arguments: Any) -> Any:
        provider: Callable[..., Any] | None = getattr(self.environment, method, None)
        if provider is None:
            raise UnsupportedError(f"{self._name} has no {method}(): it provides no tasks")
        return self.settle(provider(*arguments))


def _check(environment: Any) -> None:
    """Raise ConfigError if what an author set is not what it has to be."""
    if not isinstance(environment, Environment):
        raise ConfigError(f"an instance of a subclass of Environment is played, not {environment!r:.80}")
    kind, rubric = environment.state_type, environment.rubric
    transforms, tools, timeout = environment.transforms, environment.tools, environment.tool_timeout
    wrong = {
        "state_type": (isinstance(kind, type) and issubclass(kind, State), "a subclass of State", kind),
        "rubric": (rubric is None or isinstance(rubric, Rubric), "an instance of a Rubric, or None", rubric),
        "transforms": (
            isinstance(transforms, Sequence) and all(map(callable, transforms)),
            "a list of functions",
            transforms,
        ),
        "tools": (isinstance(tools, Sequence) and not isinstance(tools, str), "a list of MCP servers", tools),
        "tool_timeout": (
            timeout is None or (isinstance(timeout, int | float) and timeout > 0),
            "a positive number of seconds, or None for no limit",
            timeout,
        ),
    }
    for name, (right, wanted, found) in wrong.items():
        if not right:
            owner = type(environment).__name__
            raise ConfigError(f"{owner}.{name} has to be {wanted}, not {found!r:.80}", argument=name)


def _check_named(seed: Any, episode_id: Any) -> None:
    """Raise ValidationError if a seed is no whole number from 0 on, or the name of an episode no text."""
    if seed is not None and (type(seed) is bool or not isinstance(seed, int | np.integer) or seed < 0):
        raise ValidationError(f"$.seed: expected an int from 0 on, got {seed!r:.80}", path="$.seed")
    if episode_id is not None and not isinstance(episode_id, str):
        raise ValidationError(f"$.episode_id: expected a str, got {episode_id!r:.80}", path="$.episode_id")


async def _waiting(result: Any) -> Any:
    return await result


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _required_fields(kind: type) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


_TOPICS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "metadata": ((), Player._metadata),
    "tools/list": ((), Player._tools_list),
    "tools/call": (("name", "arguments?", "timeout?"), Player._tools_call),
    "tasks/environments": ((), lambda self: [self.environment.describe().name]),
    "tasks/splits": ((), lambda self: self._tasks("list_splits")),
    "tasks/list": (("split",), lambda self, split: self._tasks("list_tasks", split)),
    "tasks/count": (("split",), lambda self, split: self._tasks("num_tasks", split)),
    "tasks/get": (("split", "index"), lambda self, split, index: self._tasks("get_task", split, index)),
    "tasks/range": (
        ("split", "start?", "stop?"),
        lambda self, split, start=None, stop=None: self._tasks("get_task_range", split, start, stop),
    ),
}
