"""Programs of users, for type checkers alone: ``mypy`` reads them, nothing runs them."""

from __future__ import annotations

from typing import Any, assert_type

from openenv_gym import (
    Action,
    CallToolAction,
    EnvClient,
    Environment,
    GenericEnvClient,
    MCPToolClient,
    Observation,
    State,
    StepResult,
    SyncEnvClient,
    tool,
)
from openenv_gym.client import SyncToolClient
from openenv_gym.models import Tool, ToolList
from openenv_gym.rubrics import Gate, Rubric, Sequential, WeightedSum

__all__ = ["Board", "Chess", "ChessClient", "ChessTools", "Foreign", "ForeignClient", "Look", "Move"]


class Move(Action):
    """An action."""

    to: str


class Look(Observation):
    """An observation."""

    board: str = ""


class Board(State):
    """A state."""

    moves: int = 0


class Won(Rubric):
    """A rubric that is computed at once."""

    def forward(self, action: Move, observation: Look) -> float:
        """Return the score."""
        return float(observation.done)


class Elegant(Rubric):
    """A rubric that has to be awaited."""

    async def forward(self, action: Move, observation: Look) -> float:
        """Return the score."""
        return 1.0


class Chess(Environment[Move, Look, Board]):
    """An environment with everything in it."""

    rubric = Sequential(Gate(Won()), WeightedSum([Won(), Elegant()], [0.5, 0.5]))

    def reset(self, *, seed: int | None = None, level: int = 1) -> Look:
        """Begin."""
        self.state.moves = level
        return Look()

    async def step(self, action: Action) -> Observation:
        """Go on."""
        return Look(board=action.to) if isinstance(action, Move) else Observation()

    @tool
    def undo(self, count: int = 1) -> int:
        """Take moves back."""
        return assert_type(self.state, Board).moves - count


class ChessClient(EnvClient[Move, Look, Board]):
    """A client."""


class ChessTools(MCPToolClient[Move | CallToolAction, Look, Board]):
    """A client with tools."""


async def awaited(client: ChessClient) -> None:
    """Use a client on an event loop."""
    assert_type(await client.connect(), ChessClient)
    assert_type(await client.new_session(), ChessClient)
    assert_type(await ChessClient.from_docker_image("chess", provider=None), ChessClient)
    assert_type(await ChessClient.from_env("acme/chess"), ChessClient)
    async with client as same:
        assert_type(same, ChessClient)
        assert_type(await same.reset(seed=1), StepResult[Look])
        assert_type((await same.step(Move("e4"))).observation, Look)
        assert_type(await same.state(), Board)


def blocking(client: ChessClient, generic: GenericEnvClient, untyped: EnvClient[Any, Any, Any]) -> None:
    """Use clients without one."""
    assert_type(client.step(Move("e4")).observation.board, str)
    assert_type(client.state(), Board)
    assert_type(client.connect(), ChessClient)
    assert_type(client.new_session().reset().observation, Look)
    assert_type(client.sync().connect(), SyncEnvClient[Move, Look, Board])
    assert_type(client.sync().new_session().sync(), SyncEnvClient[Move, Look, Board])
    with client.sync() as sync:
        assert_type(sync, SyncEnvClient[Move, Look, Board])
        assert_type(sync.state(), Board)
    assert_type(generic.reset().observation, dict[str, Any])
    assert_type(generic.state(), Any)
    assert_type(untyped.state(), Any)


async def with_tools(chess: ChessTools, untyped: MCPToolClient) -> None:
    """Call tools."""
    assert_type(await chess.list_tools(), ToolList)
    assert_type(chess.list_tools()[0].name, str)
    assert_type((await chess.step(Move("e4"))).observation, Look)
    assert_type(await chess.state(), Board)
    assert_type(chess.last_result, StepResult[Look] | None)
    assert_type((await chess.step(CallToolAction(tool_name="undo"))).observation, Look)
    assert_type((await untyped.reset()).observation, Any)


def with_tools_blocking(chess: ChessTools, untyped: MCPToolClient) -> None:
    """Call tools without an event loop."""
    assert_type(chess.connect(), ChessTools)
    with chess.sync() as sync:
        assert_type(sync, SyncToolClient[Move | CallToolAction, Look, Board])
        assert_type(sync.new_session(), SyncToolClient[Move | CallToolAction, Look, Board])
        assert_type(sync.list_tools(use_cache=False), list[Tool])
        assert_type(sync.get_tool("undo"), Tool | None)
        assert_type(sync.has_tool("undo"), bool)
        assert_type(sync.call_tool("undo", count=2), Any)
        assert_type(sync.last_result, StepResult[Look] | None)
        assert_type(sync.step(Move("e4")).observation, Look)
    assert_type(untyped.sync().state(), Any)


class Foreign:
    """A state that is no Struct, such as a model of pydantic."""


class ForeignClient(EnvClient[Move, Look, Foreign]):
    """A client whose states cannot be awaited when they are there."""


async def foreign(client: ForeignClient) -> None:
    """Use it on an event loop, and without one."""
    assert_type(await client.state(), Any)
    assert_type(client.sync().state(), Foreign)
