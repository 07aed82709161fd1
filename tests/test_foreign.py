"""RemoteEnv on servers that speak OpenEnv's JSON."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from websockets.datastructures import Headers
from websockets.http11 import Response

from openenv_gym import errors
from openenv_gym.env import RemoteEnv
from openenv_gym.spaces import Unicode
from tests.client.jsonserver import SCHEMAS, JsonServer, observation, serving_json


class Echo:
    """What an environment of OpenEnv answers: it says what it is told."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.release = threading.Event()

    def __call__(self, message: dict[str, Any], connection: int) -> Any:
        if message["type"] == "state":
            return {"type": "state", "data": {"episode_id": "e", "step_count": connection, "mine": [1]}}
        data = message.get("data", {})
        if message["type"] == "reset":
            seed = data.get("seed")
            return observation({"echoed": "" if seed is None else f"seed {seed}"}, metadata={"told": data})
        said = data["message"]
        if said == "cut":
            raise ConnectionAbortedError
        if said == "slow":
            self.release.wait(60)
        if said == "boom":
            return {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "kaboom"}}
        return observation({"echoed": said}, **{"reward": 0.5, **self.reply})


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def server(echo: Echo) -> Iterator[JsonServer]:
    with serving_json(echo) as server:
        yield server
        echo.release.set()  # before the server waits for who answers slowly


@pytest.fixture
def env(server: JsonServer) -> Iterator[RemoteEnv]:
    env = RemoteEnv(base_url=server.url)
    yield env
    env.close()


def test_spaces_are_made_of_the_servers_schemas(env: RemoteEnv) -> None:
    assert env.action_space == Unicode(64, min_length=1)
    assert env.observation_space == Unicode(64)
    assert (env.metadata, env.render_mode) == ({"render_modes": []}, None)


def test_an_episode_is_played_like_any_other(env: RemoteEnv, server: JsonServer) -> None:
    first = env.reset(seed=3, options={"colour": "red", "where": (1, 2), "array": np.arange(2)})
    told = {"seed": 3, "colour": "red", "where": [1, 2], "array": [0, 1]}
    assert first == ("seed 3", {"told": told})
    assert env.step("hi") == ("hi", 0.5, False, False, {})
    assert env.remote_state() == {"episode_id": "e", "step_count": 1, "mine": [1]}
    assert server.seen[1:] == [{"type": "step", "data": {"message": "hi"}}, {"type": "state"}]


def test_it_passes_the_checker(env: RemoteEnv) -> None:
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"reward": None}, (0.0, False, False, {"openenv": {"reward": None}})),
        (
            {"reward": None, "metadata": {"a": 1}},
            (0.0, False, False, {"a": 1, "openenv": {"reward": None}}),
        ),
        ({"done": True}, (0.5, True, False, {})),
        ({"done": True, "truncated": True}, (0.5, False, True, {})),
        ({"done": True, "terminated": True, "truncated": True}, (0.5, True, True, {})),
        ({"reward": True}, (True, False, False, {})),
        ({"metadata": {"x": [1, None]}}, (0.5, False, False, {"x": [1, None]})),
    ],
)
def test_rewards_ends_and_metadata_have_gymnasiums_form(
    env: RemoteEnv, echo: Echo, reply: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    echo.reply = reply
    env.reset()
    assert env.step("x")[1:] == expected


def test_a_reward_that_json_lacks_is_a_number_again(env: RemoteEnv, echo: Echo) -> None:
    echo.reply = {"reward": "NaN"}
    env.reset()
    assert math.isnan(env.step("x")[1])


@pytest.mark.parametrize("action", ["", "x" * 65, 3, {"message": "x"}])
def test_an_action_outside_the_space_is_not_sent(env: RemoteEnv, server: JsonServer, action: Any) -> None:
    env.reset()
    with pytest.raises(errors.InvalidActionError, match="not in the action space"):
        env.step(action)
    assert len(server.seen) == 1
    assert env.step("ok")[0] == "ok"


def test_what_the_environment_raises_leaves_the_session(env: RemoteEnv) -> None:
    env.reset()
    with pytest.raises(errors.RemoteEnvironmentError, match="kaboom"):
        env.step("boom")
    assert env.step("x")[0] == "x"


def test_the_seed_is_given_once(env: RemoteEnv) -> None:
    assert env.reset(options={"seed": 4})[1] == {"told": {"seed": 4}}
    with pytest.raises(errors.ValidationError, match="given twice"):
        env.reset(seed=3, options={"seed": 4})


def test_a_lost_connection_is_a_lost_episode(env: RemoteEnv) -> None:
    env.reset()
    with pytest.raises(errors.SessionLostError, match="with it the session"):
        env.step("cut")
    with pytest.raises(errors.ResetNeededError):
        env.step("x")
    assert env.reset()[0] == ""
    assert env.remote_state()["step_count"] == 2


def test_a_connection_that_broke_while_idle_is_noticed_by_reset(env: RemoteEnv) -> None:
    env.reset()
    assert env._connection is not None
    env._connection._link._channel.shutdown()  # type: ignore[union-attr]
    assert env.reset()[0] == ""
    assert env.remote_state()["step_count"] == 2


def test_on_error_truncate_marks_a_lost_episode(server: JsonServer) -> None:
    env = RemoteEnv(base_url=server.url, on_error="truncate", step_timeout=5.0)
    for action, error in (("cut", "session_lost"), ("slow", "deadline_exceeded")):
        env.reset(seed=1)
        observed, reward, terminated, truncated, info = env.step(action)
        assert (observed, reward, terminated, truncated) == ("seed 1", 0.0, False, True)
        assert info["openenv"]["error"] == error
    env.close()


def test_what_the_language_lacks_is_said(env: RemoteEnv) -> None:
    env.reset()
    assert not hasattr(env, "gravity")
    for request in (env.render, lambda: setattr(env, "gravity", 1)):
        with pytest.raises(errors.UnsupportedError, match="speaks OpenEnv's JSON, which has no"):
            request()
    assert env.step("x")[0] == "x"


@pytest.mark.parametrize(
    ("options", "says"),
    [({"gravity": 1}, "cannot hand 'gravity'"), ({"render_mode": "ansi"}, "leave out render_mode")],
)
def test_what_a_server_cannot_be_told_is_refused(
    server: JsonServer, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(errors.ConfigError, match=says):
        RemoteEnv(base_url=server.url, **options)


def test_a_full_server_is_told_by_the_first_call() -> None:
    full = {"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full", "max_sessions": 1}}
    with serving_json(greeting=full) as server:
        env = RemoteEnv(base_url=server.url)
        with pytest.raises(errors.CapacityError, match="full"):
            env.reset()
        env.close()


@pytest.mark.parametrize(
    "page",
    [
        {},
        [],
        {"action": SCHEMAS["action"]},
        {**SCHEMAS, "observation": {"$ref": "#/nowhere"}},
        {**SCHEMAS, "observation": 3},
    ],
)
def test_a_server_without_schemas_is_refused(server: JsonServer, page: Any) -> None:
    server.pages["/schema"] = page
    with pytest.raises(errors.RemoteProtocolError, match="does not say what actions"):
        RemoteEnv(base_url=server.url)


def test_a_server_that_answers_no_http_is_refused(server: JsonServer) -> None:
    server.pages["/schema"] = Response(404, "Not Found", Headers(), b"")
    with pytest.raises(errors.UnsupportedError, match="HTTP 404"):
        RemoteEnv(base_url=server.url)


def test_an_observation_that_does_not_fit_its_schema_is_the_servers_fault() -> None:
    with serving_json(lambda message, number: observation({"echoed": 3})) as server:
        env = RemoteEnv(base_url=server.url)
        with pytest.raises(errors.RemoteProtocolError, match=r"does not fit the server's schema: .*echoed"):
            env.reset()
        env.close()


def test_other_schemas_after_a_reconnection_are_another_environment(server: JsonServer) -> None:
    env = RemoteEnv(base_url=server.url)
    env.reset()
    with pytest.raises(errors.SessionLostError):
        env.step("cut")
    other = copy.deepcopy(SCHEMAS)
    other["action"]["properties"]["message"]["maxLength"] = 9  # type: ignore[index]
    server.pages["/schema"] = other
    with pytest.raises(errors.EnvironmentMismatchError):
        env.reset()
    env.close()


TOOLS = {
    "action": {
        "type": "object",
        "required": ["tool_name"],
        "properties": {
            "type": {"const": "call_tool", "default": "call_tool", "type": "string"},
            "tool_name": {"type": "string"},
            "arguments": {"type": "object", "additionalProperties": True},
        },
    },
    "observation": {
        "type": "object",
        "required": ["tool_name"],
        "properties": {"tool_name": {"type": "string"}, "result": {"default": None}},
    },
}


def test_the_first_observation_of_an_environment_of_tools_has_no_tool() -> None:
    def answer(message: dict[str, Any], connection: int) -> Any:
        if message["type"] == "reset":
            return observation({})
        return observation({"tool_name": message["data"]["tool_name"], "result": {"data": 7}})

    with serving_json(answer) as server:
        server.pages["/schema"] = TOOLS
        env = RemoteEnv(base_url=server.url)
        first, _ = env.reset()
        assert first in env.observation_space
        second, *_ = env.step(env.action_space.sample())
        assert second in env.observation_space
        assert second["result"] == {"data": 7}
        env.close()


def test_a_schema_of_its_own_for_reset_is_part_of_the_space() -> None:
    schemas = copy.deepcopy(SCHEMAS)
    schemas["reset_observation"] = {
        "type": "object",
        "required": ["rules"],
        "properties": {"rules": {"type": "string", "maxLength": 9}},
    }

    def answer(message: dict[str, Any], connection: int) -> Any:
        return observation({"rules": "none"} if message["type"] == "reset" else {"echoed": "x"})

    with serving_json(answer) as server:
        server.pages["/schema"] = schemas
        env = RemoteEnv(base_url=server.url)
        assert set(env.observation_space.spaces) == {"echoed", "rules"}  # type: ignore[attr-defined]
        assert env.reset()[0] in env.observation_space
        assert env.step("x")[0] in env.observation_space
        env.close()


def test_gymnasium_makes_it_by_its_address(server: JsonServer) -> None:
    env = gym.make("openenv/Remote-v0", base_url=server.url)
    env.reset(seed=1)
    assert env.step("hi")[0] == "hi"
    env.close()


def test_an_interrupted_step_is_never_taken_for_the_next_one(
    env: RemoteEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.reset()
    link = env._connection._link  # type: ignore[union-attr]

    def interrupted(patience: float | None = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(link, "collect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        env.step("first")
    with pytest.raises(errors.ResetNeededError):
        env.step("second")
    assert env.reset()[0] == ""
    assert env.step("third")[0] == "third"
