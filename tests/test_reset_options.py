"""Options of an author's ``reset`` are held against its annotations, whoever sends them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium as gym
import httpx
import msgspec
import numpy as np
import pytest
from msgspec import Meta
from websockets.sync.client import connect

from openenv_gym import GenericEnvClient
from openenv_gym.environment import Environment
from openenv_gym.errors import ConfigError, ValidationError
from openenv_gym.models import Array, State
from openenv_gym.reset_options import ResetOptions
from openenv_gym.typed_env import TypedEnv
from tests.support.serverproc import ServerProcess, serving
from tests.support.typedenvs import Guess, Hint

if TYPE_CHECKING:
    from nowhere import Unknown

_WRONG = "reset() of this environment: $.difficulty: expected int, got str: 'hard'"


class Mood(Enum):
    """How it is."""

    GOOD = "good"


class Place(msgspec.Struct):
    """Where it is."""

    x: int


class Own:
    """A class that no wire carries."""


class Graded(Environment[Guess, Hint, State]):
    """Takes a difficulty, and anything else."""

    def reset(self, *, seed: Any = None, difficulty: Annotated[int, Meta(ge=1)] = 1, **options: Any) -> Hint:
        """Say how hard it is."""
        return Hint(f"difficulty {difficulty}")

    def step(self, action: Guess) -> Hint:
        """Do nothing."""
        return Hint("done", done=True, reward=0.0)


def _reset(
    level: int,
    *,
    seed: int | None = None,
    episode_id: Unknown = None,
    mood: Mood = Mood.GOOD,
    place: Place | None = None,
    corner: tuple[int, int] = (0, 0),
    speed: float = 1.0,
    weather: Literal["rain", "sun"] = "sun",
    grid: Annotated[np.ndarray, Array("uint8", (2,))] | None = None,
    own: Own | None = None,
    free=object(),  # type: ignore[no-untyped-def]  # noqa: B008
    **others: int,
) -> Unknown:
    """Stands for an author's method."""


def _bound(**options: Any) -> dict[str, Any]:
    return ResetOptions(_reset).bind(None, "e", {"level": 1, **options})


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("level", np.int64(2), 2),
        ("mood", "good", Mood.GOOD),
        ("mood", Mood.GOOD, Mood.GOOD),
        ("place", {"x": 1}, Place(1)),
        ("place", Place(1), Place(1)),
        ("place", None, None),
        ("corner", [1, 2], (1, 2)),
        ("speed", 2, 2.0),
        ("weather", "rain", "rain"),
        ("free", ["anything", Own], ["anything", Own]),
        ("wind", 3, 3),
    ],
    ids=str,
)
def test_an_option_arrives_as_its_annotation_says(name: str, given: Any, taken: Any) -> None:
    found = _bound(**{name: given})
    assert found == {"level": 1, "episode_id": "e", name: taken}
    assert type(found[name]) is type(taken)


def test_arrays_and_classes_of_the_authors_are_options_too() -> None:
    own = Own()
    found = _bound(grid=[1, 2], own=own)
    assert found["own"] is own
    assert found["grid"].dtype == np.uint8
    assert found["grid"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "given", "message", "path"),
    [
        ("level", "1", "$.level: expected int, got str: '1'", "$.level"),
        ("level", True, "$.level: expected int, got bool: True", "$.level"),
        ("mood", "bad", "$.mood: expected one of 'good', got 'bad'", "$.mood"),
        ("place", {"x": "1"}, "$.place.x: expected int, got str: '1'", "$.place.x"),
        ("corner", [1], "$.corner: expected array of length 2, got 1: [1]", "$.corner"),
        ("weather", "fog", "$.weather: expected one of 'rain', 'sun', got 'fog'", "$.weather"),
        ("speed", None, "$.speed: expected float, got null: None", "$.speed"),
        ("wind", "strong", "$.wind: expected int, got str: 'strong'", "$.wind"),
    ],
)
def test_one_that_does_not_fit_is_named(name: str, given: Any, message: str, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _bound(**{name: given})
    assert (caught.value.message, caught.value.details) == (
        f"reset() of this environment: {message}",
        {"path": path},
    )


def test_one_that_is_missing_is_named() -> None:
    with pytest.raises(ValidationError, match=r"\$\.level: missing; it is required") as caught:
        ResetOptions(_reset).bind(None, "e", {})
    assert caught.value.details == {"path": "$.level"}


@pytest.mark.parametrize("name", ["self", 5])
def test_what_cannot_be_an_argument_is_refused(name: Any) -> None:
    with pytest.raises(ValidationError, match=f"takes no {name!r}; it takes anything else"):
        ResetOptions(_reset).bind(None, "e", {"level": 1, name: 1})


def test_seed_and_name_are_given_to_who_takes_them() -> None:
    def plain(level: int = 1) -> None: ...

    def seeded(*, seed: int | None = None, episode_id: str | None = None) -> None: ...

    assert ResetOptions(seeded).bind(3, "e", {}) == {"seed": 3, "episode_id": "e"}
    assert ResetOptions(plain).bind(None, "e", {"level": 2}) == {"level": 2}
    with pytest.raises(ValidationError, match="takes no 'seed'; it takes level"):
        ResetOptions(plain).bind(3, "e", {})


def test_wrapped_methods_are_looked_through() -> None:
    @functools.wraps(_reset)
    def around(*args: Any, **kwargs: Any) -> Any:
        return _reset(*args, **kwargs)

    assert ResetOptions(around).bind(None, "e", {"level": 1, "mood": "good"})["mood"] is Mood.GOOD


def test_annotations_that_say_nothing_are_refused_when_it_is_made() -> None:
    class Lost(Graded):
        def reset(self, *, difficulty: Unknown = None) -> Hint:
            return Hint()

    class Odd(Graded):
        def reset(self, *, level: list[int] | tuple[int, ...] = ()) -> Hint:
            return Hint()

    with pytest.raises(ConfigError, match="option 'difficulty' of reset.. cannot be resolved"):
        TypedEnv(Lost())
    with pytest.raises(ConfigError, match=r"^options of reset\(\) cannot be checked: Options\.level: "):
        TypedEnv(Odd())


def test_a_reset_that_is_refused_leaves_the_episode_as_it_was() -> None:
    env = TypedEnv(Graded())
    env.reset(options={"difficulty": 2})
    state = env.remote_state()
    with pytest.raises(ValidationError, match="expected int"):
        env.reset(options={"difficulty": "hard"})
    assert env.remote_state() == state
    assert env.step(50)[2]


# -- over every wire


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving("tests.test_reset_options:Graded", "--workers", "0") as server:
        yield server


def test_gymnasium_users_are_told(server: ServerProcess) -> None:
    env = gym.make("openenv/Remote-v0", base_url=server.url)
    with pytest.raises(ValidationError) as caught:
        env.reset(options={"difficulty": "hard"})
    assert caught.value.message.partition("\n")[0] == _WRONG
    assert caught.value.details["path"] == "$.difficulty"
    assert env.reset(options={"difficulty": 3})[0] == "difficulty 3"
    env.close()


def test_typed_clients_are_told(server: ServerProcess) -> None:
    with GenericEnvClient(server.url) as client:
        with pytest.raises(ValidationError) as caught:
            client.reset(difficulty="hard")
        assert caught.value.message.partition("\n")[0] == _WRONG
        assert caught.value.details["path"] == "$.difficulty"
        assert client.reset(difficulty=3).observation == {"text": "difficulty 3"}


def test_json_clients_are_told(server: ServerProcess) -> None:
    with connect(server.url.replace("http", "ws") + "/ws") as ws:
        ws.send(json.dumps({"type": "reset", "data": {"difficulty": "hard"}}))
        answer = json.loads(ws.recv())
        assert (answer["type"], answer["data"]["code"]) == ("error", "VALIDATION_ERROR")
        assert _WRONG in answer["data"]["message"]
        ws.send(json.dumps({"type": "reset", "data": {"difficulty": 3}}))
        assert json.loads(ws.recv())["data"]["observation"]["text"] == "difficulty 3"


def test_http_clients_are_told(server: ServerProcess) -> None:
    answer = httpx.post(f"{server.url}/reset", json={"difficulty": "hard"})
    assert answer.status_code == 422
    assert "$.difficulty: expected int" in answer.text
