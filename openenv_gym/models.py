"""Typed actions, observations and states, as msgspec Structs.

An environment's own are subclasses::

    class Guess(Action):
        number: Annotated[int, Meta(ge=1, le=100)]

They travel as maps of their fields. ``done``, ``terminated``, ``truncated``, ``reward`` and ``metadata`` of
an observation travel beside it, not in it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

__all__ = [
    "Action",
    "Array",
    "CallToolAction",
    "CallToolObservation",
    "ListToolsAction",
    "ListToolsObservation",
    "Observation",
    "State",
    "StepResult",
    "Tool",
    "ToolError",
    "ToolErrorType",
    "ToolList",
]

ObservationT = TypeVar("ObservationT")


@dataclass(frozen=True)
class Array:
    """What a numpy array in a field looks like: ``Annotated[np.ndarray, Array("uint8", (210, 160, 3))]``.

    Attributes:
        dtype: Name of its dtype.
        shape: Its shape; ``-1`` is any size.
        low, high: Bounds of its items; ``None``: those of the dtype.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None


class Action(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an agent does. Subclasses add fields.

    Attributes:
        metadata: Whatever goes with it; the only part without a fixed form.
    """

    metadata: dict[str, Any] = {}


class Observation(msgspec.Struct, kw_only=True):
    """What an environment answers. Subclasses add fields.

    Attributes:
        done: The episode is over: it terminated, unless ``truncated`` says otherwise.
        terminated: It reached an end of its own.
        truncated: It was cut off.
        reward: Of the step that led here; ``None``: there is none.
        metadata: What goes with it; a Gymnasium user's ``info``.
    """

    done: bool = False
    terminated: bool = False
    truncated: bool = False
    reward: bool | int | float | None = None
    metadata: dict[str, Any] = {}


class State(msgspec.Struct, kw_only=True):
    """Where an episode stands. Subclasses add fields.

    Attributes:
        episode_id: Its name.
        step_count: Steps since its reset.
    """

    episode_id: str | None = None
    step_count: int = 0

    def __await__(self) -> Generator[None, None, Self]:
        """Return the state itself, so that code written for either kind of client works."""
        yield from ()
        return self


@dataclass
class StepResult(Generic[ObservationT]):
    """What ``reset()`` and ``step()`` of a typed client return. It may be awaited, and is itself then.

    Attributes:
        observation: The environment's answer.
        reward: Reward of the step; ``None``: there is none.
        done: Whether the episode is over.
        metadata: What goes with it.
        terminated, truncated: How it ended, if it did.
    """

    observation: ObservationT
    reward: bool | int | float | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False
    truncated: bool = False

    def __await__(self) -> Generator[None, None, StepResult[ObservationT]]:
        """Return the result itself."""
        yield from ()
        return self


# -- tools


class Tool(msgspec.Struct, kw_only=True):
    """A tool that an environment offers.

    Attributes:
        name: Its name.
        description: What it does.
        input_schema: JSON Schema of its arguments, an object.
        output_schema: JSON Schema of its result, if it has one.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None


class ToolList(list[Tool]):
    """What ``list_tools()`` of a typed client returns. It may be awaited, and is itself then."""

    def __await__(self) -> Generator[None, None, Self]:
        """Return the list itself."""
        yield from ()
        return self


ToolErrorType = Literal["tool_not_found", "invalid_args", "execution_error", "timeout", "transport_error"]


class ToolError(msgspec.Struct, kw_only=True):
    """Why a tool gave no result.

    Attributes:
        error_type: Which kind of failure.
        message: What was wrong.
    """

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action, tag_field="type", tag="list_tools"):
    """Ask for the environment's tools."""


class CallToolAction(Action, omit_defaults=True, tag_field="type", tag="call_tool"):
    """Call a tool.

    Attributes:
        tool_name: Its name.
        arguments: Its arguments by name.
        timeout: How long it may take, in seconds; ``None``: what the tool or the environment says.
    """

    tool_name: str
    arguments: dict[str, Any] = {}
    timeout: float | None = None


class ListToolsObservation(Observation):
    """The answer to :class:`ListToolsAction`."""

    tools: list[Tool]


class CallToolObservation(Observation):
    """The answer to :class:`CallToolAction`.

    Attributes:
        tool_name: The tool.
        result: What it returned.
        error: Why it returned nothing.
    """

    tool_name: str
    result: Any = None
    error: ToolError | None = None
