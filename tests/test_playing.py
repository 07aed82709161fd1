"""What surrounds an author's methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym.environment import Environment
from openenv_gym.errors import (
    ConfigError,
    ResetNeededError,
    ToolNotFoundError,
    UnsupportedError,
    ValidationError,
)
from openenv_gym.models import (
    Action,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    Observation,
    State,
)
from openenv_gym.playing import Player, ending_of
from openenv_gym.rubrics import Rubric
from tests.support.typedenvs import (
    Calculator,
    Counted,
    Goal,
    Guess,
    GuessNumber,
    Hint,
    Mixed,
    Move,
    Raising,
    Steps,
    Walk,
)

Play = Callable[..., Player]


@pytest.fixture
def play() -> Iterator[Play]:
    """Make players, which are closed in the end."""
    players: list[Player] = []

    def make(environment: Environment[Any, Any, Any], limit: int = 0) -> Player:
        players.append(Player(environment, limit))
        return players[-1]

    yield make
    for player in players:
        player.close()


def _inside(player: Player) -> Any:
    return player.environment


@pytest.mark.parametrize(
    ("flags", "terminated", "truncated"),
    [
        ({}, False, False),
        ({"done": True}, True, False),
        ({"done": True, "truncated": True}, False, True),
        ({"terminated": True}, True, False),
        ({"terminated": True, "truncated": True}, True, True),
        ({"truncated": True}, False, True),
    ],
)
def test_how_an_episode_ends(flags: dict[str, Any], terminated: bool, truncated: bool) -> None:
    assert ending_of(Observation(**flags)) == (terminated, truncated)


def test_an_episode_and_its_books(play: Play) -> None:
    player = play(GuessNumber())
    first = player.reset(3, "mine", {"level": 2})
    assert first == Hint("between 1 and 100", metadata={"level": 2})
    assert player.state() == State(episode_id="mine", step_count=0)
    secret = _inside(player).secret
    assert player.step(Guess(secret)) == Hint("that is it", done=True, reward=1.0)
    assert player.state().step_count == 1
    player.reset(3)
    assert _inside(player).secret == secret
    assert player.state().episode_id not in (None, "mine")


def test_without_a_seed_the_numbers_go_on(play: Play) -> None:
    player = play(GuessNumber(highest=10**6))
    player.reset(1)
    first = _inside(player).secret
    player.reset()
    assert _inside(player).secret != first


def test_coroutines_run_on_a_loop_of_the_environment(play: Play) -> None:
    player = play(Walk())
    assert player.reset().at == 0
    place = player.step(Move("right"))
    assert (place.at, place.picture.tolist()) == (1, [[1] * 3] * 2)
    assert player.state() == Steps(episode_id=player.state().episode_id, step_count=1, furthest=1)


def test_coroutines_inside_a_loop_are_refused(play: Play) -> None:
    player = play(Walk())

    async def inside() -> None:
        player.reset()

    with pytest.raises(UnsupportedError, match="Walk has coroutines, and an event loop runs"):
        asyncio.run(inside())
    assert player.reset().at == 0


def test_a_delayed_reward_and_its_credit(play: Play) -> None:
    player = play(Walk())
    player.reset()
    first, last = player.step(Move("right")), player.step(Move("right"))
    assert (first.reward, last.reward) == (0.0, 1.0)
    assert first.metadata["rubric"] == {"scores": {"": 0.0, "goal": None}}
    assert last.metadata["rubric"] == {"scores": {"": 1.0, "goal": 1.0}, "credit": {"": [0.5, 1.0]}}
    player.reset()
    assert _inside(player).rubric.trajectory == []


def test_a_rubric_of_the_class_is_nobody_elses(play: Play) -> None:
    class Scored(GuessNumber):
        rubric = Goal()

    one, other = play(Scored()), play(Scored())
    assert len({id(_inside(one).rubric), id(_inside(other).rubric), id(Scored.rubric)}) == 3


def test_transforms_see_each_observation(play: Play) -> None:
    class Louder(GuessNumber):
        transforms = (lambda hint: Hint(hint.text.upper(), reward=hint.reward),)

    player = play(Louder())
    assert player.reset().text == "BETWEEN 1 AND 100"
    assert player.step(Guess(1)).text in ("MORE", "THAT IS IT")


@pytest.mark.parametrize("name", ["sede", "step", "self"])
def test_f070_an_option_nobody_takes_is_named(play: Play, name: str) -> None:
    with pytest.raises(ValidationError, match=f"no '{name}'") as caught:
        play(Walk()).reset(options={name: 1})
    assert caught.value.details == {"path": f"$.{name}"}


def test_no_option_is_taken_for_the_environment_itself(play: Play) -> None:
    with pytest.raises(ValidationError, match="no 'self'") as caught:
        play(GuessNumber()).reset(options={"self": 1})
    assert caught.value.details == {"path": "$.self"}


def test_a_seed_nobody_takes_is_an_error(play: Play) -> None:
    with pytest.raises(ValidationError, match="no 'seed'"):
        play(Walk()).reset(1)


def test_a_step_needs_an_episode_and_a_tool_begins_one(play: Play) -> None:
    with pytest.raises(ResetNeededError, match="call reset"):
        play(GuessNumber()).step(Guess(1))
    player = play(Calculator())
    observation = player.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
    assert observation == CallToolObservation(tool_name="add", result=3)
    assert player.state().step_count == 1


def test_an_episode_that_is_over_is_over(play: Play) -> None:
    player = play(Mixed(highest=1))
    player.reset()
    assert player.step(Guess(1)).done
    for action in (Guess(1), CallToolAction(tool_name="peek")):
        with pytest.raises(ResetNeededError, match="is over"):
            player.step(action)
    player.reset()
    assert player.step(CallToolAction(tool_name="peek")).result == 1


def test_f097_every_call_of_a_tool_is_a_step(play: Play) -> None:
    player = play(Counted())
    player.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
    assert player.ask("tools/call", {"name": "count"})["data"] == 2
    assert player.step(ListToolsAction()).tools[0].name == "count"
    assert _inside(player).steps == 3


def test_tools_beside_actions(play: Play) -> None:
    player = play(Mixed())
    player.reset(3)
    number = player.step(CallToolAction(tool_name="peek")).result
    assert player.step(Guess(number)).done


@pytest.mark.parametrize(
    ("name", "arguments", "timeout", "kind"),
    [
        ("sub", {}, 60.0, "tool_not_found"),
        ("add", {"a": 1}, 60.0, "invalid_args"),
        ("add", {"a": "1", "b": 2}, 60.0, "invalid_args"),
        ("fail", {"why": "so"}, 60.0, "execution_error"),
        ("later", {"value": "x", "delay": 30.0}, 0.02, "timeout"),
    ],
)
def test_what_a_tool_that_fails_is_observed_as(
    play: Play, name: str, arguments: dict[str, Any], timeout: float, kind: str
) -> None:
    action = CallToolAction(tool_name=name, arguments=arguments, timeout=timeout)
    observation = play(Calculator()).step(action)
    assert observation.result is None
    assert observation.error is not None
    assert observation.error.error_type == kind


def test_what_is_asked_besides(play: Play) -> None:
    player = play(Calculator())
    assert [row["name"] for row in player.ask("tools/list", {})] == ["add", "later", "fail", "hang"]
    assert player.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}) == {
        "content": [{"type": "text", "text": "3"}],
        "structured_content": {"result": 3},
        "data": 3,
        "is_error": False,
        "meta": None,
    }
    assert player.ask("tools/call", {"name": "fail", "arguments": {"why": "so"}})["is_error"] is True
    assert player.ask("metadata", {})["name"] == "Calculator"
    assert player.ask("metadata", {})["description"] == "Calculates."
    assert player.ask("tasks/environments", {}) == ["Calculator"]


@pytest.mark.parametrize(
    ("topic", "arguments", "error", "says"),
    [
        ("weather", {}, UnsupportedError, "weather"),
        ("tools/call", {}, ValidationError, "'name' is missing"),
        ("tools/call", {"name": "add", "x": 1}, ValidationError, "no argument 'x'"),
        ("tools/call", {"name": []}, ValidationError, "tool_name"),
        ("tools/call", {"name": "add", "arguments": [1]}, ValidationError, "arguments"),
        ("tools/call", {"name": "add", "timeout": "1"}, ValidationError, "timeout"),
        ("tools/call", {"name": "sub"}, ToolNotFoundError, "sub"),
        ("tools/call", {"name": "add", "arguments": {"a": 1}}, ValidationError, "b"),
        ("tasks/list", {"split": "train"}, UnsupportedError, "list_tasks"),
    ],
)
def test_what_cannot_be_asked(
    play: Play, topic: str, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        play(Calculator()).ask(topic, arguments)


def test_without_tools_there_are_none_to_ask_for(play: Play) -> None:
    with pytest.raises(UnsupportedError, match="no tools"):
        play(GuessNumber()).ask("tools/list", {})


def test_tasks_come_from_the_environment(play: Play) -> None:
    class Tasked(GuessNumber):
        def list_splits(self) -> list[str]:
            return ["train", "test"]

        def get_task_range(self, split: str, start: int | None, stop: int | None) -> list[int]:
            return list(range(start or 0, stop or 3))

    player = play(Tasked())
    assert player.ask("tasks/splits", {}) == ["train", "test"]
    assert player.ask("tasks/range", {"split": "train", "stop": 2}) == [0, 1]


def test_what_an_environment_raises_is_raised(play: Play) -> None:
    player = play(Raising())
    player.reset()
    with pytest.raises(RuntimeError, match="no 3 today"):
        player.step(Guess(3))


def test_what_is_no_observation_is_refused(play: Play) -> None:
    class Wrong(GuessNumber):
        def step(self, action: Guess) -> Any:
            return "more"

    player = play(Wrong())
    player.reset()
    with pytest.raises(ConfigError, match=r"Wrong.step\(\) returned a str"):
        player.step(Guess(3))


@pytest.mark.parametrize("reward", ["high", [1.0], np.array([1.0, 2.0]), {"score": 1}])
def test_a_reward_that_is_no_number_is_refused(play: Play, reward: Any) -> None:
    class Wrong(GuessNumber):
        def step(self, action: Guess) -> Any:
            return Hint("x", reward=reward)

    player = play(Wrong())
    player.reset()
    with pytest.raises(ConfigError, match=r"Wrong.step\(\) gave a \w+ as reward; give a number, or None"):
        player.step(Guess(3))


@pytest.mark.parametrize("reward", [None, True, 1, 0.5, float("nan"), np.float32(0.5), np.int64(2), np.True_])
def test_numbers_are_rewards_and_stay_what_they_are(play: Play, reward: Any) -> None:
    class Right(GuessNumber):
        def step(self, action: Guess) -> Any:
            return Hint("x", reward=reward)

    player = play(Right())
    player.reset()
    assert player.step(Guess(3)).reward is reward


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"done": "no"}, "a str as done; give a bool"),
        ({"terminated": 1}, "a int as terminated; give a bool"),
        ({"truncated": None}, "a NoneType as truncated; give a bool"),
        ({"metadata": None}, "a NoneType as metadata; give a dict"),
    ],
)
def test_a_flag_that_is_none_is_refused(play: Play, fields: dict[str, Any], what: str) -> None:
    class Wrong(GuessNumber):
        def step(self, action: Guess) -> Any:
            return Hint("x", **fields)

    player = play(Wrong())
    player.reset()
    with pytest.raises(ConfigError, match=rf"Wrong.step\(\) gave {what}"):
        player.step(Guess(3))


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("state_type", dict, "a subclass of State"),
        ("rubric", lambda action, observation: 1.0, "an instance of a Rubric"),
        ("rubric", Goal, "an instance of a Rubric"),
        ("transforms", len, "a list of functions"),
        ("transforms", ["upper"], "a list of functions"),
        ("tools", 5, "a list of MCP servers"),
        ("tools", "https://tools.example.org/mcp", "a list of MCP servers"),
        ("tool_timeout", 0, "a positive number of seconds"),
    ],
)
def test_what_an_author_sets_is_checked(name: str, value: Any, wanted: str) -> None:
    environment = GuessNumber()
    setattr(environment, name, value)
    with pytest.raises(ConfigError, match=rf"GuessNumber\.{name} has to be {wanted}") as caught:
        Player(environment)
    assert caught.value.details["argument"] == name


@pytest.mark.parametrize("what", [GuessNumber, 5])
def test_what_is_no_environment_is_refused(what: Any) -> None:
    with pytest.raises(ConfigError, match="an instance of a subclass of Environment is played, not"):
        Player(what)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "x"])
def test_a_seed_that_is_none_is_named(play: Play, seed: Any) -> None:
    player = play(GuessNumber())
    player.reset(7)
    with pytest.raises(ValidationError, match=r"\$\.seed: expected an int from 0 on") as caught:
        player.reset(seed)
    assert caught.value.details["path"] == "$.seed"
    assert player.step(Guess(3)).text  # the episode goes on


def test_the_name_of_an_episode_is_text(play: Play) -> None:
    with pytest.raises(ValidationError, match=r"\$\.episode_id: expected a str, got 5"):
        play(GuessNumber()).reset(None, 5)  # type: ignore[arg-type]


def test_a_description_that_is_none_is_refused(play: Play) -> None:
    class Wrong(GuessNumber):
        def describe(self) -> Any:
            return "guess"

    with pytest.raises(ConfigError, match=r"describe\(\) returned a str; return an EnvironmentMetadata"):
        play(Wrong()).ask("metadata", {})


def test_an_observation_that_the_author_keeps_is_left_as_it_is(play: Play) -> None:
    class Kept(Observation, frozen=True):
        at: int = 0

    class Keeps(Environment[Action, Kept, State]):
        rubric = Goal()
        seen = Kept()

        def reset(self, **options: Any) -> Kept:
            return self.seen

        def step(self, action: Any) -> Kept:
            return self.seen

    player = play(Keeps(), limit=1)
    for _ in range(2):
        player.reset()
        last = player.step(Action())
        assert (last.truncated, last.done, last.reward, last.metadata) == (
            True,
            True,
            0.0,
            {"rubric": {"scores": {"": 0.0}}},
        )
    assert Keeps.seen == Kept()


def test_an_episode_is_over_even_if_its_rubric_raises(play: Play) -> None:
    class Torn(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            raise ValueError("no score")

    class Judged(GuessNumber):
        rubric = Torn()

    player = play(Judged(1))
    player.reset()
    with pytest.raises(ValueError, match="no score"):
        player.step(Guess(1))
    with pytest.raises(ResetNeededError, match="over"):
        player.step(Guess(1))


def test_a_state_of_another_kind_is_named(play: Play) -> None:
    class Odd(GuessNumber):
        def reset(self, **options: Any) -> Hint:
            self.state = {}  # type: ignore[assignment]
            return Hint()

    with pytest.raises(ConfigError, match="Odd.state is a dict, not a State"):
        play(Odd()).reset()


def test_a_limit_truncates(play: Play) -> None:
    player = play(Walk(), limit=1)
    player.reset()
    assert ending_of(player.step(Move("left"))) == (False, True)


def test_an_author_may_count_steps(play: Play) -> None:
    class Own(GuessNumber):
        def step(self, action: Guess) -> Hint:
            self.state.step_count += 1
            return super().step(action)

    player = play(Own())
    player.reset()
    player.step(Guess(1))
    assert player.state().step_count == 1


def test_an_author_may_keep_the_state(play: Play) -> None:
    class Own(Environment[Action, Observation, State]):
        def reset(self, *, seed: int | None = None, **options: Any) -> Observation:
            self.seen = State(episode_id="own", step_count=7)
            return Observation()

        def step(self, action: Any) -> Observation:
            return Observation(reward=1.0)

        @property  # type: ignore[misc]
        def state(self) -> State:
            return self.seen

    player = play(Own())
    player.reset(1)
    player.step(Action())
    assert player.state() == State(episode_id="own", step_count=7)
