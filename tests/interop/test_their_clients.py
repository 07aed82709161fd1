"""Programs written for the openenv package, with its clients, against our server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from tests.tree import ROOT

from .peer import run_theirs

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

PLAYS = ["awaited", "blocking", "unawaited", "typed", "refused", "slow", "full", "broken", "tools"]
PLAYS += ["failing_tools"]
"""What ``their_calls.py`` does with any server."""


@pytest.fixture(scope="module")
def with_theirs(openenv: Path, theirs: dict[str, str]) -> dict[str, Any]:
    return dict(json.loads(run_theirs(openenv, "their_calls.py", json.dumps(theirs))))


@pytest.fixture(scope="module")
def with_ours(openenv: Path, ours: dict[str, str]) -> dict[str, Any]:
    return dict(json.loads(run_theirs(openenv, "their_calls.py", json.dumps(ours))))


@pytest.mark.parametrize("play", PLAYS)
def test_it_goes_as_with_their_server(
    play: str, with_theirs: dict[str, Any], with_ours: dict[str, Any]
) -> None:
    assert with_ours[play] == with_theirs[play]


def test_nothing_is_played_that_is_not_compared(
    with_theirs: dict[str, Any], with_ours: dict[str, Any]
) -> None:
    assert sorted(with_theirs) == sorted(PLAYS)
    assert sorted(with_ours) == sorted([*PLAYS, "echo", "echo_tools", "cartpole"])


def test_what_went_wrong_is_what_was_expected(with_ours: dict[str, Any]) -> None:
    assert with_ours["refused"][:2] == [
        ["RuntimeError", "VALIDATION_ERROR"],
        ["RuntimeError", "EXECUTION_ERROR"],
    ]
    assert with_ours["refused"][2] == "still there"
    assert with_ours["full"] == ["RuntimeError", "CAPACITY_REACHED"]
    assert with_ours["broken"] == ["RuntimeError", "FACTORY_ERROR"]
    assert with_ours["slow"][0] == "TimeoutError"
    assert [kind for kind, _ in with_ours["failing_tools"]] == ["RuntimeError"] * 3


def test_clients_of_the_first_echo_play_ours(with_ours: dict[str, Any]) -> None:
    first, step, count = with_ours["echo"]
    assert first[0]["echoed_message"] == "Echo environment ready!"
    assert (step[0]["echoed_message"], step[0]["message_length"]) == ("Hello, World!", 13)
    assert step[0]["metadata"] == {"message_length": 13}
    assert (step[1], step[2], count) == (pytest.approx(1.3), False, 1)


def test_tool_clients_play_echo(with_ours: dict[str, Any]) -> None:
    first, result, reward, length = with_ours["echo_tools"]
    assert (first, result) == ("Echo environment ready!", "Hello, World!")
    assert reward == pytest.approx(1.3)
    assert length == {"message": "hi", "length": 2}


def test_a_gymnasium_environment_is_played_as_it_is_here(with_ours: dict[str, Any]) -> None:
    env = gym.make("CartPole-v1")
    first, _ = env.reset(seed=7)
    then = env.step(1)[0]
    env.close()
    assert with_ours["cartpole"] == [first.tolist(), [{"observation": then.tolist()}, 1.0, False], 1]


def test_validate_passes(openenv: Path, ours: dict[str, str]) -> None:
    arguments = [["--url", ours[kind]] for kind in ("echo", "probe", "cartpole", "closed")]
    folder = [str(ROOT / "envs" / "echo_env"), "--level", "static", "--skip-build"]
    reports = json.loads(run_theirs(openenv, "their_validate.py", json.dumps([*arguments, folder])))
    *running, static = reports
    assert [(code, report["passed"], report["summary"]["failed_criteria"]) for code, report in running] == [
        (0, True, [])
    ] * 4
    assert [report["mode"] for _, report in running] == ["simulation"] * 3 + ["production"]
    assert {report["standard_profile"] for _, report in running} == {"openenv-http/1.x"}
    assert (static[0], static[1]["verdict"]) == (0, "pass")
