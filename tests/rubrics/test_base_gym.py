"""Rubrics in an environment behind a server, as a Gymnasium user meets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

import openenv_gym
from openenv_gym.errors import JudgeError, RubricError


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    assert openenv_gym.__version__
    env = gym.make("openenv/Gym-v0", env_id="tests.rubrics.served:Talk", provider="inprocess")
    yield env
    env.close()


def test_scores_arrive_by_path(env: Any) -> None:
    env.reset()
    _, reward, _, _, info = env.step("0.5")
    assert reward == 0.75
    assert info["rubric"]["scores"] == {
        "": 0.75,
        "rubric_0": 0.5,
        "rubric_1": 0.75,
        "rubric_1.rubric_0": 0.5,
        "rubric_1.rubric_1": 1.0,
        "rubric_1.rubric_2": 1.0,
    }


def test_what_did_not_run_has_no_score(env: Any) -> None:
    env.reset()
    env.step("0.5")
    _, reward, _, _, info = env.step("0")
    assert reward == 0.0
    assert info["rubric"]["scores"]["rubric_0"] == 0.0
    assert info["rubric"]["scores"]["rubric_1.rubric_1"] is None


def test_what_fails_is_an_error_and_no_reward(env: Any) -> None:
    env.reset()
    with pytest.raises(RubricError, match="Echoed 'rubric_0' gave nan as its score"):
        env.step("nan")
    env.reset()
    with pytest.raises(JudgeError, match="could not ask its model: ConnectionError: gone") as caught:
        env.step("0.125")
    assert caught.value.details["rubric"] == "LLMJudge 'rubric_0'"
    env.reset()
    with pytest.raises(JudgeError, match="2.0 is not between 0.0 and 1.0"):
        env.step("2")
    env.reset()
    assert env.step("1")[1] == 1.0
