"""What an author inherits."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.environment import Environment, EnvironmentMetadata
from openenv_gym.errors import ConfigError, UnsupportedError
from openenv_gym.models import Action, CallToolAction, Observation, State
from openenv_gym.tools import tool
from tests.support.typedenvs import Calculator, Guess, GuessNumber, Hint, Mixed, Move, Place, Steps, Walk


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (GuessNumber, (Guess, Hint, State)),
        (Mixed, (Guess, Hint, State)),
        (Walk, (Move, Place, Steps)),
        (Environment, (Action, Observation, State)),
    ],
)
def test_types_come_from_the_bases(kind: Any, types: tuple[type, ...]) -> None:
    assert (kind.action_type, kind.observation_type, kind.state_type) == types


def test_types_may_be_named() -> None:
    class Named(Environment[Any, Any, Any]):
        action_type = Guess

    class Below(Named):
        observation_type = Hint

    assert (Below.action_type, Below.observation_type, Below.state_type) == (Guess, Hint, Any)


def test_the_state_is_of_its_type_and_can_be_set() -> None:
    walk = Walk()
    assert walk.state == Steps()
    walk.state = Steps(furthest=3)
    assert walk.state.furthest == 3


def test_a_state_that_only_the_author_can_make_is_asked_for() -> None:
    class Named(State):
        name: str

    class Needy(GuessNumber):
        state_type = Named

    with pytest.raises(
        ConfigError, match=r"Needy has no state yet.*Named: .*'name'; set self.state in reset"
    ):
        _ = Needy().state


def test_random_numbers_need_no_seed() -> None:
    environment = GuessNumber()
    assert environment.np_random is environment.np_random


@pytest.mark.parametrize("name", ["reset", "step", "state", "close"])
def test_no_tool_controls_the_episode(name: str) -> None:
    with pytest.raises(ConfigError, match=name):

        class Bad(Calculator):
            @tool(name=name)
            def control(self) -> None:
                """Never."""


@pytest.mark.parametrize("name", ["describe", "render", "own_actions"])
def test_no_tool_hides_a_method_of_the_base(name: str) -> None:
    def method(self: Any) -> None:
        """Never."""

    method.__name__ = name
    with pytest.raises(ConfigError, match=rf"Environment\.{name}"):
        type("Bad", (Calculator,), {name: tool(method)})
    kind: Any = type("Good", (Calculator,), {"other": tool(name=name)(method)})
    assert name in [each.name for each in kind().tool_table.list()]


def test_tools_begin_an_episode_without_an_observation() -> None:
    assert Calculator().reset() == Observation()
    assert GuessNumber().tool_table is None


def test_what_an_author_left_out_is_said() -> None:
    class Lazy(Environment[Guess, Hint, State]):
        pass

    for call in (Lazy().reset, Lazy().render, lambda: Lazy().step(Guess(1))):
        with pytest.raises(UnsupportedError, match="Lazy"):
            call()
    with pytest.raises(UnsupportedError, match="tools only, not Guess"):
        Calculator().step(Guess(1))


def test_it_describes_itself() -> None:
    assert GuessNumber().describe() == EnvironmentMetadata(
        name="GuessNumber", description="Guess a number from 1 to 100."
    )

    class Silent(GuessNumber):
        __doc__ = None

    assert Silent().describe().name == "Silent"


def test_own_actions() -> None:
    assert GuessNumber().own_actions()
    assert not Calculator().own_actions()
    union: Any = type("Either", (GuessNumber,), {"action_type": Guess | CallToolAction})
    assert union().own_actions()
